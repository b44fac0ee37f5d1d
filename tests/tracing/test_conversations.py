"""Conversations as spans: how each can end, and that every span that began ends once, whatever happens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import trio
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.trace import SpanKind, StatusCode
from trio.testing import MockClock

from duplex_trio.models.scripted.native import NativePipeline
from duplex_trio.models.scripted.script import Script, tool_call
from duplex_trio.protocol.duplex import (
    BargeIn,
    CancelResponse,
    RealtimeError,
    ResponseDone,
    ResponseOutputAudioDelta,
    SessionClosed,
)
from duplex_trio.session.state.engine_session import DuplexEngineSession
from duplex_trio.testing import finish, open_returning, open_talker, scripted_omni
from duplex_trio.testing.steps import acting_at
from duplex_trio.tracing import NO_TRACER

LONG = " ".join(["word"] * 40)
TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}


def attributes(span: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = span.attributes
    return found


def events(span: Any) -> list[str]:
    return [event.name for event in span.events]


# ------------------------------------------------------------------ what is told


async def test_a_spoken_turn_is_a_tree(
    spans: Any, traced: Any, times: Any, autojump_clock: MockClock
) -> None:
    """Session, response, stages; each stage from its first unit to its end, at the times of the conversation."""
    async with traced(spans, Script(heard=["hello there"], otherwise=lambda _: LONG)) as omni:
        talker = await open_talker(omni)
        await talker.turn()
        done = await talker.heard.nth(ResponseDone, 1)
        await finish(omni, talker)
    session, response = spans.one("session"), spans.one("response")
    assert session.kind is SpanKind.SERVER
    assert response.parent.span_id == session.context.span_id
    assert attributes(session)["gen_ai.conversation.id"] == talker.handle.session_id
    assert attributes(session)["duplex.end_reason"] == "over"
    assert attributes(session)["duplex.responses_completed"] == 1
    told = attributes(response)
    assert told["gen_ai.response.id"] == done.response.id
    assert (told["duplex.status"], told["gen_ai.response.finish_reasons"]) == ("completed", ("stop",))
    assert told["gen_ai.usage.output_tokens"] == done.response.usage.output_tokens == 40
    assert told["duplex.first_audio_ms"] == done.duplex.request_metrics.speech_end_to_first_audio_ms
    assert events(response) == ["duplex.first_audio"]
    stages = [spans.one(name) for name in ("asr", "llm", "tts")]
    assert all(stage.parent.span_id == response.context.span_id for stage in stages)
    assert not any(attributes(stage)["duplex.aborted"] for stage in stages)
    asr, llm, tts = stages
    assert attributes(llm)["gen_ai.usage.output_tokens"] == 40
    assert attributes(tts)["duplex.audio_s"] == pytest.approx(done.duplex.playback.generated_ms / 1000)
    asr_begin, asr_end = times(asr)
    llm_begin, llm_end = times(llm)
    tts_begin, tts_end = times(tts)
    assert asr_end - asr_begin == pytest.approx(0.02, abs=1e-3), "one step of the stage"
    assert llm_begin == pytest.approx(asr_end, abs=1e-3)
    assert llm_begin < tts_begin < llm_end < tts_end, "the voice speaks while the model writes"
    assert times(response)[1] >= tts_end
    assert times(session)[1] >= times(response)[1]


async def test_an_answer_prepared_ahead_begins_before_its_response(
    spans: Any, traced: Any, times: Any, autojump_clock: MockClock
) -> None:
    async with traced(spans, Script(heard=["hello"])) as omni:
        talker = await open_talker(omni)
        await talker.turn()
        await talker.heard.nth(ResponseDone, 1)
        await finish(omni, talker)
    response = spans.one("response")
    assert attributes(response)["duplex.prepared"] is True
    assert times(spans.one("asr"))[0] < times(response)[0]


async def test_a_barge_in_ends_the_response_and_its_stages(
    spans: Any, traced: Any, times: Any, autojump_clock: MockClock
) -> None:
    """What still worked is aborted at that moment; nobody takes it for a fault."""
    async with traced(spans, Script(otherwise=lambda _: LONG), step_s=0.1) as omni:
        talker = await open_talker(omni)
        talker.write("hello")
        await talker.heard.wait_for(ResponseOutputAudioDelta)
        before = trio.current_time()
        talker.send(BargeIn())
        await talker.heard.nth(ResponseDone, 1)
        assert trio.current_time() == before
        await finish(omni, talker)
    response = spans.one("response")
    told = attributes(response)
    assert (told["duplex.status"], told["duplex.reason"]) == ("cancelled", "barge_in")
    assert told["duplex.barge_in_decide_ms"] == 0
    assert events(response) == ["duplex.first_audio", "duplex.barge_in"]
    assert response.status.status_code is StatusCode.UNSET
    aborted = [span for span in spans.named("llm") + spans.named("tts") if attributes(span)["duplex.aborted"]]
    assert {span.name for span in aborted} == {"llm", "tts"}
    assert {span.end_time for span in aborted} == {response.end_time}


async def test_speech_that_interrupts_is_told_like_a_command(
    spans: Any, traced: Any, autojump_clock: MockClock
) -> None:
    async with traced(spans, Script(otherwise=lambda _: LONG)) as omni:
        talker = await open_talker(omni)
        talker.write("hello")
        await talker.heard.wait_for(ResponseOutputAudioDelta)
        await talker.speak(1.0)
        await talker.heard.nth(ResponseDone, 1)
        await finish(omni, talker)
    first = spans.named("response")[0]
    assert events(first) == ["duplex.first_audio", "duplex.barge_in"]
    assert attributes(first)["duplex.reason"] == "turn_detected"


async def test_a_cancellation_that_is_no_interruption_has_no_such_event(
    spans: Any, traced: Any, autojump_clock: MockClock
) -> None:
    async with traced(spans, Script(otherwise=lambda _: LONG)) as omni:
        talker = await open_talker(omni)
        talker.write("hello")
        await talker.heard.wait_for(ResponseOutputAudioDelta)
        talker.send(CancelResponse())
        await finish(omni, talker)
    assert events(spans.one("response")) == ["duplex.first_audio"]


@pytest.mark.usefixtures("faults_expected")
async def test_a_stage_that_fails_is_an_error_of_its_own_and_of_the_response(
    spans: Any, traced: Any, autojump_clock: MockClock
) -> None:
    """Those behind it are aborted; the session goes on and is none."""
    async with traced(spans, Script(fail_on="doom")) as omni:
        talker = await open_talker(omni)
        talker.write("doom")
        done = await talker.heard.nth(ResponseDone, 1)
        assert done.response.status == "failed"
        await finish(omni, talker)
    response, llm = spans.one("response"), spans.one("llm")
    for span in (response, llm):
        assert span.status.status_code is StatusCode.ERROR
        assert attributes(span)["error.type"] == done.response.status_details.error.code
    assert spans.one("session").status.status_code is StatusCode.UNSET


@pytest.mark.usefixtures("faults_expected")
async def test_a_voice_that_fails_stops_the_model_that_writes(
    spans: Any, traced: Any, autojump_clock: MockClock
) -> None:
    script = Script(fail_speaking="doom", otherwise=lambda _: "Good morning. The doom comes. " + LONG)
    async with traced(spans, script, step_s=0.1) as omni:
        talker = await open_talker(omni)
        talker.write("hello")
        await talker.heard.nth(ResponseDone, 1)
        await finish(omni, talker)
    assert spans.one("tts").status.status_code is StatusCode.ERROR
    assert attributes(spans.one("llm"))["duplex.aborted"] is True


async def test_a_called_function_is_named_and_what_it_is_given_is_not(
    spans: Any, traced: Any, autojump_clock: MockClock
) -> None:
    script = Script(replies={"hi": "One moment. " + tool_call("get_weather", city="Paris")})
    async with traced(spans, script) as omni:
        talker = await open_talker(omni, patch={"tools": [TOOL]})
        talker.write("hi")
        await talker.heard.nth(ResponseDone, 1)
        await finish(omni, talker)
    response = spans.one("response")
    (call,) = [event for event in response.events if event.name == "duplex.function_call"]
    assert call.attributes["gen_ai.tool.name"] == "get_weather"
    assert "Paris" not in str([span.to_json() for span in spans.all()])


async def test_a_session_that_is_resumed_stays_one_span(
    spans: Any, traced: Any, autojump_clock: MockClock
) -> None:
    async with traced(spans, Script(otherwise=lambda _: LONG)) as omni:
        talker = await open_returning(omni)
        talker.write("go")
        await trio.sleep(1)
        talker.lose()
        await trio.sleep(2)
        talker.resume()
        await talker.wait_done()
        await trio.sleep(5)
        await finish(omni, talker)
    session = spans.one("session")
    assert [name for name in events(session) if name != "duplex.user_said"] == [
        "duplex.detached",
        "duplex.resumed",
    ]
    assert spans.one("response").parent.span_id == session.context.span_id
    assert attributes(session)["duplex.lease_resumes"] == 1


@pytest.mark.usefixtures("faults_expected")
async def test_a_session_that_crashes_ends_its_spans(
    spans: Any, traced: Any, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the ledgers are what broke, so that no response comes to its end."""
    async with traced(spans, Script(otherwise=lambda _: LONG)) as omni:
        talker = await open_talker(omni)
        talker.write("hello")
        await talker.heard.wait_for(ResponseOutputAudioDelta)

        def broken(*args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("the ledger is broken")

        for name in ("cancel", "fail_response", "note_sent"):
            monkeypatch.setattr(DuplexEngineSession, name, broken)
        await talker.handle.wait_closed()
    session, response = spans.one("session"), spans.one("response")
    assert session.status.status_code is StatusCode.ERROR
    assert attributes(session)["error.type"] == "internal_error"
    assert attributes(response)["duplex.reason"] == "session_ended"


async def test_a_drain_ends_what_is_left(spans: Any, traced: Any, autojump_clock: MockClock) -> None:
    async with traced(spans, Script(otherwise=lambda _: LONG)) as omni:
        talker = await open_talker(omni)
        talker.write("hello")
        await talker.heard.wait_for(ResponseOutputAudioDelta)
        await omni.drain(0.5)
        await talker.heard.wait_for(SessionClosed)
    told = attributes(spans.one("session"))
    assert (told["duplex.end_reason"], told["duplex.close_code"]) == ("server_shutdown", 1001)
    assert attributes(spans.one("response"))["duplex.status"] == "cancelled"


async def test_an_engine_that_is_stopped_takes_its_spans_along(
    spans: Any, traced: Any, autojump_clock: MockClock
) -> None:
    async with traced(spans, Script(otherwise=lambda _: LONG)) as omni:
        talker = await open_talker(omni)
        talker.write("hello")
        await talker.heard.wait_for(ResponseOutputAudioDelta)
    assert spans.one("session").end_time is not None


async def test_who_is_refused_is_not_traced(spans: Any, traced: Any, autojump_clock: MockClock) -> None:
    async with traced(spans, max_sessions=1) as omni:
        talker = await open_talker(omni)
        with pytest.raises(RealtimeError):
            await open_talker(omni)
        await finish(omni, talker)
    assert len(spans.named("session")) == 1


# ------------------------------------------------------------------ models that own their turns


async def test_units_that_were_only_listened_to_are_in_no_stage_span(
    spans: Any, traced: Any, times: Any, autojump_clock: MockClock
) -> None:
    """Two answers in one request: two spans of the stage, each around its own answer."""
    async with traced(spans, pipeline=NativePipeline(answer="one two")) as omni:
        talker = await open_talker(omni, patch={"turn_detection": None})
        for number in (1, 2):
            await talker.speak(2.0)
            await talker.pause(5.0)
            await talker.heard.nth(ResponseDone, number)
        await finish(omni, talker)
    responses = spans.named("response")
    assert len(responses) == 2
    stages = [span for span in spans.all() if "duplex.stage" in attributes(span)]
    assert [span.parent.span_id for span in sorted(stages, key=lambda span: span.start_time or 0)] == [
        response.context.span_id for response in responses
    ]
    first, second = (times(span) for span in sorted(stages, key=lambda span: span.start_time or 0))
    assert first[1] < second[0]
    assert first[1] - first[0] < 5.0


# ------------------------------------------------------------------ privacy, names, cost


async def test_nothing_that_was_said_is_in_a_span(
    spans: Any, telling_spans: Any, traced: Any, autojump_clock: MockClock
) -> None:
    """Unless that is asked for."""
    for kept in (spans, telling_spans):
        script = Script(heard=["my secret question"], otherwise=lambda _: "a private answer")
        async with traced(kept, script) as omni:
            talker = await open_talker(omni, patch={"instructions": "hidden instructions"})
            await talker.turn()
            await talker.heard.nth(ResponseDone, 1)
            await finish(omni, talker)
    silent, telling = (str([span.to_json() for span in kept.all()]) for kept in (spans, telling_spans))
    assert not any(word in silent for word in ("secret", "private", "hidden"))
    assert "my secret question" in telling
    assert "a private answer" in telling
    assert "hidden" not in telling


async def test_names_of_attributes_are_known_or_ours(
    spans: Any, traced: Any, autojump_clock: MockClock
) -> None:
    """`gen_ai.` is what OpenTelemetry's conventions define, and nothing else."""
    defined = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    script = Script(heard=["hello"], replies={"hello": "Wait. " + tool_call("get_weather")})
    async with traced(spans, script) as omni:
        talker = await open_talker(omni, patch={"tools": [TOOL]})
        await talker.turn()
        await talker.heard.nth(ResponseDone, 1)
        await finish(omni, talker)
    names = {name for span in spans.all() for name in attributes(span)}
    names |= {name for span in spans.all() for event in span.events for name in event.attributes}
    assert {name for name in names if name.startswith("gen_ai.")} <= defined
    assert {name for name in names if not name.startswith("gen_ai.")} <= {
        name for name in names if name.startswith("duplex.") or name == "error.type"
    }


async def test_the_clients_trace_goes_on_here(
    spans: Any, traced: Any, logs: Any, autojump_clock: MockClock
) -> None:
    """And the lines about the session carry it; one that is not well formed is none."""
    from duplex_trio.testing import RecordingAttachment

    trace_id = "0af7651916cd43dd8448eb211c80319c"
    async with traced(spans) as omni:
        for parent in (f"00-{trace_id}-b7ad6b7169203331-01", "00-nonsense"):
            handle = await omni.open_session(
                dialect="duplex", attachment=RecordingAttachment(), trace_headers={"traceparent": parent}
            )
            handle.close("over")
            await handle.wait_closed()
    first, second = sorted(spans.named("session"), key=lambda span: span.parent is None)
    assert f"{first.context.trace_id:032x}" == trace_id
    assert f"{first.parent.span_id:016x}" == "b7ad6b7169203331"
    assert second.parent is None
    carried = [line.get("trace_id") for line in logs if line["event"] in ("session.opened", "session.closed")]
    assert carried == [trace_id] * 2 + [f"{second.context.trace_id:032x}"] * 2


async def test_whoever_traces_nothing_keeps_nothing(autojump_clock: MockClock, logs: Any) -> None:
    """No spells, no ending and no attributes are made, and no line has a trace's id."""
    made = 0

    def count(*args: Any, **kwargs: Any) -> None:
        nonlocal made
        made += 1

    from duplex_trio.session import figures
    from duplex_trio.tracing import StageSpells

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StageSpells, "__init__", count)
        patch.setattr(figures, "ResponseEnding", count)
        async with scripted_omni(Script(heard=["hello"])) as omni:
            omni.trace_with(NO_TRACER)
            talker = await open_talker(omni)
            await talker.turn()
            await talker.heard.nth(ResponseDone, 1)
            await finish(omni, talker)
    assert made == 0
    assert not [line for line in logs if "trace_id" in line]


# ------------------------------------------------------------------ between any two steps


@pytest.mark.parametrize("stride", [31, pytest.param(7, marks=pytest.mark.slow)])
@pytest.mark.parametrize("what", ["close", "barge_in", "cancel", "lose", "stop"])
async def test_every_span_ends_once_whatever_happens_when(
    spans: Any, traced: Any, autojump_clock: MockClock, what: str, stride: int
) -> None:
    """A spoken turn and a written one, with an end or an interruption at one step after another."""

    async def hold(step: int) -> int:
        script = Script(
            heard=["first question"], otherwise=lambda _: "Alpha bravo charlie delta. Echo foxtrot."
        )
        with trio.CancelScope() as stop:
            async with traced(spans, script) as omni:
                talker = await open_talker(omni)
                actions: Mapping[str, Any] = {
                    "close": lambda: talker.handle.close("over"),
                    "barge_in": lambda: talker.send(BargeIn()),
                    "cancel": lambda: talker.send(CancelResponse()),
                    "lose": lambda: talker.handle.disconnected(),
                    "stop": stop.cancel,
                }
                with acting_at(step, actions[what]) as counter:
                    await talker.turn(0.5)
                    talker.write("second question")
                    await trio.sleep(4.0)
                talker.handle.close("over")
                await talker.handle.wait_closed()
        spans.ledger.check()
        return counter.steps

    steps = await hold(0)
    for step in range(1, steps + 1, stride):
        await hold(step)
    assert len(spans.named("session")) == len(range(0, steps, stride)) + 1
    assert steps > 300
    assert len(spans.named("response")) >= 2
