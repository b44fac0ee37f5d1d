"""What a scrape shows of sessions that live and of those that have ended."""

from __future__ import annotations

from pathlib import Path

import attrs
import trio
from prometheus_client.parser import text_string_to_metric_families

from duplex_trio.engine import SessionLimits
from duplex_trio.engine.metrics import _HISTOGRAMS, _TOTALS
from duplex_trio.engine.video.engine import VideoEngine
from duplex_trio.entrypoints.async_omni import AsyncOmni
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.native import NativePipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.turns import TurnsPipeline
from duplex_trio.models.scripted.video import ScriptedVideoPipeline
from duplex_trio.protocol.duplex import (
    BargeIn,
    CloseSession,
    ResponseDone,
    ResponseListen,
    ResponseOutputAudioDelta,
    SessionExpired,
)
from duplex_trio.session.counters import SessionCounters
from duplex_trio.session.state.histogram import Histogram
from duplex_trio.testing import open_talker, scripted_omni

LONG = "alpha bravo charlie delta echo foxtrot golf hotel india juliet " * 4


def figures(omni: DuplexOmni) -> dict[str, float]:
    """Every sample by its name and labels."""
    families = text_string_to_metric_families(omni.render_metrics().decode())
    samples = (sample for family in families for sample in family.samples)
    return {
        sample.name + "".join(f"{{{key}={value}}}" for key, value in sample.labels.items()): sample.value
        for sample in samples
    }


async def test_counts_are_there_while_a_session_lives_and_stay_when_it_ends(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A spoken turn and a barge-in show in every figure at once, and the session's end takes nothing away."""
    async with scripted_omni(Script(heard=["hello"], otherwise=lambda _: LONG)) as omni:
        talker = await open_talker(omni)
        await talker.turn()
        await talker.heard.wait_for(ResponseOutputAudioDelta)
        talker.send(BargeIn())
        await talker.heard.wait_for(ResponseDone)
        await trio.sleep(0.1)
        living = figures(omni)
        talker.handle.submit(CloseSession())
        await talker.handle.wait_closed()
        ended = figures(omni)
    assert living["duplex_sessions"] == 1
    assert living["duplex_responses_total{status=cancelled}"] == 1
    assert living["duplex_barge_ins_total"] == 1
    assert living["duplex_speculations_total{fate=adopted}"] == 1
    assert living["duplex_speech_end_to_first_audio_seconds_count"] == 1
    assert living["duplex_barge_in_decide_seconds_count{cause=command}"] == 1
    assert living["duplex_barge_in_decide_seconds_count{cause=speech}"] == 0
    assert living["duplex_barge_in_silence_seconds_count"] == 1
    assert living["duplex_barge_in_abort_seconds_count"] == 1
    assert living["duplex_discarded_audio_seconds_total"] > 0.1
    assert living["duplex_decode_seconds_count"] > 1
    assert living["duplex_vad_seconds_count"] > 10
    assert living["duplex_egress_wait_seconds_count"] > 0
    assert living["duplex_stage_alive{stage=llm}"] == 1
    assert ended["duplex_sessions"] == 0
    assert ended["duplex_live_requests"] == 0
    assert ended["duplex_leaked_requests_total"] == 0
    for name, value in living.items():
        if name.endswith(("_total", "_count", "_sum")) or "_total{" in name or "_bucket{" in name:
            assert ended[name] >= value, name


async def test_units_and_leases_are_counted(autojump_clock: trio.testing.MockClock) -> None:
    """A model that owns its turns answers units, and a session that nobody uses expires."""
    async with scripted_omni(pipeline=NativePipeline(), limits=SessionLimits(idle_ttl_s=20)) as omni:
        talker = await open_talker(omni, patch={"turn_detection": None})
        await talker.speak(2.2)
        await talker.heard.nth(ResponseListen, 2)
        await talker.heard.wait_for(SessionExpired)
        await talker.handle.wait_closed()
        shown = figures(omni)
    assert shown["duplex_unit_latency_seconds_count"] == 2
    assert shown["duplex_unit_deadline_misses_total"] == 0
    assert shown["duplex_lease_expiries_total"] == 1
    assert shown["duplex_lease_resumes_total"] == 0


async def test_buckets_add_up_and_end_with_all(autojump_clock: trio.testing.MockClock) -> None:
    """As Prometheus reads them: cumulative, in seconds, the last one everything."""
    async with scripted_omni() as omni:
        counters = SessionCounters()
        for wait_ms in (250.0, 900.0, 20_000.0):
            counters.speech_stop_to_first_audio_ms.observe(wait_ms)
        omni.duplex_engine.metrics.session_ended(counters)
        omni.duplex_engine.metrics.session_ended(counters)
        shown = figures(omni)
    name = "duplex_speech_end_to_first_audio_seconds"
    buckets = {key: value for key, value in shown.items() if key.startswith(name + "_bucket")}
    assert [buckets[f"{name}_bucket{{le={bound}}}"] for bound in ("0.2", "0.3", "1.0", "+Inf")] == [
        0,
        2,
        4,
        6,
    ]
    assert list(buckets.values()) == sorted(buckets.values())
    assert shown[name + "_sum"] == 42.3


def test_everything_that_sessions_measure_is_shown_with_its_unit() -> None:
    """No field is forgotten; what is a time is named in seconds."""
    shown = {metric.name: metric for metric in (*_TOTALS, *_HISTOGRAMS)}
    fields = {attribute.name for attribute in attrs.fields(SessionCounters)}
    assert set(shown) == fields - {"speculations_started"}, "what was begun is adopted or discarded"
    for name, metric in shown.items():
        assert metric.metric.startswith("duplex_")
        assert metric.help
        assert name.endswith("_ms") == metric.metric.endswith("_seconds"), name
        assert isinstance(getattr(SessionCounters(), name), Histogram) == (metric in _HISTOGRAMS)


def test_two_engines_count_for_themselves() -> None:
    """There is no registry for all."""
    one, two = DuplexOmni(NativePipeline()), DuplexOmni(NativePipeline())
    one.duplex_engine.metrics.session_opened()
    assert figures(one)["duplex_sessions_opened_total"] == 1
    assert figures(two)["duplex_sessions_opened_total"] == 0


def test_the_document_lists_what_is_served() -> None:
    """Every name with its kind and its labels, and no other."""
    document = Path(__file__).parents[2] / "docs" / "metrics.md"
    rows = [line.split("|")[1:4] for line in document.read_text().splitlines() if line.startswith("| `")]
    listed = {name.strip(" `"): (kind.strip(), labels.strip(" `")) for name, kind, labels in rows}
    families = [
        *DuplexOmni(NativePipeline()).duplex_engine.metrics.registry.collect(),
        *AsyncOmni(TurnsPipeline()).turn_engine.registry.collect(),
    ]
    video = [*VideoEngine(ScriptedVideoPipeline()).registry.collect()]
    # One port may serve it beside either of the others, and a name is then there once.
    assert not {family.name for family in video} & {family.name for family in families}
    families += video
    served = {
        family.name: (
            family.type,
            ",".join({key: None for sample in family.samples for key in sample.labels}),
        )
        for family in families
    }
    for name, (kind, labels) in served.items():
        assert listed.pop(name) == (kind, labels.replace(",le", "").removeprefix("le")), name
    assert not listed
