"""Who is let in, who holds a slot, and how an engine empties."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.engine import SessionLimits
from duplex_trio.entrypoints.duplex_omni import DuplexOmni, DuplexSessionHandle
from duplex_trio.models.cascade.plugin import CascadePlugin
from duplex_trio.models.cascade.profiles import ChatProfile
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import (
    RealtimeError,
    ResponseDone,
    ResponseOutputAudioDelta,
    SessionClosed,
    SessionCreated,
)
from duplex_trio.testing import RecordingAttachment, finish, open_talker, scripted_omni

LONG = "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima"


async def open_session(omni: DuplexOmni, **arguments: Any) -> DuplexSessionHandle:
    return await omni.open_session(dialect="duplex", attachment=RecordingAttachment(), **arguments)


async def refusal(omni: DuplexOmni, **arguments: Any) -> RealtimeError:
    with pytest.raises(RealtimeError) as caught:
        await open_session(omni, **arguments)
    return caught.value


async def test_as_many_sessions_as_there_are_slots(autojump_clock: MockClock) -> None:
    """One more is refused as `resource_exhausted`, to be tried again; a session that ends makes room."""
    async with scripted_omni(max_sessions=2) as omni:
        first = await open_session(omni)
        await open_session(omni)
        error = await refusal(omni)
        assert (error.code, error.error_class, error.retryable) == (
            "resource_exhausted",
            "rate_limit_error",
            True,
        )
        assert omni.statistics().sessions == 2
        first.close("over")
        await first.wait_closed()
        await open_session(omni)


async def test_slots_are_counted_while_sessions_open(autojump_clock: MockClock) -> None:
    """Of many that come in the same moment exactly as many get in as there are slots."""
    async with scripted_omni(max_sessions=3) as omni:
        outcomes: list[str] = []

        async def try_to_open() -> None:
            try:
                await open_session(omni)
                outcomes.append("opened")
            except RealtimeError as error:
                outcomes.append(error.code)

        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(try_to_open)
        assert sorted(outcomes) == ["opened"] * 3 + ["resource_exhausted"] * 3
        assert omni.statistics().sessions == 3


async def test_one_opens_while_another_starts(autojump_clock: MockClock) -> None:
    """A session that is starting takes one slot and not two."""
    for delay in range(6):
        async with scripted_omni(max_sessions=2) as omni, trio.open_nursery() as nursery:
            nursery.start_soon(open_session, omni)
            for _ in range(delay):
                await trio.lowlevel.checkpoint()
            await open_session(omni)


async def test_an_opening_that_is_given_up_gives_its_slot_back(autojump_clock: MockClock) -> None:
    """A caller that is cancelled while it opens a session leaves none behind."""
    async with scripted_omni(max_sessions=1) as omni:
        with trio.CancelScope() as scope:
            scope.cancel()
            await open_session(omni)
        await trio.sleep(1)
        assert omni.statistics().sessions == 0
        await open_session(omni)


async def test_what_is_closed_while_it_opens_closes_when_it_is_open(autojump_clock: MockClock) -> None:
    """Whenever it happens, the client hears of its session and of its end, and the slot is free."""
    reasons: set[str] = set()
    for delay in range(6):
        async with scripted_omni(max_sessions=1) as omni, trio.open_nursery() as nursery:
            attachment = RecordingAttachment()
            nursery.start_soon(partial(omni.open_session, dialect="duplex", attachment=attachment))
            for _ in range(delay):
                await trio.lowlevel.checkpoint()
            omni.close_all_sessions("over")
            await trio.sleep(1)
            if attachment.closed is None:
                assert delay <= 1  # nobody had asked for a session yet
                continue
            assert isinstance(attachment.events[0], SessionCreated)
            assert isinstance(attachment.events[-1], SessionClosed)
            reasons.add(attachment.closed[1])
            await open_session(omni)
    assert reasons == {"open_abandoned", "over"}


async def test_closing_twice_and_closing_nobody(autojump_clock: MockClock) -> None:
    """A session that is closing may be closed again; one that never was is unknown."""
    async with scripted_omni(step_s={"llm": 60.0}) as omni:
        talker = await open_talker(omni)
        talker.write("hi")
        await trio.sleep(1)
        for _ in range(2):
            omni.close_session(talker.handle.session_id, "over")
            await trio.sleep(1)
        for ask in (omni.close_session, omni.touch_session, omni.detach_session, omni.get_session):
            with pytest.raises(RealtimeError) as caught:
                ask("duplex-nobody")
            assert caught.value.code == "unknown_session"
        await finish(omni, talker)
        assert len(talker.heard.of(SessionClosed)) == 1


async def test_a_slot_is_held_until_the_stages_let_go(autojump_clock: MockClock) -> None:
    """A stage that is busy for a minute keeps the session's slot for that time, and only then is there room."""
    limits = SessionLimits(cleanup_timeout_s=5.0)
    async with scripted_omni(max_sessions=1, limits=limits, step_s={"llm": 60.0}) as omni:
        talker = await open_talker(omni)
        talker.write("hi")
        await trio.sleep(1)
        talker.handle.close("over")
        await talker.heard.wait_for(SessionClosed)
        await trio.sleep(10)
        assert omni.statistics().sessions == 1
        assert (await refusal(omni)).code == "resource_exhausted"
        assert talker.handle.counters.cleanup_retries >= 1
        await talker.handle.wait_closed()
        assert trio.current_time() == pytest.approx(60, abs=3)
        assert omni.statistics().live_requests == 0
        await open_session(omni)


@pytest.mark.parametrize(
    ("patch", "code", "param"),
    [
        ({"audio": {"output": {"speed": 9}}}, "invalid_value", "session.audio.output.speed"),
        (
            {"turn_detection": {"type": "psychic_vad"}},
            "unsupported_turn_detection",
            "session.turn_detection.type",
        ),
        ({"input_audio_format": "mp3"}, "unsupported_audio_format", "session.input_audio_format"),
    ],
)
async def test_a_faulty_session_object_opens_nothing(
    autojump_clock: MockClock, patch: dict[str, Any], code: str, param: str
) -> None:
    """The same code and field as in a later update, and no slot is taken."""
    async with scripted_omni(max_sessions=1) as omni:
        error = await refusal(omni, patch=patch)
        assert (error.code, error.param) == (code, param)
        assert omni.statistics().sessions == 0
        await open_session(omni)


class _Choosy(ScriptedPipeline):
    def build_plugin(self) -> CascadePlugin:
        return _ChoosyPlugin(ChatProfile(default_instructions=None), voices=("tone",))


class _ChoosyPlugin(CascadePlugin):
    def validate_client_extra_body(self, extra_body: Mapping[str, Any]) -> None:
        if "secret" in extra_body:
            raise RealtimeError(
                "invalid_duplex_runtime_config", "not yours", param="session.extra_body.secret"
            )


async def test_a_model_may_refuse_a_session(autojump_clock: MockClock) -> None:
    """The plugin's refusal reaches whoever opens."""
    async with scripted_omni(pipeline=_Choosy()) as omni:
        error = await refusal(omni, patch={"extra_body": {"secret": 1}})
        assert (error.code, error.param) == ("invalid_duplex_runtime_config", "session.extra_body.secret")
        assert omni.statistics().sessions == 0


async def test_any_model_name_is_taken_and_echoed(autojump_clock: MockClock) -> None:
    """Without one the served model is named."""
    async with scripted_omni() as omni:
        named, unnamed = RecordingAttachment(), RecordingAttachment()
        await omni.open_session(dialect="ga", attachment=named, model="gpt-realtime")
        await omni.open_session(dialect="ga", attachment=unnamed)
        assert (await named.nth(SessionCreated, 1)).session["model"] == "gpt-realtime"
        assert (await unnamed.nth(SessionCreated, 1)).session["model"] == "scripted"


async def test_sessions_are_found_by_id(autojump_clock: MockClock) -> None:
    """While they live; an id that is unknown or of a session that has ended is refused."""
    async with scripted_omni() as omni:
        handle = await open_session(omni)
        manager = omni.duplex_engine.manager
        assert manager.get_session(handle.session_id) is handle
        handle.close("over")
        await handle.wait_closed()
        with pytest.raises(RealtimeError) as caught:
            manager.get_session(handle.session_id)
        assert caught.value.code == "unknown_session"


async def test_a_drain_lets_answers_finish(autojump_clock: MockClock) -> None:
    """Nobody is let in any more; who ends in time ends as it likes, who does not is told and closed with 1001."""
    async with scripted_omni(Script(replies={"go": LONG})) as omni:
        quick, stays = await open_talker(omni), await open_talker(omni)
        quick.write("go")
        await quick.heard.nth(ResponseOutputAudioDelta, 1)
        drained_s: list[float] = []

        async def drain() -> None:
            await omni.drain(10.0)
            drained_s.append(trio.current_time())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(drain)
            await trio.testing.wait_all_tasks_blocked()
            assert (await refusal(omni)).code == "resource_exhausted"
            done = await quick.heard.nth(ResponseDone, 1)
            assert done.response.status == "completed"
            quick.handle.close("client_close")
            assert (await quick.handle.wait_closed()).reason == "client_close"
            assert await stays.heard.wait_closed() == (1001, "server_shutdown")
        assert drained_s == pytest.approx([10.0], abs=0.5)
        assert omni.statistics().sessions == 0
        await finish(omni, quick, stays)


async def test_an_empty_engine_drains_at_once(autojump_clock: MockClock) -> None:
    """There is nothing to wait for, however many ask."""
    async with scripted_omni() as omni, trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(omni.drain, 60.0)
    assert trio.current_time() == 0.0


async def test_two_drains_hear_of_the_end(autojump_clock: MockClock) -> None:
    """Both return when the last session has gone."""
    async with scripted_omni() as omni:
        handle = await open_session(omni)
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(omni.drain, 60.0)
            await trio.sleep(1)
            handle.close("over")
        assert trio.current_time() == pytest.approx(1, abs=0.1)


async def test_a_stopped_engine_lets_nobody_in(autojump_clock: MockClock) -> None:
    """After its end an engine refuses sessions as a full one does."""
    async with scripted_omni() as omni:
        pass
    assert (await refusal(omni)).code == "resource_exhausted"


async def test_figures_of_ended_sessions(autojump_clock: MockClock) -> None:
    """Sessions, responses by how they ended, interruptions and the wait for the first sound are counted."""
    script = Script(heard=["hello", "again"], fail_on=frozenset({"bad"}), replies={"hello": LONG})
    async with scripted_omni(script) as omni:
        talker = await open_talker(omni, dialect="ga")
        await talker.turn()
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        await talker.turn()
        await talker.heard.nth(ResponseDone, 2)
        talker.write("bad")
        await talker.heard.nth(ResponseDone, 3)
        await finish(omni, talker)
        figures = dict(
            line.rsplit(" ", 1)
            for line in omni.render_metrics().decode().splitlines()
            if line and not line.startswith("#")
        )
    assert figures["duplex_sessions"] == "0.0"
    assert figures["duplex_sessions_opened_total"] == "1.0"
    for status in ("completed", "cancelled", "failed"):
        assert figures[f'duplex_responses_total{{status="{status}"}}'] == "1.0"
    assert figures["duplex_barge_ins_total"] == "1.0"
    assert figures['duplex_speculations_total{fate="adopted"}'] == "2.0"
    assert figures["duplex_speech_end_to_first_audio_seconds_count"] == "2.0"
