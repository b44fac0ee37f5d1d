"""From a model's results to typed outputs, and from these to the whole answer: nothing is lost, doubled or moved."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.engine.turn.messages import Spoken, pieces_of
from duplex_trio.engine.turn.outputs import CallOutput, EndOutput, OmniOutput, OmniResult, ResultBuilder
from duplex_trio.engine.turn.reader import ResultReader
from duplex_trio.engine.turn.request import Message, Part, Picture, Sound, Text
from duplex_trio.pipelines.results import (
    FunctionCallArguments,
    FunctionCallBegin,
    FunctionCallEnd,
    FunctionCallResult,
    ModelResult,
    SpeechResult,
    TextResult,
    TokenUsage,
    TurnEnd,
    UserTranscript,
)
from duplex_trio.protocol.pictures import grey_png
from duplex_trio.stages.units import ChatCall

PNG = grey_png(2, 2)


def read(results: Iterable[ModelResult]) -> tuple[list[OmniOutput], OmniResult]:
    ids = itertools.count()
    reader, builder = ResultReader(lambda: f"made-{next(ids)}"), ResultBuilder("r", last_message=0)
    outputs = [output for result in results for output in reader.read(result)]
    for output in outputs:
        builder.take(output)
    return outputs, builder.result()


def _call(name: str, pieces: Sequence[str], whole: bool) -> list[ModelResult]:
    if whole:
        return [FunctionCallResult(name=name, arguments="".join(pieces))]
    return [FunctionCallBegin(name=name), *map(FunctionCallArguments, pieces), FunctionCallEnd()]


_TEXT = st.text(max_size=6)
_STEPS = st.one_of(
    st.builds(lambda text: [TextResult(text=text)], _TEXT),
    st.builds(
        lambda text, count: [
            SpeechResult(pcm=np.full(count, count, np.float32), sample_rate_hz=24_000, text=text)
        ],
        _TEXT,
        st.integers(0, 5),
    ),
    st.builds(lambda count: [TokenUsage(output_tokens=count)], st.integers(0, 9)),
    st.builds(_call, st.sampled_from(["look", "listen"]), st.lists(_TEXT, max_size=4), st.booleans()),
)


@given(st.lists(_STEPS, max_size=12), st.sampled_from(["stop", "length"]))
def test_a_whole_answer_is_its_pieces(steps: list[list[ModelResult]], reason: str) -> None:
    results = [result for step in steps for result in step]
    end = TurnEnd(finish_reason=reason, input_tokens=3, output_tokens=9)
    outputs, whole = read([*results, end])
    said = [r.text for r in results if isinstance(r, TextResult | SpeechResult)]
    assert whole.text == "".join(said)
    sound = [r.pcm for r in results if isinstance(r, SpeechResult)]
    assert whole.pcm.tolist() == (np.concatenate(sound).tolist() if sound else [])
    calls = [step for step in steps if isinstance(step[0], FunctionCallBegin | FunctionCallResult)]
    assert len(whole.calls) == len(calls) == len({call.call_id for call in whole.calls})
    for call, step in zip(whole.calls, calls, strict=True):
        assert call.arguments == "".join(
            r.delta if isinstance(r, FunctionCallArguments) else getattr(r, "arguments", "") for r in step
        )
    assert [isinstance(output, EndOutput) for output in outputs] == [False] * (len(outputs) - 1) + [True]
    assert whole.finish_reason == ("length" if reason == "length" else "tool_calls" if calls else "stop")
    assert whole.usage.output_tokens == 9


def test_a_call_that_does_not_end_is_none() -> None:
    outputs, whole = read([FunctionCallBegin(name="look"), FunctionCallArguments("{"), TurnEnd()])
    assert [output.done for output in outputs if isinstance(output, CallOutput)] == [False, False]
    assert (whole.calls, whole.finish_reason) == ((), "stop")


def test_an_id_of_the_models_own_is_kept() -> None:
    _, whole = read([FunctionCallResult(name="look", arguments="{}", call_id="mine"), TurnEnd()])
    assert whole.calls == (ChatCall(name="look", arguments="{}", call_id="mine"),)


def test_what_was_heard_is_told_apart_from_what_is_said() -> None:
    _, whole = read([UserTranscript(text="hi", audio_duration_s=1.0), TextResult(text="ho"), TurnEnd()])
    assert (whole.transcript, whole.text) == ("hi", "ho")


_PARTS = st.one_of(
    st.builds(Text, _TEXT),
    st.builds(lambda: Sound(np.ones(3, np.float32), 16_000)),
    st.builds(
        lambda text: Sound(np.ones(3, np.float32), 16_000, transcript=text), st.text(min_size=1, max_size=4)
    ),
    st.builds(lambda: Picture(PNG)),
)


@given(st.lists(_PARTS, max_size=8))
def test_a_message_is_told_in_its_order(parts: list[Part]) -> None:
    """Text before and after a sound stays there; what says nothing is not told."""
    told = list(pieces_of(4, Message("user", parts)))
    places = [piece.place for piece in told if isinstance(piece, Spoken)]
    heard = [index for index, part in enumerate(parts) if isinstance(part, Sound) and part.transcript is None]
    assert places == [(4, index) for index in heard]
    runs = "".join("|" if isinstance(piece, Spoken) else piece.content for piece in told)
    words = "".join(
        "|" if index in heard else getattr(part, "text", None) or getattr(part, "transcript", None) or ""
        for index, part in enumerate(parts)
    )
    assert re.sub("\n", "", runs) == re.sub("\n", "", words)
    shown = sum(0 if isinstance(piece, Spoken) else len(piece.images) for piece in told)
    assert shown == sum(isinstance(part, Picture) for part in parts)
