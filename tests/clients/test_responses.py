from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import trio
from trio.testing import assert_no_checkpoints, wait_all_tasks_blocked

from duplex_trio.clients import (
    DuplexConnectionError,
    DuplexLagError,
    DuplexProtocolError,
    DuplexSessionClosedError,
    ResponseHandle,
    ResponseStream,
)
from duplex_trio.clients import responses as responses_module
from duplex_trio.clients.events import parse_event

A16 = "AAAA" * 4  # 12 bytes


def created(rid: str) -> dict[str, Any]:
    return {"type": "response.created", "response": {"id": rid}}


def audio(rid: str, delta: str = A16) -> dict[str, Any]:
    return {
        "type": "response.output_audio.delta",
        "response_id": rid,
        "item_id": f"item_{rid}",
        "delta": delta,
        "sample_rate_hz": 1000,
    }


def spoken(rid: str, text: str) -> dict[str, Any]:
    return {"type": "response.output_audio_transcript.delta", "response_id": rid, "delta": text}


def done(rid: str, status: str = "completed") -> dict[str, Any]:
    return {"type": "response.done", "response": {"id": rid, "status": status}}


def listen(rid: str | None = None) -> dict[str, Any]:
    return {"type": "response.listen", "response": {}} | ({} if rid is None else {"response_id": rid})


def cleared(rid: str | None) -> dict[str, Any]:
    return {"type": "output_audio_buffer.cleared", "response_id": rid}


def error(code: str = "bad_event") -> dict[str, Any]:
    return {"type": "error", "error": {"code": code, "message": "m"}}


def feed(stream: ResponseStream, events: Iterable[dict[str, Any]]) -> None:
    for event in events:
        stream.observe(parse_event(event))


async def drain(stream: ResponseStream) -> list[tuple[str | None, str | None, str]]:
    """What the stream yields until it would wait: (response id, decision, transcript), or (None, "error",
    code)."""
    found: list[tuple[str | None, str | None, str]] = []
    while True:
        with trio.move_on_after(1):
            try:
                handle = await anext(stream)
            except DuplexProtocolError as refused:
                found.append((None, "error", refused.code))
            else:
                found.append((handle.response_id, handle.decision, handle.transcript))
            continue
        return found


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([created("a")], []),
        ([created("a"), audio("a")], [("a", "speak", "")]),
        ([created("a"), {"type": "response.speak", "response_id": "a"}], [("a", "speak", "")]),
        ([spoken("a", "x"), spoken("a", "y")], [("a", "speak", "xy")]),
        ([created("a"), done("a", "cancelled")], [("a", None, "")]),
        ([created("a"), listen("a"), done("a")], [("a", "listen", "")]),
        ([listen()], [(None, "listen", "")]),
        # A server that repeats itself while nobody reads is heard once.
        ([listen(), listen(), listen()], [(None, "listen", "")]),
        ([created("a"), error(), audio("a")], [(None, "error", "bad_event"), ("a", "speak", "")]),
        (
            [created("a"), created("b"), spoken("b", "B"), spoken("a", "A"), done("b"), done("a")],
            [("b", "speak", "B"), ("a", "speak", "A")],
        ),
        ([{"type": "response.function_call_arguments.delta", "response_id": "a"}], [("a", "speak", "")]),
        ([cleared("unknown"), {"type": "turn.event", "response_id": "unknown"}], []),
    ],
)
async def test_a_response_is_yielded_once_when_its_decision_is_known(
    events: list[dict[str, Any]],
    expected: list[tuple[str | None, str | None, str]],
    autojump_clock: trio.testing.MockClock,
) -> None:
    stream = ResponseStream()
    with assert_no_checkpoints():
        feed(stream, events)
    assert await drain(stream) == expected


async def test_a_handle_fills_after_it_was_yielded() -> None:
    stream = ResponseStream()
    feed(stream, [created("a"), audio("a")])
    handle = await anext(stream)
    feed(
        stream,
        [
            spoken("a", "hello"),
            audio("a"),
            {**spoken("a", "!"), "type": "response.output_text.delta"},
            done("a"),
        ],
    )
    assert handle.created_event is not None
    assert (handle.item_id, handle.transcript, handle.text, handle.status) == (
        "item_a",
        "hello",
        "!",
        "completed",
    )
    assert (await handle.wait()).type == "response.done"
    assert [len(pcm) async for pcm in handle.audio()] == [12, 12]
    assert (handle.played_ms, handle.sample_rate_hz, handle.encoding) == (12, 1000, "pcm16")


@pytest.mark.parametrize(
    "cutting", [[done("a", "cancelled")], [cleared("a")], [cleared(None)], [done("a"), cleared("a")]]
)
async def test_a_cut_ends_the_sound_at_once_and_drops_what_was_not_read(
    cutting: list[dict[str, Any]],
) -> None:
    stream = ResponseStream()
    feed(stream, [audio("a"), audio("a"), audio("a")])
    handle = await anext(stream)
    heard = []
    async for pcm in handle.audio():
        heard.append(pcm)
        if len(heard) == 1:
            feed(stream, [*cutting, audio("a")])
    assert len(heard) == 1
    assert handle.cut


async def test_a_waiting_reader_of_sound_is_woken_by_each_ending(nursery: trio.Nursery) -> None:
    async def read(handle: ResponseHandle, endings: list[str]) -> None:
        try:
            async for _pcm in handle.audio():
                endings.append("sound")
        except DuplexConnectionError:
            endings.append("lost")
        else:
            endings.append("end")

    stream = ResponseStream()
    results: dict[str, list[str]] = {name: [] for name in "abc"}
    feed(stream, [created(name) for name in results])
    for name in results:
        feed(stream, [{"type": "response.speak", "response_id": name}])
        nursery.start_soon(read, await anext(stream), results[name])
    await wait_all_tasks_blocked()
    feed(stream, [audio("a"), done("a"), done("b", "cancelled")])
    stream.end(DuplexConnectionError("gone"))
    await wait_all_tasks_blocked()
    assert results == {"a": ["sound", "end"], "b": ["end"], "c": ["lost"]}


async def test_waiting_for_a_response_ends_with_the_session(autojump_clock: trio.testing.MockClock) -> None:
    stream = ResponseStream()
    feed(stream, [audio("a")])
    handle = await anext(stream)
    with pytest.raises(trio.TooSlowError):
        await handle.wait(timeout_s=1)
    stream.end(None)
    with pytest.raises(DuplexSessionClosedError):
        await handle.wait()
    assert [other async for other in stream] == []


async def test_sound_beyond_the_bound_is_an_error_after_what_was_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(responses_module, "RESPONSE_AUDIO_BYTES_MAX", 30)
    stream = ResponseStream()
    feed(stream, [audio("a"), audio("a"), audio("a"), spoken("a", "all of it"), done("a")])
    handle = await anext(stream)
    sound = handle.audio()
    assert [len(await anext(sound)) for _ in range(2)] == [12, 12]
    with pytest.raises(DuplexLagError):
        await anext(sound)
    assert handle.transcript == "all of it"


async def test_answers_beyond_the_bound_are_an_error_after_what_was_kept() -> None:
    stream = ResponseStream()
    bound = responses_module.RESPONSES_PENDING_MAX
    feed(stream, [audio(str(n)) for n in range(bound + 5)])
    assert [(await anext(stream)).response_id for _ in range(bound)] == [str(n) for n in range(bound)]
    with pytest.raises(DuplexLagError):
        await anext(stream)


async def test_finished_answers_are_forgotten_in_the_end() -> None:
    stream = ResponseStream()
    first: ResponseHandle | None = None
    for n in range(40):
        feed(stream, [audio(str(n)), done(str(n))])
        handle = await anext(stream)
        first = first or handle
    assert first is not None
    feed(stream, [cleared(None)])
    assert not first.cut
    assert handle.cut
