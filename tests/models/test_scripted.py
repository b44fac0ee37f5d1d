"""The scripted model: what it hears and says, the same each time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from duplex_trio.cli.compose import make_omni, plan_serving, read_deploy
from duplex_trio.cli.errors import CommandError
from duplex_trio.deploy import load_deploy
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script, tool_call
from duplex_trio.models.scripted.workers import EnergyVad, ScriptedAsr, ScriptedLlm, ScriptedTts, ScriptedVad
from duplex_trio.pipelines.requests import TurnInput
from duplex_trio.pipelines.topology import check_topology
from duplex_trio.stages.port import StageRequest
from duplex_trio.stages.units import (
    ChatMessage,
    ChatPrompt,
    Clause,
    GenerationParams,
    Pcm,
    SpeechSegment,
    VadBatch,
)
from duplex_trio.testing.workers import RecordingContext, run_requests, run_units

LOUD: Pcm = np.full(16_000, 0.1, np.float32)
QUIET: Pcm = np.zeros(16_000, np.float32)


def asked(text: str) -> ChatPrompt:
    return ChatPrompt(messages=(ChatMessage(role="user", content=text),))


def heard(context: RecordingContext) -> list[str]:
    return [transcript.text for transcript in context.values("test")]


def test_speech_is_what_is_loud() -> None:
    """Each frame scores 1 or 0 by its loudness."""
    pcm = np.concatenate([LOUD[:512], QUIET[:1024], LOUD[:512]])
    (scores,) = run_units(EnergyVad(), VadBatch({7: pcm, 3: LOUD[:512]})).values("test")
    assert [one.tolist() for one in scores.probabilities] == [[1.0, 0.0, 0.0, 1.0], [1.0]]


def test_scripted_probabilities_are_played_back_to_each_speaker() -> None:
    """From the first one, whatever is heard and however it is cut up; then it is quiet."""
    worker, batches = (
        ScriptedVad([0.25, 0.5, 0.75]),
        [
            VadBatch({1: QUIET[:1024], 2: LOUD[:512]}),
            VadBatch({2: LOUD[:512], 1: QUIET[:1024]}),
            VadBatch({1: LOUD[:512]}, gone=[1]),
        ],
    )
    scores = run_units(worker, *batches).values("test")
    assert [[one.tolist() for one in batch.probabilities] for batch in scores] == [
        [[0.25, 0.5], [0.25]],
        [[0.5], [0.75, 0.0]],
        [[0.25]],
    ]


def test_each_owner_is_heard_in_the_scripts_order() -> None:
    """Partial transcripts show what the next final one says; then the script is at its end."""
    script = Script(heard=["one", "two"])
    units = [
        SpeechSegment(pcm=LOUD, partial=True),
        SpeechSegment(pcm=LOUD),
        SpeechSegment(pcm=LOUD),
        SpeechSegment(pcm=LOUD[:8000]),
    ]
    assert heard(run_units(ScriptedAsr(script), *units)) == ["one", "one", "two", "sound of 0.5 seconds"]
    assert script.hear("somebody else", 1.0, partial=False) == "one"


def test_silence_is_no_words() -> None:
    """It takes nothing from the script."""
    script = Script(heard=["one"])
    units = [SpeechSegment(pcm=QUIET), SpeechSegment(pcm=LOUD)]
    assert heard(run_units(ScriptedAsr(script), *units)) == ["", "one"]


@pytest.mark.parametrize(
    ("words_per_step", "deltas"),
    [(1, ["good ", "day ", "sir"]), (2, ["good day ", "sir"]), (9, ["good day sir"])],
)
def test_an_answer_is_written_some_words_a_step(words_per_step: int, deltas: list[str]) -> None:
    """The pieces join to the answer; each has the totals so far."""
    script = Script(replies={"hello there": "good day sir"}, words_per_step=words_per_step)
    values = run_units(ScriptedLlm(script), asked("hello there")).values("test")
    assert [delta.text for delta in values] == deltas
    assert [delta.finish_reason for delta in values] == [None] * (len(deltas) - 1) + ["stop"]
    assert {delta.prompt_tokens for delta in values} == {2}
    assert [delta.completion_tokens for delta in values] == [
        min(3, words_per_step * step) for step in range(1, len(deltas) + 1)
    ]
    assert script.asked[-1].prompt == asked("hello there")


def test_without_a_reply_the_words_come_back() -> None:
    """Or whatever the script makes of them."""
    assert Script().answer("hello") == "You said: hello"
    assert Script(otherwise=str.upper).answer("hello") == "HELLO"


def test_a_limit_cuts_the_answer() -> None:
    """One word is one token."""
    script = Script(replies={"go": "a b c d"})
    values = run_units(ScriptedLlm(script), asked("go"), params=GenerationParams(max_tokens=2)).values("test")
    assert "".join(delta.text for delta in values) == "a b"
    assert (values[-1].finish_reason, values[-1].completion_tokens) == ("length", 2)


def test_requests_take_turns() -> None:
    """No request waits for another one's whole answer."""
    script = Script(replies={"one": "a b", "two": "c d"})
    context = run_requests(ScriptedLlm(script), {"1": [asked("one")], "2": [asked("two")]})
    assert [output.request_id for output in context.outputs] == ["1", "2", "1", "2"]


def test_it_fails_where_the_script_says() -> None:
    """The language model at what the user says, the voice at a word of the answer."""
    script = Script(fail_on=frozenset({"bad"}), fail_speaking="never")
    failure = run_units(ScriptedLlm(script), asked("bad")).failure("test")
    assert failure is not None
    assert failure.code == "engine_error"
    failure = run_units(ScriptedTts(script), Clause(text="well"), Clause(text="I never did")).failure("test")
    assert failure is not None
    assert failure.code == "engine_error"


def test_a_word_is_a_tone() -> None:
    """Each of the script's length."""
    (chunk,) = run_units(ScriptedTts(Script(word_ms=200)), Clause(text="one two three")).values("test")
    assert (len(chunk.pcm), chunk.sample_rate_hz, chunk.text) == (
        24_000 * 600 // 1000,
        24_000,
        "one two three",
    )
    assert float(np.abs(chunk.pcm).max()) == pytest.approx(0.2, abs=0.01)


def test_an_aborted_request_is_forgotten() -> None:
    """Nothing is written for it any more."""
    worker, context = ScriptedLlm(Script(replies={"go": "a b c"})), RecordingContext()
    worker.open(StageRequest(request_id="r"), context)
    worker.submit("r", asked("go"), True, context)
    assert worker.step(context)
    worker.abort(["r", "unknown"])
    assert not worker.step(context)
    assert len(context.outputs) == 1


def test_the_pipeline_is_the_cascades() -> None:
    """Its three stages feed each other in a row, and there is a detector."""
    pipeline = ScriptedPipeline()
    check_topology(pipeline.config)
    assert [spec.name for spec in pipeline.stages] == [pipeline.build_worker(n).name for n in range(3)]
    assert pipeline.build_vad_worker() is not None
    assert pipeline.model_name() == "scripted"


# ------------------------------------------------------------------ a script in a deployment

DEPLOYMENT = """
base_config: scripted
stages:
  - stage_id: 0
    engine_args:
      heard: [what is the weather in Paris]
  - stage_id: 1
    engine_args:
      replies:
        what is the weather in Paris: >-
          One moment. <tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>
        sunny: It is sunny in Paris.
  - stage_id: 2
    engine_args:
      dies_speaking: boom
"""


def served(tmp_path: Path, text: str) -> Script:
    path = tmp_path / "deploy.yaml"
    path.write_text(text)
    pipeline = make_omni(plan_serving(read_deploy(str(path), models={}))).pipeline
    assert isinstance(pipeline, ScriptedPipeline)
    return pipeline.script


def test_a_deployment_holds_a_script(tmp_path: Path) -> None:
    """What is heard and what is answered, calls included, for a server that nobody else can tell."""
    script = served(tmp_path, DEPLOYMENT)
    assert script.hear("a", 1.0, partial=False) == "what is the weather in Paris"
    call = tool_call("get_weather", city="Paris")
    assert script.answer("what is the weather in Paris") == f"One moment. {call}"
    assert script.answer("sunny") == "It is sunny in Paris."
    assert script.answer("else") == "You said: else"
    assert script.dies_speaking == "boom"
    assert served(tmp_path, "base_config: scripted").answer("hi") == "You said: hi"


@pytest.mark.parametrize(
    ("written", "correct", "fault"),
    [
        (
            "heard: [what is the weather in Paris]",
            "heard: 5",
            r"stages\[0\].engine_args.heard must be a list",
        ),
        ("sunny: It is sunny in Paris.", "sunny: 1", r"stages\[1\].engine_args.replies must map texts"),
        ("dies_speaking: boom", "dies_speaking: 5", r"stages\[2\].engine_args.dies_speaking must be a word"),
        ("replies:", "answers:", r"stages\[1\].engine_args has no 'answers', but 'replies'"),
    ],
)
def test_a_faulty_script_is_named(tmp_path: Path, written: str, correct: str, fault: str) -> None:
    """In one line, with the place of the fault."""
    with pytest.raises(CommandError, match=fault):
        served(tmp_path, DEPLOYMENT.replace(written, correct))


def test_a_deployment_says_how_long_its_answers_are(tmp_path: Path) -> None:
    """As it does for a real model: what a request leaves open is as the deployment has it."""
    file = tmp_path / "short.yaml"
    file.write_text(
        "base_config: scripted\nstages: [{stage_id: 1, default_sampling_params: {max_tokens: 2}}]\n"
    )
    turn = TurnInput(pcm=None, conversation=[ChatMessage(role="user", content="tell me more")])
    planned = ScriptedPipeline(load_deploy(file)).build_processor().plan_turn(turn)
    assert planned.entry.params.max_tokens == 2
