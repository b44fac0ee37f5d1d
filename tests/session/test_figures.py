"""What a session measures about itself, on a clock that the test moves."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.engine import SessionLimits
from duplex_trio.models.scripted.lockstep import LockstepPipeline
from duplex_trio.models.scripted.native import NativePipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import (
    BargeIn,
    CancelResponse,
    CloseSession,
    DuplexEvent,
    DuplexExtension,
    EngineFigures,
    ResponseDone,
    ResponseOutputAudioDelta,
)
from duplex_trio.testing import Talker, open_session, open_talker, scripted_omni
from duplex_trio.testing.recorder import RecordingAttachment

Logs = list[MutableMapping[str, Any]]
LONG = " ".join(["word"] * 40)
NO_VAD = {"turn_detection": None}


def extension(event: Any) -> DuplexExtension:
    assert isinstance(event.duplex, DuplexExtension)
    return event.duplex


def lines(logs: Logs, event: str) -> list[MutableMapping[str, Any]]:
    return [entry for entry in logs if entry["event"] == event]


# ------------------------------------------------------------------ stages


async def test_a_response_tells_what_its_stages_did(autojump_clock: MockClock) -> None:
    """A spoken turn: one transcript, so many words read and written, and the sound that was made, in all."""
    script = Script(heard=["hello there"], otherwise=lambda _: LONG, word_ms=100)
    async with open_session(script) as talker:
        await talker.turn()
        done = extension(await talker.heard.nth(ResponseDone, 1))
        assert done.stage_metrics is not None
        assert done.playback is not None
        asr, llm, tts = (done.stage_metrics[stage] for stage in ("0", "1", "2"))
        assert [figures["stage_name"] for figures in (asr, llm, tts)] == ["asr", "llm", "tts"]
        assert (asr["output_unit_type"], asr["output_unit_count"]) == ("transcript", 1)
        assert (llm["num_tokens_out"], llm["finish_reason"]) == (40, "stop")
        assert llm["num_tokens_in"] >= 2
        assert len(llm["inter_output_latencies_ms"]) == llm["output_unit_count"] - 1
        assert llm["inter_output_latency_ms"] == pytest.approx(20, abs=1)
        assert tts["audio_duration_s"] == pytest.approx(done.playback.generated_ms / 1000)
        assert tts["audio_generated_frames"] == done.playback.generated_ms * 24
        deltas = talker.heard.of(ResponseOutputAudioDelta)
        shown = [extension(event).stage_metrics for event in deltas]
        assert shown[0] is not None
        told = [figures["2"]["output_unit_count"] for figures in shown if figures is not None]
        assert told == list(range(1, tts["output_unit_count"] + 1)), "once for each output"
        assert all("inter_output_latencies_ms" not in stage for f in shown if f for stage in f.values())


async def test_a_turn_that_was_thrown_away_is_in_no_response(autojump_clock: MockClock) -> None:
    """The work on a pause that was none is not counted for the answer that comes."""
    async with open_session(Script(heard=["one", "one two"])) as talker:
        await talker.speak(1.0)
        await talker.pause(0.4)
        await talker.turn()
        done = extension(await talker.heard.nth(ResponseDone, 1))
        assert talker.handle.counters.speculations_discarded == 1
        assert done.stage_metrics is not None
        assert done.stage_metrics["0"]["output_unit_count"] == 1


async def test_what_a_model_does_while_it_listens_goes_to_its_next_answer(autojump_clock: MockClock) -> None:
    """Every unit is counted once, also those that were answered by listening, and none twice."""
    async with open_session(pipeline=NativePipeline(answer="one two"), patch=NO_VAD) as talker:
        for number in (1, 2):
            await talker.speak(2.0)
            await talker.pause(5.0)
            await talker.heard.nth(ResponseDone, number)
        counts = [
            (extension(done).stage_metrics or {})["0"]["output_unit_count"]
            for done in talker.heard.of(ResponseDone)
        ]
    assert counts == [4, 7]


async def test_other_dialects_are_not_measured_for(autojump_clock: MockClock) -> None:
    """What is not shown is not made."""
    async with open_session(Script(), dialect="ga") as talker:
        talker.write("hello")
        await talker.heard.nth(ResponseDone, 1)
        assert all(
            extension(event).stage_metrics is None for event in talker.heard.of(ResponseOutputAudioDelta)
        )


# ------------------------------------------------------------------ the wait for an answer


async def test_the_first_sound_tells_how_long_it_was_awaited(autojump_clock: MockClock) -> None:
    """On the first delta and nowhere else, and again at the end."""
    async with open_session(Script(heard=["hello"])) as talker:
        await talker.turn()
        done = extension(await talker.heard.nth(ResponseDone, 1))
        first, *others = [extension(event) for event in talker.heard.of(ResponseOutputAudioDelta)]
        assert first.request_metrics is not None
        assert first.request_metrics == done.request_metrics
        assert first.request_metrics.ttft_ms is not None
        assert all(other.request_metrics is None for other in others)
        histogram = talker.handle.counters.speech_stop_to_first_audio_ms
        assert histogram.total == pytest.approx(first.request_metrics.speech_end_to_first_audio_ms, abs=0.1)


async def test_a_model_that_owns_its_turns_is_awaited_from_its_latest_unit(autojump_clock: MockClock) -> None:
    """Units before that were listened to; with detection on the end of speech counts too."""
    async with open_session(
        pipeline=NativePipeline(), patch={"turn_detection": {"type": "server_vad"}}
    ) as talker:
        await talker.speak(2.0)
        await talker.pause(4.0)
        delta = extension(await talker.heard.wait_for(ResponseOutputAudioDelta))
        metrics = delta.request_metrics
    assert metrics is not None
    assert metrics.ttft_ms == metrics.ttfp_ms == pytest.approx(20, abs=1)
    assert metrics.speech_end_to_first_audio_ms == pytest.approx(1020, abs=60)


# ------------------------------------------------------------------ interruptions


class _Slow(RecordingAttachment):
    """Takes a while for each piece of sound; `writing` is set during the second."""

    def __init__(self) -> None:
        super().__init__()
        self.writing = trio.Event()

    async def send(self, event: DuplexEvent) -> None:
        if isinstance(event, ResponseOutputAudioDelta):
            if self.of(ResponseOutputAudioDelta):
                self.writing.set()
            await trio.sleep(0.05)
        await super().send(event)


@pytest.mark.parametrize("command", [BargeIn(), CancelResponse()])
async def test_a_cancellation_is_measured_to_its_last_consequence(
    autojump_clock: MockClock, command: Any, logs: Logs
) -> None:
    """Decided at once, silent when the piece in flight is written, and released when the stage's step is over."""
    script = Script(otherwise=lambda _: LONG, word_ms=300)
    async with scripted_omni(script, step_s={"llm": 0.2, "tts": 0.02}) as omni:
        attachment = _Slow()
        handle = await omni.open_session(dialect="duplex", attachment=attachment)
        talker = Talker(handle, attachment)
        talker.write("go")
        await talker.heard.wait_for(ResponseOutputAudioDelta)
        await attachment.writing.wait()
        talker.send(command)
        done = extension(await talker.heard.nth(ResponseDone, 1))
        await trio.sleep(1.0)
        counters = handle.counters
        handle.close("over")
        await handle.wait_closed()
    assert counters.barge_in_decide_ms.count == 1
    assert counters.barge_in_decide_ms.total == pytest.approx(0, abs=1)
    assert counters.barge_in_decide_speech_ms.count == 0
    assert counters.barge_in_silence_ms.total == pytest.approx(50, abs=2)
    assert 0 < counters.barge_in_abort_ms.total <= 201
    assert done.engine_metrics is not None
    assert done.engine_metrics.barge_in_decide_ms == pytest.approx(0, abs=1)
    assert done.engine_metrics.discarded_audio_ms is not None
    assert 100 < done.engine_metrics.discarded_audio_ms <= counters.discarded_audio_ms
    (line,) = lines(logs, "barge_in.settled")
    assert line["silence_ms"] == pytest.approx(50, abs=2)
    assert line["abort_ms"] == pytest.approx(counters.barge_in_abort_ms.total, abs=0.01)


async def test_speech_that_interrupts_is_measured_from_the_sound_that_showed_it(
    autojump_clock: MockClock,
) -> None:
    """The detector's way there and back is in it."""
    script = Script(heard=["stop"], otherwise=lambda _: LONG)
    async with open_session(script, step_s={"vad": 0.03}) as talker:
        talker.write("go")
        await talker.heard.wait_for(ResponseOutputAudioDelta)
        await talker.speak(0.6)
        done = extension(await talker.heard.nth(ResponseDone, 1))
        counters = talker.handle.counters
        assert counters.barge_in_decide_ms.count == 0
        assert counters.barge_in_decide_speech_ms.count == 1
        assert 25 <= counters.barge_in_decide_speech_ms.total <= 70
        assert counters.vad_ms.mean == pytest.approx(30, abs=5)
        assert done.engine_metrics is not None
        assert done.engine_metrics.barge_in_decide_ms == pytest.approx(
            counters.barge_in_decide_speech_ms.total, abs=0.1
        )


@pytest.mark.parametrize("by_command", [False, True])
async def test_the_end_of_a_session_is_no_interruption(autojump_clock: MockClock, by_command: bool) -> None:
    """Nobody waits for it, whoever asks for it."""
    async with scripted_omni(Script(otherwise=lambda _: LONG)) as omni:
        talker = await open_talker(omni)
        talker.write("go")
        await talker.heard.wait_for(ResponseOutputAudioDelta)
        if by_command:
            talker.send(CloseSession())
        else:
            talker.handle.close("over")
        await talker.handle.wait_closed()
        assert talker.handle.counters.barge_in_decide_ms.count == 0
        assert talker.handle.counters.leaked_requests == 0


# ------------------------------------------------------------------ units


async def test_a_model_in_time_misses_nothing(autojump_clock: MockClock) -> None:
    """Every unit is answered one step after it was whole."""
    async with open_session(pipeline=NativePipeline(answer="one two"), patch=NO_VAD) as talker:
        await talker.speak(2.0)
        await talker.pause(5.0)
        done = extension(await talker.heard.nth(ResponseDone, 1))
        counters = talker.handle.counters
        assert counters.unit_deadline_misses == 0
        assert counters.unit_latency_ms.count == 6
        assert counters.unit_latency_ms.mean == pytest.approx(20, abs=1)
        assert done.engine_metrics == EngineFigures(
            units=2, unit_latency_ms=pytest.approx(20, abs=1), unit_deadline_misses=0
        )


async def test_a_model_that_is_too_slow_misses_its_deadlines(autojump_clock: MockClock) -> None:
    """A step takes longer than a frame of 80 ms lasts: it falls behind, frame by frame."""
    limits = SessionLimits(unit_budget_ms=100)
    pipeline = LockstepPipeline()
    async with open_session(pipeline=pipeline, patch=NO_VAD, limits=limits, step_s=0.1) as talker:
        await talker.speak(1.6)
        counters = talker.handle.counters
        assert 8 <= counters.unit_deadline_misses < counters.unit_latency_ms.count
        assert counters.unit_latency_ms.mean is not None
        assert counters.unit_latency_ms.mean > 180


async def test_silence_in_place_of_sound_is_handed_over_in_time(autojump_clock: MockClock) -> None:
    """On a clock without other work it is not late at all."""
    async with open_session(pipeline=NativePipeline(answer=LONG), patch=NO_VAD) as talker:
        await talker.speak(2.0)
        await talker.pause(1.5)
        await trio.sleep(5.0)
        jitter = talker.handle.counters.silence_continuation_jitter_ms
        assert jitter.count >= 3
        assert jitter.total == pytest.approx(0, abs=0.01)


# ------------------------------------------------------------------ the rest


async def test_decoding_is_timed_now_and_then(autojump_clock: MockClock) -> None:
    """One append in sixteen."""
    async with open_session(patch=NO_VAD) as talker:
        await talker.speak(0.02 * 64)
        assert talker.handle.counters.decode_ms.count == 4


async def test_what_waits_for_a_client_is_known(autojump_clock: MockClock) -> None:
    """Its bytes, and for how long the oldest has waited; when it leaves, how long it did."""
    async with open_session(Script(otherwise=lambda _: LONG), step_s=0.001) as talker:
        assert talker.handle.waiting().oldest_s == 0.0
        talker.write("go")
        await talker.heard.wait_for(ResponseOutputAudioDelta)
        talker.heard.stalled = True
        await trio.sleep(1.0)
        waiting = talker.handle.waiting()
        assert waiting.media_bytes > 24_000
        assert waiting.oldest_s == pytest.approx(1.0, abs=0.3)
        assert talker.handle.counters.egress_queue_age_ms.count >= 1


async def test_each_response_and_each_session_have_one_line(autojump_clock: MockClock, logs: Logs) -> None:
    """How it ended and what was measured; nothing that was said."""
    async with open_session(Script(heard=["secret"])) as talker:
        await talker.turn()
        await talker.heard.nth(ResponseDone, 1)
    (response,) = lines(logs, "response.done")
    assert response["status"] == "completed"
    assert response["first_audio_ms"] > 0
    (session,) = lines(logs, "session.closed")
    assert session["responses_completed"] == 1
    assert session["speech_stop_to_first_audio_ms"] == response["first_audio_ms"]
    assert "leaked_requests" not in session
    assert all("secret" not in str(entry) for entry in logs)
