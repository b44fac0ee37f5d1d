"""What a session said, with its times: exact on a mock clock."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.clients import DuplexSessionClosedError, EventCollector, InlineDuplexClient, PlaybackCursor
from duplex_trio.clients.distribution import Distribution, distribution_summary
from duplex_trio.clients.events import parse_event
from duplex_trio.engine import SessionLimits
from duplex_trio.models.scripted.script import Script
from duplex_trio.testing import scripted_omni

SCRIPT = Script(replies={"hello": "one two three"}, word_ms=200)


async def test_two_answers_are_kept_and_timed(autojump_clock: MockClock) -> None:
    collector = EventCollector()
    async with (
        scripted_omni(SCRIPT) as omni,
        InlineDuplexClient(omni, playback=PlaybackCursor()) as client,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(collector.collect, client.events())
        for _ in range(2):
            await client.create_item("hello")
            await client.create_response()
            await client.wait_for("response.done")
            await trio.sleep(1)
        await client.close()
    first, second = collector.response_ids
    timing = collector.timing_summary(first)
    assert timing.status == "completed"
    assert timing.audio_duration_ms == 600
    assert len(collector.audio(first)) == 600 * 48
    assert timing.ttft_ms is not None
    assert timing.ttfp_ms is not None
    assert 0 < timing.ttft_ms <= timing.ttfp_ms < 200
    assert sum(timing.chunk_gaps_ms) == pytest.approx(timing.audio_generation_ms)
    assert timing.real_time_factor is not None
    assert timing.real_time_factor < 1
    together = collector.global_timing_summary()
    assert together.responses == 2
    assert together.audio_duration_ms is not None
    assert (together.audio_duration_ms.count, together.audio_duration_ms.max) == (2, 600)
    assert collector.session_metrics()["ttfp_ms"].count == 2
    assert collector.ended_by is None
    assert [event.type for event in collector.events][-1] == "session.closed"
    assert collector.timing_summary(second).response_id == second


async def test_a_written_answer_has_no_sound(autojump_clock: MockClock) -> None:
    collector = EventCollector()
    async with scripted_omni(SCRIPT) as omni, InlineDuplexClient(omni) as client:
        events = client.events()
        await client.create_item("hello")
        await client.create_response(output_modalities=["text"])
        async for event in events:
            collector.observe(event)
            if event.type == "response.done":
                break
    timing = collector.timing_summary(collector.response_ids[0])
    assert timing.ttft_ms is not None
    assert (timing.ttfp_ms, timing.audio_duration_ms, timing.real_time_factor) == (None, 0, None)
    assert collector.global_timing_summary().chunk_gaps_ms is None
    with pytest.raises(KeyError):
        collector.audio("nothing")


def test_the_first_text_is_the_first_also_where_time_begins() -> None:
    collector = EventCollector()
    for type, at_s in [("created", 0.0), ("output_text.delta", 0.0), ("output_text.delta", 2.0)]:
        raw = {"type": f"response.{type}", "response_id": "r", "delta": "a", "response": {"id": "r"}}
        collector.observe(parse_event(raw, received_at_s=at_s))
    assert collector.timing_summary("r").ttft_ms == 0


async def test_who_stops_collecting_costs_the_client_nothing(autojump_clock: MockClock) -> None:
    collector = EventCollector()
    async with scripted_omni(SCRIPT) as omni, InlineDuplexClient(omni) as client:
        stream = client.events()
        with trio.move_on_after(1):
            await collector.collect(stream)
        kept = len(collector.events)
        await client.create_item("hello")
        await client.create_response()
        await client.wait_for("response.done")
        assert len(collector.events) == kept
        with pytest.raises(trio.ClosedResourceError):
            await anext(stream)


async def test_how_a_session_ended_is_kept(autojump_clock: MockClock) -> None:
    collector = EventCollector()
    limits = SessionLimits(idle_ttl_s=5.0)
    async with scripted_omni(limits=limits) as omni, InlineDuplexClient(omni) as client:
        await collector.collect(client.events())
    assert isinstance(collector.ended_by, DuplexSessionClosedError)


def test_readings_are_summed_up() -> None:
    summary = distribution_summary([float(value) for value in range(1, 101)])
    assert summary is not None
    assert (summary.count, summary.mean, summary.p50, summary.p90, summary.p99, summary.max) == (
        100,
        50.5,
        50,
        90,
        99,
        100,
    )
    assert distribution_summary([3.0, 1.0, 2.0]) == Distribution(3, mean=2, p50=2, p90=3, p99=3, max=3)
    assert distribution_summary([]) is None
