"""Every limit that an operator can set, at a small value, and the answer when it is reached."""

from __future__ import annotations

from typing import Literal

import attrs
import pytest
import trio
from trio.testing import MockClock

from duplex_trio.deploy import DeployConfig, SessionLimits, StageDeploy
from duplex_trio.engine import JournalGapError
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.lockstep import LockstepPipeline
from duplex_trio.models.scripted.native import NativePipeline
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.turns import TurnsPipeline
from duplex_trio.protocol.duplex import (
    AckPlayback,
    AppendAudio,
    Commit,
    CreateItem,
    DuplexEvent,
    ErrorEvent,
    Heartbeat,
    InputAudioBufferCommitted,
    InputAudioBufferSpeechStopped,
    InputImagePart,
    InputTextPart,
    MessageItem,
    RealtimeError,
    ResponseDone,
    ResponseListen,
    ResponseOutputAudioDelta,
    SessionExpired,
    SessionHeartbeatAck,
    SessionResyncRequired,
    UpdateSession,
)
from duplex_trio.stages.pool import StagePool
from duplex_trio.stages.process.run import ProcessStage
from duplex_trio.stages.streams import StreamsStage
from duplex_trio.testing import (
    RecordingAttachment,
    Talker,
    finish,
    open_returning,
    open_session,
    open_talker,
    scripted_omni,
)
from duplex_trio.testing.pictures import png_url

BY_HAND = {"turn_detection": None}
WORDS = "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima"


def item(text: str, item_id: str = "") -> CreateItem:
    return CreateItem(item=MessageItem(id=item_id, role="user", content=(InputTextPart(text),)))


async def refused(talker: Talker, number: int = 1) -> tuple[str, str | None]:
    """Code and field of an error."""
    error = (await talker.heard.nth(ErrorEvent, number)).error
    return error.code, error.param


@pytest.mark.parametrize("name", [attribute.name for attribute in attrs.fields(SessionLimits)])
def test_every_limit_has_a_test_here(name: str) -> None:
    """Each is called as the limit."""
    assert f"test_{name}" in globals()


# ------------------------------------------------------------------ life


async def test_idle_ttl_s(autojump_clock: MockClock) -> None:
    """`session.expired`; None is never."""
    async with open_session(limits=SessionLimits(idle_ttl_s=5)) as talker:
        await talker.handle.wait_closed()
        assert trio.current_time() == pytest.approx(5, abs=0.1)
        assert talker.heard.of(SessionExpired)[-1].reason == "idle_ttl_expired"
    async with open_session(limits=SessionLimits(idle_ttl_s=None)) as talker:
        await trio.sleep(80_000)
        talker.send(Heartbeat())
        await talker.heard.nth(SessionHeartbeatAck, 1)


async def test_disconnect_grace_s(autojump_clock: MockClock) -> None:
    """A session that its client left expires."""
    async with scripted_omni(limits=SessionLimits(disconnect_grace_s=3)) as omni:
        talker = await open_returning(omni)
        talker.lose()
        lost_s = trio.current_time()
        assert (await talker.handle.wait_closed()).reason == "disconnect_grace_expired"
        assert trio.current_time() - lost_s == pytest.approx(3, abs=0.1)
        await finish(omni, talker)


async def test_journal_ttl_s(autojump_clock: MockClock) -> None:
    """Who comes back for older events is told of the gap."""
    async with scripted_omni(limits=SessionLimits(journal_ttl_s=2)) as omni:
        talker = await open_returning(omni)
        talker.lose()
        talker.send(Heartbeat())
        await trio.sleep(3)
        with pytest.raises(JournalGapError):
            talker.resume()
        await finish(omni, talker)


async def test_journal_bytes_max(autojump_clock: MockClock) -> None:
    """`session.resync_required`, once; the session goes on."""
    async with scripted_omni(limits=SessionLimits(journal_bytes_max=5_000)) as omni:
        talker = await open_returning(omni)
        talker.write("hi")
        await talker.wait_done()
        assert [event.reason for event in talker.heard.of(SessionResyncRequired)] == ["journal_overflow"]
        await finish(omni, talker)


# ------------------------------------------------------------------ input


@pytest.mark.parametrize("owns_turns", [False, True])
async def test_pending_input_bytes_max(autojump_clock: MockClock, owns_turns: bool) -> None:
    """`input_backpressure`, and the append is not taken."""
    limits = SessionLimits(pending_input_bytes_max=4 * 8_000)  # half a second
    pipeline = NativePipeline() if owns_turns else None
    async with open_session(pipeline=pipeline, patch=BY_HAND, limits=limits) as talker:
        for _ in range(6):
            talker.append(100, loud=True)
        assert await refused(talker) == ("input_backpressure", "audio")
        talker.send(Commit())
        await talker.heard.nth(InputAudioBufferCommitted, 1)


async def test_speech_s_max(autojump_clock: MockClock) -> None:
    """Who speaks on has a turn each time."""
    patch = {"turn_detection": {"type": "server_vad", "interrupt_response": False}}
    async with open_session(limits=SessionLimits(speech_s_max=1.0), patch=patch) as talker:
        await talker.turn(2.5)
        stops = await talker.heard.nth(InputAudioBufferSpeechStopped, 2)
        assert stops.audio_end_ms <= 2_700


async def test_pending_turns_max(autojump_clock: MockClock) -> None:
    """`input_backpressure` for the commit that is one too many: its transcription fails, its item stays."""
    limits = SessionLimits(pending_turns_max=2)
    async with open_session(limits=limits, patch=BY_HAND, step_s={"asr": 5.0}) as talker:
        for _ in range(6):
            talker.append(200, loud=True)
            talker.send(Commit())
            await trio.sleep(0.01)
        await talker.heard.nth(InputAudioBufferCommitted, 6)
        failures = [event for event in talker.heard.events if event.type.endswith("transcription.failed")]
        assert failures
        assert {event.error.code for event in failures} == {"input_backpressure"}  # type: ignore[attr-defined]


async def test_pending_commands_max(autojump_clock: MockClock) -> None:
    """`input_backpressure`; those that were in line are carried out."""
    async with open_session(limits=SessionLimits(pending_commands_max=3)) as talker:
        talker.send(*(UpdateSession(patch={"instructions": str(number)}) for number in range(6)))
        assert await refused(talker, 2) == ("input_backpressure", None)
        await trio.sleep(0.1)
        assert len(talker.heard.of(ErrorEvent)) == 2
        assert talker.handle._core.state.config.instructions == "3", "one is being carried out"


async def test_conversation_items_max(autojump_clock: MockClock) -> None:
    """`input_backpressure` for a client's item; one of the session's own takes the place of the oldest."""
    async with open_session(limits=SessionLimits(conversation_items_max=2), patch=BY_HAND) as talker:
        talker.send(item("one"), item("two"), item("three"))
        assert (await refused(talker))[0] == "input_backpressure"
        talker.append(200, loud=True)
        talker.send(Commit())
        await talker.heard.nth(InputAudioBufferCommitted, 1)
        assert len(talker.heard.of(ErrorEvent)) == 1


async def test_conversation_chars_max(autojump_clock: MockClock) -> None:
    """`input_backpressure`, and the item is not there."""
    async with open_session(limits=SessionLimits(conversation_chars_max=10)) as talker:
        talker.send(item("12345678", "a"), item("123", "b"), item("12", "c"))
        assert await refused(talker) == ("input_backpressure", "item.content")
        await trio.sleep(0.1)
        assert len(talker.heard.of(ErrorEvent)) == 1


def picture(size: int = 10) -> CreateItem:
    """A picture whose URL is a little longer than that."""
    part = InputImagePart(png_url(size))
    return CreateItem(item=MessageItem(role="user", content=(part,)))


async def images_bound(limits: SessionLimits) -> None:
    """One picture is taken, the next one is not."""
    async with open_session(pipeline=TurnsPipeline(), limits=limits) as talker:
        talker.send(picture(200), picture(200))
        assert await refused(talker) == ("input_backpressure", "item.content")
        await trio.sleep(0.1)
        assert len(talker.heard.of(ErrorEvent)) == 1


async def test_conversation_images_max(autojump_clock: MockClock) -> None:
    """`input_backpressure`, by their number."""
    await images_bound(SessionLimits(conversation_images_max=1))


async def test_conversation_image_chars_max(autojump_clock: MockClock) -> None:
    """`input_backpressure`, by their size."""
    await images_bound(SessionLimits(conversation_image_chars_max=300))


async def test_video_frames_max(autojump_clock: MockClock) -> None:
    """The newest stay."""
    limits = SessionLimits(video_frames_max=1)
    async with open_session(pipeline=TurnsPipeline(), patch=BY_HAND, limits=limits) as talker:
        for frame in (b"1", b"2"):
            talker.send(AppendAudio(audio=bytes(960), video_frames=(frame,)))
        assert talker.handle._core.state.frames.peek() == (b"2",)
        assert not talker.heard.of(ErrorEvent)


async def test_history_messages_max(autojump_clock: MockClock) -> None:
    """The model is told the newest."""
    script = Script()
    async with open_session(script, limits=SessionLimits(history_messages_max=2)) as talker:
        talker.send(*(item(str(number)) for number in range(5)))
        talker.write("now")
        await talker.heard.nth(ResponseDone, 1)
    assert script.asked[-1].prompt.messages[-1].content == "4 now"


# ------------------------------------------------------------------ stages


@pytest.mark.usefixtures("faults_expected")
async def test_unit_timeout_s(autojump_clock: MockClock) -> None:
    """`timeout`, and the response fails."""
    limits = SessionLimits(unit_timeout_s=2.0)
    async with scripted_omni(step_s={"llm": 9.0}, limits=limits) as omni:
        first, second = await open_talker(omni), await open_talker(omni)
        first.write("hi")
        await trio.sleep(1)
        second.write("hi")
        assert await refused(second) == ("timeout", None)
        assert trio.current_time() == pytest.approx(3, abs=0.1)
        assert (await second.heard.nth(ResponseDone, 1)).response.status == "failed"
        await finish(omni, first, second)


async def test_vad_timeout_s(autojump_clock: MockClock) -> None:
    """`server_vad_unavailable`; the client commits by hand."""
    async with open_session(limits=SessionLimits(vad_timeout_s=1.0), step_s={"vad": 9.0}) as talker:
        await talker.speak(2.0)
        assert (await refused(talker))[0] == "server_vad_unavailable"
        talker.send(Commit())
        await talker.heard.nth(InputAudioBufferCommitted, 1)


async def test_cleanup_timeout_s(autojump_clock: MockClock) -> None:
    """The release is tried again, and the session keeps its slot until it succeeds."""
    limits = SessionLimits(cleanup_timeout_s=0.5)
    async with scripted_omni(step_s={"llm": 3.0}, limits=limits) as omni:
        talker = await open_talker(omni)
        talker.write("hi")
        await trio.sleep(0.1)
        talker.handle.close("over")
        await talker.handle.wait_closed()
        assert talker.handle.counters.cleanup_retries >= 3
        await finish(omni, talker)


async def test_units_waiting_max(autojump_clock: MockClock) -> None:
    """Sound beyond that waits in the buffer, and none of it is lost."""
    limits = SessionLimits(units_waiting_max=2)
    async with open_session(pipeline=LockstepPipeline(), patch=BY_HAND, limits=limits) as talker:
        talker.append(1600, loud=True)
        line = talker.handle._core.units
        assert line is not None
        assert line.line._send.statistics().current_buffer_used == 2
        await trio.sleep(3.0)
        assert talker.handle.counters.unit_latency_ms.count >= 19


async def test_units_unanswered_max(autojump_clock: MockClock) -> None:
    """The model is given no more until it has answered."""
    limits = SessionLimits(units_unanswered_max=2)
    async with open_session(pipeline=LockstepPipeline(), patch=BY_HAND, limits=limits, step_s=0.5) as talker:
        talker.append(1600, loud=True)
        units = talker.handle._core.units
        assert units is not None
        for _ in range(20):
            await trio.sleep(0.25)
            assert units._speech.unanswered <= 2


async def test_unit_budget_ms(autojump_clock: MockClock) -> None:
    """An answer that is later is counted as a miss."""
    for budget_ms, misses in ((0, 2), (1000, 0)):
        limits = SessionLimits(unit_budget_ms=budget_ms)
        async with open_session(
            pipeline=NativePipeline(), patch=BY_HAND, limits=limits, step_s=1.5
        ) as talker:
            await talker.speak(2.1)
            await talker.heard.nth(ResponseListen, 2)
            assert talker.handle.counters.unit_deadline_misses == misses


async def test_silence_units_max(autojump_clock: MockClock) -> None:
    """A model that never ends its turn is told to listen with the last of them, and its response ends."""
    limits = SessionLimits(silence_units_max=3)
    pipeline = NativePipeline(answer=WORDS, endless=True)
    async with open_session(pipeline=pipeline, patch=BY_HAND, limits=limits) as talker:
        await talker.speak(2.0)
        await talker.pause(1.5)
        done = await talker.heard.nth(ResponseDone, 1)
        assert done.duplex is not None
        assert done.duplex.playback is not None
        assert 2_000 <= done.duplex.playback.generated_ms <= 4_000, "a word of a second for each unit"


# ------------------------------------------------------------------ output


async def test_media_lead_ms(autojump_clock: MockClock) -> None:
    """No more is sent ahead of what a player has played."""
    limits = SessionLimits(media_lead_ms=100)
    async with open_session(Script(otherwise=lambda _: WORDS), limits=limits) as talker:
        talker.write("go")
        await talker.heard.nth(ResponseDone, 1)
        start_s, sent_ms = None, 0.0
        for at_s, event in zip(talker.heard.times_s, talker.heard.events, strict=True):
            if isinstance(event, ResponseOutputAudioDelta):
                start_s = at_s if start_s is None else start_s
                assert sent_ms - (at_s - start_s) * 1000 <= 101
                sent_ms += len(event.delta) / 48


async def media_bound(by: str) -> None:
    """The voice waits when so much waits for the client."""
    limits = SessionLimits(media_ms_max=200) if by == "milliseconds" else SessionLimits(media_bytes_max=9_600)
    script = Script(otherwise=lambda _: WORDS, word_ms=100, words_per_step=1)
    async with open_session(script, limits=limits) as talker:
        talker.write("go")
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        queue = talker.handle._core.egress.queue
        peak_ms = 0.0
        for _ in range(40):
            await trio.sleep(0.02)
            peak_ms = max(peak_ms, queue.media_ms)
        assert 100 <= peak_ms <= 300
        await talker.heard.nth(ResponseDone, 1)


async def test_media_ms_max(autojump_clock: MockClock) -> None:
    """By its length."""
    await media_bound("milliseconds")


async def test_media_bytes_max(autojump_clock: MockClock) -> None:
    """By its size."""
    await media_bound("bytes")


class _Slow(RecordingAttachment):
    async def send(self, event: DuplexEvent) -> None:
        await trio.sleep(0.4)
        await super().send(event)


async def test_control_events_max(autojump_clock: MockClock) -> None:
    """The session of a client that does not read ends with `slow_reader` and code 1008."""
    limits = SessionLimits(control_events_max=8, goodbye_timeout_s=20.0)
    async with scripted_omni(limits=limits) as omni:
        attachment = _Slow()
        handle = await omni.open_session(dialect="duplex", attachment=attachment)
        talker = Talker(handle, attachment)
        talker.send(*(Heartbeat() for _ in range(12)))
        end = await handle.wait_closed()
        assert (end.reason, end.code) == ("slow_reader", 1008)
        await finish(omni, talker)


async def test_send_timeout_s(autojump_clock: MockClock) -> None:
    """A client that takes no event for so long is lost."""
    async with scripted_omni(limits=SessionLimits(send_timeout_s=1.0)) as omni:
        talker = await open_talker(omni)
        talker.heard.stalled = True
        talker.send(Heartbeat())
        sent_s = trio.current_time()
        end = await talker.handle.wait_closed()
        assert (end.reason, end.code) == ("slow_reader", 1008)
        assert trio.current_time() - sent_s == pytest.approx(1.0, abs=0.1)
        await finish(omni, talker)


async def test_goodbye_timeout_s(autojump_clock: MockClock) -> None:
    """The end does not wait longer for a client that does not read."""
    limits = SessionLimits(goodbye_timeout_s=0.5)
    async with scripted_omni(limits=limits) as omni:
        talker = await open_talker(omni)
        talker.heard.stalled = True
        talker.handle.close("over")
        closed_s = trio.current_time()
        await talker.handle.wait_closed()
        assert trio.current_time() - closed_s == pytest.approx(0.5, abs=0.1)
        await finish(omni, talker)


async def test_ended_responses_max(autojump_clock: MockClock) -> None:
    """`playback_item_not_found` for one that is forgotten."""
    async with open_session(limits=SessionLimits(ended_responses_max=1)) as talker:
        for number in (1, 2):
            talker.write("hi")
            await talker.heard.nth(ResponseDone, number)
        first, second = talker.heard.of(ResponseDone)
        talker.send(*(AckPlayback(response_id=done.response.id, played_ms=10) for done in (first, second)))
        assert (await refused(talker))[0] == "playback_item_not_found"
        await trio.sleep(0.1)
        assert len(talker.heard.of(ErrorEvent)) == 1


# ------------------------------------------------------------------ the engine's own


async def test_max_sessions(autojump_clock: MockClock) -> None:
    """`resource_exhausted`, which may be tried again."""
    async with scripted_omni(max_sessions=1) as omni:
        talker = await open_talker(omni)
        with pytest.raises(RealtimeError) as caught:
            await open_talker(omni)
        assert (caught.value.code, caught.value.retryable) == ("resource_exhausted", True)
        await finish(omni, talker)
        await finish(omni, await open_talker(omni))


@pytest.mark.parametrize("execution", ["thread", "process"])
@pytest.mark.parametrize(("given", "limit"), [(None, 18), (3, 3)])
def test_stage_commands_max(given: int | None, limit: int, execution: Literal["thread", "process"]) -> None:
    """Two for each session and chat unless told otherwise; what waits beyond that waits at its session (`test_run`)."""
    stages = tuple(StageDeploy(stage_id=index, execution=execution) for index in range(3))
    pipeline = ScriptedPipeline(DeployConfig(pipeline="scripted", stages=stages))
    omni = DuplexOmni(pipeline, max_sessions=5, max_chats=4, stage_commands_max=given)
    pools = [stage for stage in omni.duplex_engine.all_stages if isinstance(stage, StagePool)]
    carried = [replica.stage for pool in pools for replica in pool.replicas]
    assert sum(isinstance(stage, ProcessStage) for stage in carried) == (3 if execution == "process" else 0)
    assert {stage._command_limit for stage in carried if isinstance(stage, StreamsStage)} == {limit}
