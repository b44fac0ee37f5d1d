"""The cascade's ways through its stages, and what it tells a session about each output."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from duplex_trio.models.cascade.plugin import ASR, LLM, TTS, CascadePlugin
from duplex_trio.models.cascade.profiles import ChatProfile
from duplex_trio.pipelines.requests import RequestView, StageForward, TurnInput, TurnPlan
from duplex_trio.pipelines.results import (
    ListenResult,
    SpeechResult,
    TextResult,
    TokenUsage,
    TurnEnd,
    UserTranscript,
)
from duplex_trio.stages.port import StageOutput
from duplex_trio.stages.units import (
    ChatMessage,
    ChatPrompt,
    Clause,
    GenerationParams,
    Pcm,
    SpeechChunk,
    SpeechSegment,
    TextDelta,
    Transcript,
)

SOUND: Pcm = np.zeros(16_000, np.float32)


def plugin(**profile: Any) -> CascadePlugin:
    return CascadePlugin(ChatProfile(**{"default_instructions": None, **profile}), voices=("a", "b"))


def turn(pcm: Pcm | None = SOUND, **fields: Any) -> TurnInput:
    return TurnInput(**{"pcm": pcm, "conversation": (ChatMessage(role="user", content="hi"),), **fields})


def view(plan: TurnPlan) -> RequestView:
    return RequestView(
        request_id="r",
        session_id="s",
        epoch=0,
        turn_id=1,
        final_stage_id=plan.final_stage_id,
        state=plan.state,
    )


def output(data: Any, *, finished: bool = False) -> StageOutput:
    return StageOutput(request_id="r", data=data, finished=finished)


class Way:
    """One turn on its way: feeds stage outputs to both hooks as the orchestrator does."""

    def __init__(self, made: CascadePlugin, given: TurnInput) -> None:
        self._plugin = made
        self.plan = made.plan_turn(given)
        self._view = view(self.plan)

    def feed(
        self, stage_id: int, data: Any, *, finished: bool = False
    ) -> tuple[list[Any], list[StageForward]]:
        """What is delivered and what is forwarded for one output."""
        out = output(data, finished=finished)
        results = list(self._plugin.project(stage_id, out, self._view))
        forwards = (
            []
            if stage_id == self.plan.final_stage_id
            else list(self._plugin.forward(stage_id, out, self._view))
        )
        return results, forwards


# ------------------------------------------------------------------ planning


@pytest.mark.parametrize(
    ("given", "entry_stage", "final_stage"),
    [
        (turn(), ASR, TTS),
        (turn(modalities=frozenset({"text"})), ASR, LLM),
        (turn(respond=False), ASR, ASR),
        (turn(None), LLM, TTS),
        (turn(None, modalities=frozenset({"text"})), LLM, LLM),
    ],
)
def test_a_turn_enters_and_leaves_where_it_must(given: TurnInput, entry_stage: int, final_stage: int) -> None:
    """Sound enters at recognition, text at the language model; it ends at the last stage that is wanted."""
    plan = plugin().plan_turn(given)
    assert (plan.entry.stage_id, plan.final_stage_id, plan.entry.final) == (entry_stage, final_stage, True)


def test_sound_is_recognised_in_its_language() -> None:
    """The segment holds the sound and the language of the session."""
    unit = plugin().plan_turn(turn(language="en")).entry.unit
    assert isinstance(unit, SpeechSegment)
    assert (unit.pcm is SOUND, unit.language, unit.partial) == (True, "en", False)


def test_a_partial_transcript_is_a_quick_one() -> None:
    """It may be superseded, and its text is what is shown."""
    forward = plugin().plan_partial(SOUND, "en")
    assert forward is not None
    assert (forward.stage_id, forward.unit.partial, forward.unit.language, forward.final) == (
        ASR,
        True,
        "en",
        False,
    )
    shown = Transcript(text="hel", partial=True, duration_s=1.0)
    assert plugin().partial_transcript(output(shown)) == "hel"
    assert plugin().partial_transcript(output("else")) is None


def test_limits_of_the_turn_come_first() -> None:
    """Temperature and tokens of the turn, else the profile's; a temperature of zero is a temperature."""
    made = plugin(temperature=0.7, top_p=0.8, repetition_penalty=1.2, max_tokens=50)
    own = made.plan_turn(turn(None, temperature=0.0, max_output_tokens=9)).entry.params
    assert own == GenerationParams(temperature=0.0, top_p=0.8, repetition_penalty=1.2, max_tokens=9)
    default = made.plan_turn(turn(None)).entry.params
    assert (default.temperature, default.max_tokens) == (0.7, 50)


@pytest.mark.parametrize(("limit", "kept"), [(20, 3), (4096, 2)])
def test_the_prompt_fits_beside_the_answer(limit: int, kept: int) -> None:
    """The answer's limit is kept free in the context, but half of it at most: clients ask for any number."""
    made = CascadePlugin(
        ChatProfile(default_instructions=None),
        voices=("a",),
        context_tokens=60,
        count_tokens=lambda messages, tools: sum(len(message.content.split()) for message in messages),
    )
    history = [
        ChatMessage(role=role, content="w " * 12) for role in ("user", "assistant", "user", "assistant")
    ]
    asked = turn(
        None,
        conversation=[*history, ChatMessage(role="user", content="now")],
        max_output_tokens=limit,
    )
    prompt = made.plan_turn(asked).entry.unit
    assert isinstance(prompt, ChatPrompt)
    assert sum(len(message.content.split()) for message in prompt.messages) <= 60 - min(limit, 30)
    assert prompt.messages[-1].content == "now"
    assert len(prompt.messages) == kept + (kept + 1) % 2


# ------------------------------------------------------------------ the way


def test_a_transcript_becomes_the_question() -> None:
    """The client is told the words; the model is asked with the conversation before them."""
    way = Way(plugin(), turn(instructions="be kind"))
    results, forwards = way.feed(
        ASR, Transcript(text="how are you", partial=False, duration_s=1.5), finished=True
    )
    assert results == [UserTranscript(text="how are you", audio_duration_s=1.5)]
    (forward,) = forwards
    assert (forward.stage_id, forward.final) == (LLM, True)
    assert [message.content for message in forward.unit.messages] == ["be kind", "hi how are you"]


def test_no_words_end_the_turn() -> None:
    """Silence asks nobody: the model listens."""
    results, forwards = Way(plugin(), turn()).feed(
        ASR, Transcript(text="", partial=False, duration_s=0.5), finished=True
    )
    assert results == [
        UserTranscript(text="", audio_duration_s=0.5),
        ListenResult(reason="silence_or_noise", model_listen=False),
    ]
    assert forwards == []


def test_clauses_are_spoken_while_the_answer_is_written() -> None:
    """The first sentence goes to the voice before the second is written; the last clause is marked final."""
    way = Way(plugin(), turn(None, speed=1.2))
    spoken: list[StageForward] = []
    for text in ("Good ", "morning. ", "How can I help you "):
        results, forwards = way.feed(LLM, TextDelta(text=text))
        assert results == []
        spoken += forwards
    assert [forward.unit.text for forward in spoken] == ["Good morning."]
    _, rest = way.feed(LLM, TextDelta(text="today?", finish_reason="stop"), finished=True)
    assert [(forward.unit.text, forward.final) for forward in rest] == [("How can I help you today?", True)]
    assert {forward.stage_id for forward in (*spoken, *rest)} == {TTS}
    assert rest[0].unit == Clause(text="How can I help you today?", voice="a", speed=1.2)


@pytest.mark.parametrize(("wanted", "voice"), [("b", "b"), ("marin", "a"), (None, "a")])
def test_a_voice_that_there_is_speaks(wanted: str | None, voice: str) -> None:
    """A voice of another vendor's name speaks as the default one."""
    _, forwards = Way(plugin(), turn(None, voice=wanted)).feed(
        LLM, TextDelta(text="Yes.", finish_reason="stop"), finished=True
    )
    assert forwards[0].unit.voice == voice


def test_markup_is_not_spoken() -> None:
    """A clause without anything to say is left out; an answer without any is over when it is written."""
    way = Way(plugin(), turn(None))
    assert way.feed(LLM, TextDelta(text="***", finish_reason="stop"), finished=True) == ([TurnEnd()], [])


def test_sound_comes_with_its_text_and_the_totals_at_the_end() -> None:
    """Each chunk is speech; behind the last one stands the end with the language model's figures."""
    way = Way(plugin(), turn(None))
    way.feed(
        LLM,
        TextDelta(text="Yes.", finish_reason="length", prompt_tokens=7, cached_tokens=3, completion_tokens=2),
        finished=True,
    )
    pcm = np.ones(240, np.float32)
    results, _ = way.feed(TTS, SpeechChunk(pcm=pcm, sample_rate_hz=24_000, text="Yes."), finished=True)
    speech, end = results
    assert isinstance(speech, SpeechResult)
    assert (speech.pcm is pcm, speech.sample_rate_hz, speech.text) == (True, 24_000, "Yes.")
    assert end == TurnEnd(finish_reason="length", input_tokens=7, cached_tokens=3, output_tokens=2)


def test_a_written_answer_is_told_as_it_is_written() -> None:
    """Deltas as they are, markup and all, with what they took so far as soon as that is known, then the end."""
    way = Way(plugin(), turn(None, modalities=frozenset({"text"})))
    assert way.feed(LLM, TextDelta(text="**Yes** "))[0] == [TextResult(text="**Yes** ")]
    more = TextDelta(text="no", prompt_tokens=5, cached_tokens=3, completion_tokens=1)
    so_far = TokenUsage(input_tokens=5, cached_tokens=3, output_tokens=1)
    assert way.feed(LLM, more)[0] == [TextResult(text="no"), so_far]
    last = TextDelta(text="", finish_reason="stop", prompt_tokens=5, completion_tokens=2)
    assert way.feed(LLM, last, finished=True) == (
        [TokenUsage(input_tokens=5, output_tokens=2), TurnEnd(input_tokens=5, output_tokens=2)],
        [],
    )


def test_a_turn_that_only_wants_words_asks_nobody() -> None:
    """Its one result is the transcript; nothing is forwarded."""
    way = Way(plugin(), turn(respond=False))
    assert way.feed(ASR, Transcript(text="hi", partial=False, duration_s=1.0), finished=True) == (
        [UserTranscript(text="hi", audio_duration_s=1.0)],
        [],
    )


@pytest.mark.parametrize(("limit", "sentences"), [(None, 2), (50, 3)])
def test_a_model_that_finds_no_end_is_ended(limit: int | None, sentences: int) -> None:
    """After the profile's number of sentences the voice gets its last clause, unless the client set a limit."""
    way = Way(plugin(sentences_max=2), turn(None, max_output_tokens=limit))
    spoken: list[StageForward] = []
    for text in (
        "One is here now. ",
        "The second one is somewhat longer than that. ",
        "And the third one is about as long as it. ",
        "Four",
    ):
        spoken += way.feed(LLM, TextDelta(text=text, completion_tokens=5))[1]
    assert len(spoken) == sentences
    assert spoken[-1].final is (limit is None)


def test_it_says_what_it_can_do() -> None:
    """Turns of text, partial transcripts and prepared answers.

    No images, no turn policy of its own, no tools.
    """
    capabilities = plugin().capabilities(4)
    assert capabilities.supports_text_only_turn
    assert capabilities.supports_multi_session
    assert capabilities.partial_transcript_interval_ms > 0
    assert capabilities.speculation_pause_ms > 0
    assert not capabilities.supports_image_input
    assert not capabilities.supports_model_native_turn_policy
    assert not plugin().capabilities(1).supports_multi_session


# ------------------------------------------------------------------ functions

WEATHER = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
HANG_UP = {"type": "function", "name": "hang_up"}
TOOLS = (WEATHER, HANG_UP)
SMALL = {"decides_calls": False}


def asked(*, guided: bool = True, profile: dict[str, Any] | None = None, **fields: Any) -> StageForward:
    """What the language model is asked in a turn that may call functions."""
    made = CascadePlugin(
        ChatProfile(**{"default_instructions": None, **(profile or {})}), voices=("a",), guided=guided
    )
    return made.plan_turn(turn(None, **{"tools": TOOLS, **fields})).entry


def test_an_engine_that_can_is_held_to_the_functions() -> None:
    """By a grammar in the parameters of its request; none without functions, or for another engine."""
    guided = asked().params
    assert "get_weather" in guided.extra["structured_outputs"]["structural_tag"]
    assert asked(guided=False).params.extra == {}
    assert asked(tools=()).params.extra == {}


@pytest.mark.parametrize(
    ("said", "named"),
    [("what is the weather", "get_weather"), ("please hang up", "hang_up"), ("hello", None)],
)
def test_for_a_small_model_the_users_words_decide(said: str, named: str | None) -> None:
    """It must call what they are about, and is told of nothing else; of no function when they are about none."""
    conversation = (ChatMessage(role="user", content=said),)
    entry = asked(profile=SMALL, conversation=conversation)
    prompt = " ".join(message.content for message in entry.unit.messages)
    assert [name for name in ("get_weather", "hang_up") if name in prompt] == ([named] if named else [])
    assert bool(entry.params.extra) == (named is not None)
    assert (f"Call the function {named} now." in prompt) == (named is not None)


def test_the_answer_to_a_call_is_no_other_call() -> None:
    """However much the output of a function says about functions."""
    conversation = (
        ChatMessage(role="user", content="the weather?"),
        ChatMessage(role="tool", content="the weather is fine", call_id="c"),
    )
    assert asked(profile=SMALL, conversation=conversation).params.extra == {}


def test_what_must_be_called_is_called_by_a_small_model_too() -> None:
    """What the client demands comes before what the user said."""
    entry = asked(profile=SMALL, tool_choice={"type": "function", "name": "hang_up"})
    assert "hang_up" in entry.params.extra["structured_outputs"]["structural_tag"]
    assert "Call the function hang_up now." in entry.unit.messages[0].content
