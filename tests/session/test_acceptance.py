"""The thirteen demands on the engine, one after another, each from the outside.

Most parts have tests of their own, row by row, vector by vector; here each demand is met as a whole. "At once" is
proven by counting and not by a clock: no checkpoint lies between a command and the new epoch, and of the old
epoch at most the one delta that was being written follows.

Where the weaknesses that these demands answer are tested:

     1 cancel behind what is queued         test_01_*
     2 ordered work holds up control        test_01_* (stuck submit), test_cancel_commands
     3 queues without bounds                test_04_*, test_bounds, state/test_egress_queue
     4 slow readers                         test_04_*, test_bounds, test_resume (stuck connections)
     5 requests left behind by barge-ins    test_02_*
     6 clean-up without abort               test_07_*, test_cancellation*
     7 barge-in after response.done         test_01_the_sound_of_an_answer_that_is_done, test_barge_in
     8 acknowledgements without an id       state/test_items, test_item_commands
     9 tasks that are forgotten             test_cancellation*, test_session_machine
    10 lifetimes by convention              test_cancellation* (a stop at any step)
    11 one append, one unit                 test_12_*
    12 video frames without bound           test_12_*
    13 sound at any rate                    test_capabilities, protocol/test_audio
    14 resampling without state             protocol/test_audio, test_manual_commit
    15 threads shared by all                engine/test_voice_activity
    16 scheduler errors that nobody hears   engine/test_orchestrator, test_failures
    17 one stuck clean-up stops all         test_07_a_stuck_release_holds_up_nobody_else
    18 a queue shared by all                test_05_*, test_bounds
    19 shutdown without goodbye             test_lifetime (the server stops), test_cancellation
    20 abilities that are only shown        test_capabilities
    21 figures that nobody sees             engine/test_metrics, test_figures
    22 an update that changes the policy    test_08_the_policy_of_a_session_stays
    23 state for the whole process          plugin/test_conformance (sessions apart), test_05_*
    24 warm-up through a socket             e2e/test_server
    25 owners found by scanning             engine/test_orchestrator (dictionary by request id)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
import trio
from trio.testing import MockClock, assert_no_checkpoints

from duplex_trio.deploy import SessionLimits
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.native import NativePipeline
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.turns import TurnsPipeline
from duplex_trio.models.scripted.workers import ScriptedVad
from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.protocol.duplex import (
    AckPlayback,
    AppendAudio,
    BargeIn,
    CancelResponse,
    Commit,
    ConversationItemInputAudioTranscriptionCompleted,
    DuplexCommand,
    DuplexEvent,
    ErrorEvent,
    InputAudioBufferCommitted,
    InputAudioBufferSpeechStarted,
    InputAudioBufferSpeechStopped,
    OutputAudioBufferCleared,
    OverlapDecision,
    RealtimeError,
    ResponseCreated,
    ResponseDone,
    ResponseListen,
    ResponseOutputAudioDelta,
    ResponseOutputTextDelta,
    SessionClosed,
    SessionExpired,
    TruncateItem,
    UpdateSession,
)
from duplex_trio.stages.worker import StageWorker
from duplex_trio.testing import (
    RecordingAttachment,
    Talker,
    essence,
    finish,
    open_returning,
    open_session,
    open_talker,
    scripted_omni,
)
from duplex_trio.testing.conformance.stuck import HeldStages
from duplex_trio.testing.invariants import check_settled, core_of

LONG = "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima. " * 8
"""96 words, 29 seconds of sound."""
NO_DETECTION = {"turn_detection": None}
DELTAS = ResponseOutputAudioDelta, ResponseOutputTextDelta


def script() -> Script:
    return Script(replies={"long": LONG}, otherwise=lambda _: "short answer")


def cut(talker: Talker, command: DuplexCommand) -> int:
    """Send a command that raises the epoch, check that it has by the time it returns, and where it came."""
    core, position = core_of(talker.handle), len(talker.heard.events)
    epoch = core.state.epoch
    with assert_no_checkpoints():
        talker.send(command)
    assert core.state.epoch == epoch + 1
    assert core.state.active is None
    assert core.egress.queue.media_ms == 0
    return position


def old_deltas(events: Iterable[DuplexEvent], response_id: str) -> int:
    return sum(isinstance(event, DELTAS) and event.response_id == response_id for event in events)


# ------------------------------------------------------------------ 1: a barge-in waits for nothing


async def test_01_a_barge_in_with_appends_queued(autojump_clock: MockClock) -> None:
    """Forty seconds of sound wait for a detector that needs a second for each of them."""
    async with open_session(script(), step_s={"vad": 1.0}) as talker:
        talker.write("long")
        first = await talker.heard.nth(ResponseOutputAudioDelta, 3)
        for _ in range(40):
            talker.append(1000, loud=False)
        position, cut_s = cut(talker, BargeIn()), trio.current_time()
        done = await talker.heard.wait_for(ResponseDone)
        assert (done.response.status, trio.current_time()) == ("cancelled", cut_s)
        assert old_deltas(talker.heard.events[position:], first.response_id) <= 1


class SlowReader(RecordingAttachment):
    """Needs five milliseconds for each event."""

    async def send(self, event: DuplexEvent) -> None:
        await trio.sleep(0.005)
        await super().send(event)


@pytest.mark.slow
async def test_01_a_barge_in_with_two_thousand_outputs_queued(autojump_clock: MockClock) -> None:
    """All of them were made at once and wait for a slow reader; at most the one in flight is still written."""
    words = Script(otherwise=lambda _: "word " * 2000)
    async with scripted_omni(words, step_s=0.0) as omni:
        heard = SlowReader()
        patch = {"modalities": ["text"], "max_output_tokens": 4096}
        handle = await omni.open_session(dialect="duplex", attachment=heard, patch=patch)
        talker = Talker(handle, heard)
        talker.write("go")
        first = await heard.nth(ResponseOutputTextDelta, 5)
        stage = next(stage for stage in omni.statistics().stages if stage.name == "llm")
        assert stage.outputs_total == 2000
        position, cut_s = cut(talker, BargeIn()), trio.current_time()
        done = await heard.wait_for(ResponseDone)
        assert done.response.status == "cancelled"
        assert old_deltas(heard.events[position:], first.response_id) <= 1
        assert trio.current_time() - cut_s <= 0.005 * (len(heard.events) - position + 1)
        await finish(omni, talker)


async def test_01_a_barge_in_with_a_stuck_submit(autojump_clock: MockClock) -> None:
    """The model does not even take the turn; the client hears of the end of its response at once."""
    stages = HeldStages(threads=False)
    async with scripted_omni(script(), stage_factory=stages.make) as omni:
        talker = await open_talker(omni)
        stages.hold()
        talker.write("long")
        await talker.heard.nth(ResponseCreated, 1)
        await trio.sleep(2.0)
        position, cut_s = cut(talker, BargeIn()), trio.current_time()
        done = await talker.heard.wait_for(ResponseDone, after=position)
        assert (done.response.status, trio.current_time()) == ("cancelled", cut_s)
        stages.let_go()
        talker.write("still there")
        assert (await talker.heard.nth(ResponseDone, 2)).response.status == "completed"
        await finish(omni, talker)


async def test_01_the_sound_of_an_answer_that_is_done(autojump_clock: MockClock) -> None:
    """Its response is over and it still plays: the flush names it."""
    async with open_session(script()) as talker:
        talker.write("hello")
        done = await talker.heard.nth(ResponseDone, 1)
        cut(talker, BargeIn())
        assert (await talker.heard.wait_for(OutputAudioBufferCleared)).response_id == done.response.id


# ------------------------------------------------------------------ 2: one live request an epoch


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [lambda: ScriptedPipeline(script=script()), NativePipeline], ids=["turns", "units"]
)
async def test_02_barge_ins_leave_no_request_behind(
    autojump_clock: MockClock, make: Callable[[], Pipeline]
) -> None:
    """Five turns and five barge-ins in each of three sessions: at most the request of the current epoch lives."""
    async with scripted_omni(pipeline=make()) as omni:
        talkers = [await open_talker(omni) for _ in range(3)]
        for _ in range(5):
            for talker in talkers:
                talker.write("long")
                talker.append(2000, loud=True)
                talker.append(1000, loud=False)
            await trio.sleep(3.0)
            for talker in talkers:
                talker.send(BargeIn())
            await trio.sleep(0.5)
            for talker in talkers:
                live = core_of(talker.handle).live_turns.values()
                assert [turn.epoch for turn in live] in ([], [core_of(talker.handle).state.epoch])
            assert omni.statistics().live_requests <= len(talkers)
        for talker in talkers:
            assert core_of(talker.handle).state.epoch >= 5
            await trio.sleep(30.0)
            check_settled(talker.handle)
        await finish(omni, *talkers)


# ------------------------------------------------------------------ 3: a cancel keeps its place


async def test_03_a_commit_and_a_cancel(autojump_clock: MockClock) -> None:
    """In the same moment: the sound is committed and transcribed, its answer is over before it began."""
    async with open_session(Script(heard=["hello"]), patch=NO_DETECTION) as talker:
        talker.append(600, loud=True)
        talker.send(Commit(response_create=True), CancelResponse())
        assert (await talker.heard.wait_for(ResponseDone)).response.status == "cancelled"
        await talker.heard.wait_for(ConversationItemInputAudioTranscriptionCompleted)
        assert len(talker.heard.of(InputAudioBufferCommitted)) == 1
        assert not talker.heard.of(ResponseOutputAudioDelta)
        assert len(talker.heard.of(ResponseCreated)) == 1


async def test_03_a_cancel_and_a_commit(autojump_clock: MockClock) -> None:
    """The cancel is for the answer before it; the commit behind it is answered."""
    async with open_session(script(), patch=NO_DETECTION) as talker:
        talker.write("long")
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        talker.append(600, loud=True)
        talker.send(CancelResponse(), Commit(response_create=True))
        await talker.heard.nth(ResponseDone, 2)
        statuses = [done.response.status for done in talker.heard.of(ResponseDone)]
        assert statuses == ["cancelled", "completed"]


async def test_03_a_barge_in_and_a_commit_before_it(autojump_clock: MockClock) -> None:
    """The barge-in drops the sound, so the commit that waits has nothing to commit and begins nothing."""
    async with open_session(script(), patch=NO_DETECTION) as talker:
        talker.append(600, loud=True)
        talker.send(Commit(response_create=True), BargeIn())
        await trio.sleep(5.0)
        assert not talker.heard.of(InputAudioBufferCommitted)
        created, done = talker.heard.of(ResponseCreated), talker.heard.of(ResponseDone)
        assert [one.response.id for one in created] == [one.response.id for one in done]
        assert not talker.heard.of(ResponseOutputAudioDelta)


# ------------------------------------------------------------------ 4: a slow reader costs a bounded amount


async def test_04_a_slow_reader(autojump_clock: MockClock) -> None:
    """What waits for it is bounded, and while it is, the model makes nothing more; the queue stays as it is."""
    async with scripted_omni(Script(replies={"long": LONG * 5}, words_per_step=50)) as omni:
        talker = await open_talker(omni, patch={"max_output_tokens": 4096})
        limits = core_of(talker.handle).limits
        talker.write("long")
        await talker.heard.nth(ResponseOutputAudioDelta, 3)
        talker.heard.stalled = True
        made: list[tuple[int, ...]] = []
        for _ in range(3):
            await trio.sleep(1.0)
            queue = core_of(talker.handle).egress.queue
            assert queue.media_ms <= limits.media_ms_max + 100
            assert queue.media_bytes <= limits.media_bytes_max + 4800
            made.append(
                tuple(stage.outputs_total for stage in omni.statistics().stages if stage.name == "tts")
            )
        assert made[1] == made[2]
        talker.handle.close("over")
        await finish(omni, talker)


# ------------------------------------------------------------------ 5: a crash is its own


async def overheard(crash: bool) -> list[tuple[Any, ...]]:
    """What a session hears next to one that crashes or not; its sound must flow in any case."""
    async with scripted_omni(script()) as omni:
        victim, witness = await open_talker(omni), await open_talker(omni)
        for talker in (victim, witness):
            talker.write("long")
        await witness.heard.nth(ResponseOutputAudioDelta, 3)
        if crash:
            core_of(victim.handle).state.conversation = None  # type: ignore[assignment]
            victim.write("boom")
            assert (await victim.handle.wait_closed()).reason == "internal_error"
        await witness.heard.nth(ResponseDone, 1)
        await finish(omni, witness, *(() if crash else (victim,)))
    arrived = zip(witness.heard.times_s, witness.heard.events, strict=True)
    sound_s = [at_s for at_s, event in arrived if isinstance(event, ResponseOutputAudioDelta)]
    assert max(np.diff(sound_s)) <= 0.15
    return essence(witness.heard.events)


@pytest.mark.slow
@pytest.mark.usefixtures("faults_expected")
async def test_05_a_crash_disturbs_nobody(autojump_clock: MockClock) -> None:
    """The session beside it hears the same without a gap."""
    assert await overheard(crash=True) == await overheard(crash=False)


# ------------------------------------------------------------------ 6: coming back


async def test_06_of_two_who_come_back_one_wins(autojump_clock: MockClock) -> None:
    """Both know the same generation; the other one is refused, and asking again is answered the same."""
    async with scripted_omni(script()) as omni:
        talker = await open_returning(omni)
        generation = talker.handle.generation
        talker.lose()
        talker.resume()
        assert talker.handle.generation == generation + 1

        def again(control_id: str, expected: int) -> int:
            return talker.handle.resume(
                talker.heard, expected_generation=expected, control_id=control_id, last_seq=0
            )

        assert again("resume 1", generation) == generation + 1
        with pytest.raises(RealtimeError) as caught:
            again("another", generation)
        assert caught.value.code == "session_resume_conflict"
        talker.write("hello")
        await talker.heard.nth(ResponseDone, 1)
        assert talker.gapless
        await finish(omni, talker)


@pytest.mark.parametrize(("away_s", "waits"), [(29.0, True), (31.0, False)])
async def test_06_a_session_waits_thirty_seconds(
    autojump_clock: MockClock, away_s: float, waits: bool
) -> None:
    """After 29 s its client is welcome, after 31 s the session has expired."""
    async with scripted_omni(script()) as omni:
        talker = await open_returning(omni)
        talker.lose()
        await trio.sleep(away_s)
        if waits:
            talker.resume()
            talker.write("hello")
            await talker.heard.nth(ResponseDone, 1)
        else:
            assert (await talker.handle.wait_closed()).reason == "disconnect_grace_expired"
            with pytest.raises(RealtimeError):
                talker.resume()
        await finish(omni, talker)


# ------------------------------------------------------------------ 7: a release that fails


@asynccontextmanager
async def breaking(omni: DuplexOmni, owner: str, outcome: Callable[[], Any]) -> AsyncIterator[list[float]]:
    """Let releases of one session's requests do something else; yields when they were tried."""
    orchestrator, tried_s = omni.duplex_engine.orchestrator, list[float]()
    release = orchestrator.release

    async def replaced(request: Any) -> None:
        if request.owner == owner:
            tried_s.append(trio.current_time())
            await outcome()
        await release(request)

    orchestrator.release = replaced  # type: ignore[method-assign]
    yield tried_s
    orchestrator.release = release  # type: ignore[method-assign]


@pytest.mark.usefixtures("faults_expected")
async def test_07_a_release_that_fails_keeps_the_slot(autojump_clock: MockClock) -> None:
    """It is tried again with growing delays; then the slot is free. The client has heard of one end."""
    async with scripted_omni(script(), max_sessions=1) as omni:
        talker = await open_talker(omni)
        failures = iter(range(3))

        async def fail() -> None:
            await trio.lowlevel.checkpoint()
            if next(failures, None) is not None:
                raise RuntimeError("the stage does not let go")

        async with breaking(omni, talker.handle.session_id, fail) as tried_s:
            talker.write("long")
            await talker.heard.nth(ResponseOutputAudioDelta, 1)
            talker.handle.close("over")
            await talker.heard.wait_for(SessionClosed)
            assert omni.statistics().sessions == 1
            with pytest.raises(RealtimeError) as caught:
                await open_talker(omni)
            assert caught.value.code == "resource_exhausted"
            await talker.handle.wait_closed()
            gaps = np.diff(tried_s)
            assert len(gaps) == 3
            assert list(gaps) == sorted(gaps)
        assert talker.handle.counters.cleanup_retries == 3
        assert (
            len([event for event in talker.heard.events if isinstance(event, SessionClosed | SessionExpired)])
            == 1
        )
        await finish(omni, await open_talker(omni))


async def test_07_a_stuck_release_holds_up_nobody_else(autojump_clock: MockClock) -> None:
    """While one session's release hangs, others end, expire and are let in."""
    limits = SessionLimits(idle_ttl_s=20.0, cleanup_timeout_s=1.0)
    async with scripted_omni(script(), max_sessions=3, limits=limits) as omni:
        stuck, idle, quick = [await open_talker(omni) for _ in range(3)]
        let_go = trio.Event()
        async with breaking(omni, stuck.handle.session_id, let_go.wait):
            stuck.write("long")
            await stuck.heard.nth(ResponseOutputAudioDelta, 1)
            stuck.handle.close("over")
            quick.handle.close("over")
            await quick.handle.wait_closed()
            assert (await idle.handle.wait_closed()).reason == "idle_ttl_expired"
            other = await open_talker(omni)
            other.write("hello")
            await other.heard.nth(ResponseDone, 1)
            assert omni.statistics().sessions == 2
            let_go.set()
            await stuck.handle.wait_closed()
        await finish(omni, stuck, idle, quick, other)


# ------------------------------------------------------------------ 8: what was heard


@pytest.mark.parametrize(
    ("marked", "played_ms", "heard"),
    [
        (True, 0, ""),
        (True, 150, "al"),
        (True, 300, "alpha"),
        (True, 450, "alpha br"),
        (True, 99_999, "alpha bravo"),
    ],
)
async def test_08_acknowledged_sound(
    autojump_clock: MockClock, marked: bool, played_ms: int, heard: str
) -> None:
    """Each word is 300 ms of sound; between the marks the position is interpolated."""
    said = Script(otherwise=lambda _: "alpha bravo")
    async with open_session(said) as talker:
        talker.write("go")
        await talker.heard.nth(ResponseDone, 1)
        talker.send(AckPlayback(played_ms=played_ms))
        await trio.sleep(10.0)
        talker.write("next")
        await talker.heard.nth(ResponseDone, 2)
    spoken = [message.content for message in said.asked[-1].prompt.messages if message.role == "assistant"]
    assert spoken == ([heard] if heard else [])


async def test_08_a_hard_truncation_and_a_larger_acknowledgement(autojump_clock: MockClock) -> None:
    """Nothing lengthens what was truncated."""
    said = Script(otherwise=lambda _: "alpha bravo")
    async with open_session(said) as talker:
        talker.write("go")
        done = await talker.heard.nth(ResponseDone, 1)
        talker.send(
            AckPlayback(played_ms=600),
            TruncateItem(item_id=done.response.output[0].id, audio_end_ms=300),
            AckPlayback(played_ms=600),
        )
        await trio.sleep(10.0)
        talker.write("next")
        await talker.heard.nth(ResponseDone, 2)
    assert "alpha" in [message.content for message in said.asked[-1].prompt.messages]


async def test_08_the_policy_of_a_session_stays(autojump_clock: MockClock) -> None:
    """No update makes a session count what nobody acknowledged."""
    said = Script(otherwise=lambda _: "alpha bravo")
    async with open_session(said) as talker:
        talker.send(UpdateSession(patch={"playback_commit_policy": "commit_all_on_done"}))
        talker.write("go")
        await talker.heard.nth(ResponseDone, 1)
        await trio.sleep(10.0)
        talker.write("next")
        await talker.heard.nth(ResponseDone, 2)
    assert [message.role for message in said.asked[-1].prompt.messages if message.role == "assistant"] == []


# ------------------------------------------------------------------ 9: silence in place of a client


async def test_09_silence_at_the_pace_of_units(autojump_clock: MockClock) -> None:
    """One second a unit, each due one second after the last; the vectors are in `state/test_silence`."""
    async with open_session(pipeline=NativePipeline(answer="one two three four")) as talker:
        await talker.speak(1.0)
        await talker.pause(1.2)
        await talker.heard.wait_for(ResponseDone)
        spoken_s = [
            at
            for at, event in zip(talker.heard.times_s, talker.heard.events, strict=True)
            if event.type == "response.output_audio_transcript.delta"
        ]
        assert list(np.diff(spoken_s)) == pytest.approx([1.0] * 3, abs=0.06)


# ------------------------------------------------------------------ 10: sound over a response


OVERLAPS: list[tuple[dict[str, Any], bool, str, str]] = [
    ({"overlap_action": "interrupt"}, True, "barge_in", "client_overlap_action"),
    ({"overlap_action": "continue"}, True, "listen", "client_overlap_action"),
    ({"overlap_action": "ignore"}, True, "drop", "client_overlap_action"),
    ({"force_barge_in": True}, False, "barge_in", "client_force_barge_in"),
    ({"force_listen": True}, True, "listen", "client_force_listen"),
    ({}, False, "drop", "silence_or_noise"),
    ({"transcript": "yes"}, True, "listen", "short_ack_transcript"),
    ({}, True, "listen", "policy_listen_only"),
]


@pytest.mark.parametrize(("hints", "loud", "action", "reason"), OVERLAPS)
async def test_10_sound_over_a_response(
    autojump_clock: MockClock, hints: dict[str, Any], loud: bool, action: str, reason: str
) -> None:
    """The decision is told, and carried out: the response is cut, or goes on. All rows are in `state`."""
    async with open_session(script(), patch=NO_DETECTION) as talker:
        talker.write("long")
        await talker.heard.nth(ResponseOutputAudioDelta, 3)
        talker.append(300, loud=loud, **hints)
        decision = await talker.heard.wait_for(OverlapDecision)
        assert (decision.action, decision.reason) == (action, reason)
        await trio.sleep(1.0)
        assert bool(talker.heard.of(ResponseDone)) == (action == "barge_in")


# ------------------------------------------------------------------ 11: where speech begins and ends


class Told(ScriptedPipeline):
    """Its detector scores frames as it is told, whatever they sound like."""

    def __init__(self, scores: str) -> None:
        super().__init__(script=Script(heard=["hello"]))
        self._scores = scores

    def build_vad_worker(self) -> StageWorker:
        return ScriptedVad([{"#": 0.6, "-": 0.4, ".": 0.1}[one] for one in self._scores])


@pytest.mark.parametrize(
    ("scores", "starts", "stops"),
    [
        ("##" + "." * 30, 0, 0),
        ("###" + "." * 14 + "#" + "-" * 10, 1, 0),
        ("###" + "." * 16, 1, 1),
        ("###" + "-" * 30, 1, 0),
        ("###." + "-" * 15, 1, 1),
        ("###" + "." * 16 + "###" + "." * 16, 2, 2),
    ],
)
async def test_11_hysteresis(autojump_clock: MockClock, scores: str, starts: int, stops: int) -> None:
    """Three frames begin speech; only frames far below the threshold begin to end it. All vectors are in `state`."""
    patch = {"turn_detection": {"type": "server_vad", "silence_duration_ms": 500, "create_response": False}}
    async with open_session(pipeline=Told(scores), patch=patch) as talker:
        talker.append(len(scores) * 32 + 64, loud=True)
        await trio.sleep(2.0)
        assert len(talker.heard.of(InputAudioBufferSpeechStarted)) == starts
        assert len(talker.heard.of(InputAudioBufferSpeechStopped)) == stops


# ------------------------------------------------------------------ 12: every unit an append holds


async def test_12_three_seconds_are_three_units(autojump_clock: MockClock) -> None:
    """At once, and nothing is left over that would come late."""
    async with open_session(pipeline=NativePipeline(), patch=NO_DETECTION) as talker:
        talker.append(3100, loud=True)
        await talker.heard.nth(ResponseListen, 3)
        core = core_of(talker.handle)
        assert core.units is not None
        assert core.units.line.buffer.pending_bytes < 16_000 * 4


@pytest.mark.slow
async def test_12_a_flood_of_pictures(autojump_clock: MockClock) -> None:
    """A minute of appends with a picture each: the newest two are held, and their bytes count."""
    async with open_session(pipeline=TurnsPipeline(), patch=NO_DETECTION) as talker:
        core = core_of(talker.handle)
        for number in range(600):
            picture = b"\xff\xd8\xff" + number.to_bytes(2, "big") * 10_000
            talker.send(AppendAudio(audio=bytes(4800), video_frames=(picture,)))
            await trio.sleep(0.1)
            assert core.state.frames.held_bytes <= 2 * len(picture)
        assert core.state.frames.peek()[-1] == picture
        assert not talker.heard.of(ErrorEvent)


# ------------------------------------------------------------------ 13: what was said over an answer


async def said_over_an_answer(how: str) -> list[str]:
    """Commit with a question over an answer, let the answer end in some way, and tell what became of responses."""
    answers = {"go": "alpha bravo charlie delta echo", "fails": "alpha bravo charlie delta. Boom."}
    words = Script(heard=["and then"], replies=answers)
    words.fail_speaking = "Boom." if how == "failed" else None
    async with open_session(words, patch=NO_DETECTION) as talker:
        talker.write("fails" if how == "failed" else "go")
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        talker.append(1000, loud=True)
        talker.send(Commit(response_create=True))
        await trio.sleep(0.1)
        if how == "cancelled":
            talker.send(CancelResponse())
        await trio.sleep(20.0)
        return [done.response.status for done in talker.heard.of(ResponseDone)]


@pytest.mark.parametrize(
    ("how", "statuses"),
    [
        ("completed", ["completed", "completed"]),
        ("cancelled", ["cancelled"]),
        ("failed", ["failed"]),
    ],
)
async def test_13_what_was_said_over_an_answer(
    autojump_clock: MockClock, how: str, statuses: list[str]
) -> None:
    """It is answered once the answer is complete, and not when that was cancelled or has failed."""
    assert await said_over_an_answer(how) == statuses
