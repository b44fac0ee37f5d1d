"""Which fields of OpenAI's session and response objects change what happens: `docs/openai-compatibility.md`, held true.

The page names each field that OpenAI's SDK has. A conversation is held without and with each of them, and what the
model is asked and what the client hears, moment by moment, must differ exactly where the page says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

import attrs
import numpy as np
import orjson
import pydantic
import pytest
import trio
from openai.types.realtime.realtime_response import RealtimeResponse
from openai.types.realtime.realtime_response_create_params import RealtimeResponseCreateParams
from openai.types.realtime.realtime_session_create_request import RealtimeSessionCreateRequest
from trio.testing import MockClock

from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.turns import TurnsPipeline
from duplex_trio.models.scripted.turns_plugin import TurnsPlugin
from duplex_trio.models.scripted.workers import EnergyVad
from duplex_trio.pipelines.requests import StageForward, TurnInput, TurnPlan
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.protocol.dialects import Dialect, render
from duplex_trio.protocol.duplex import ErrorEvent, ResponseDone
from duplex_trio.stages.units import Pcm
from duplex_trio.testing import finish, scripted_omni
from duplex_trio.testing.transcript import TranscriptTalker, normalised, open_transcript

PAGE = (Path(__file__).parents[2] / "docs" / "openai-compatibility.md").read_text()
TOOL = {"type": "function", "name": "look_up", "parameters": {"type": "object"}}
CHOICE = {"tools": [TOOL], "tool_choice": {"type": "function", "name": "look_up"}}
REPLY = "one two three four five six"


def rows(title: str) -> dict[str, str]:
    """The first two columns of the table under a heading."""
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    return dict(re.findall(r"^\| `([\w.]+)` \| (\w+) \|", section, re.MULTILINE))


def leaves(model: type[pydantic.BaseModel], prefix: str = "") -> set[str]:
    """The paths of all fields of an SDK class that hold no object themselves."""
    found = set()
    for name, field in model.model_fields.items():
        inner = _models(field.annotation)
        if inner:
            found |= {path for cls in inner for path in leaves(cls, f"{prefix}{name}.")}
        else:
            found.add(f"{prefix}{name}")
    return found


def _models(annotation: Any) -> list[type[pydantic.BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        return [annotation]
    if get_origin(annotation) is list:
        return []
    return [cls for inner in get_args(annotation) for cls in _models(inner)]


# path -> what it is without, and with
SESSION: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {
    "type": [({}, {"type": "realtime"})],
    "model": [({}, {"model": "gpt-realtime"})],
    "instructions": [({}, {"instructions": "Be brief."})],
    "output_modalities": [({}, {"output_modalities": ["text"]})],
    "max_output_tokens": [({}, {"max_output_tokens": 3})],
    "tools": [({}, {"tools": [TOOL]})],
    "tool_choice": [
        ({"tools": [TOOL]}, CHOICE),
        ({"tools": [TOOL]}, {"tools": [TOOL], "tool_choice": "none"}),
    ],
    "parallel_tool_calls": [({"tools": [TOOL]}, {"tools": [TOOL], "parallel_tool_calls": False})],
    "truncation": [
        ({}, {"truncation": "disabled"}),
        (
            {},
            {
                "truncation": {
                    "type": "retention_ratio",
                    "retention_ratio": 0.5,
                    "token_limits": {"post_instructions": 9},
                }
            },
        ),
    ],
    "reasoning": [({}, {"reasoning": {"effort": "high"}})],
    "prompt": [({}, {"prompt": {"id": "pmpt_1", "version": "2", "variables": {"name": "Ann"}}})],
    "include": [({}, {"include": ["item.input_audio_transcription.logprobs"]})],
    "tracing": [
        ({}, {"tracing": "auto"}),
        ({}, {"tracing": {"workflow_name": "w", "group_id": "g", "metadata": {"a": 1}}}),
    ],
    "audio.input.format": [({}, {"audio": {"input": {"format": {"type": "audio/pcmu"}}}})],
    "audio.output.format": [({}, {"audio": {"output": {"format": {"type": "audio/pcma"}}}})],
    "audio.output.speed": [({}, {"audio": {"output": {"speed": 1.25}}})],
    "audio.output.voice": [({}, {"audio": {"output": {"voice": {"id": "marin"}}}})],
    "audio.input.noise_reduction": [
        ({}, {"audio": {"input": {"noise_reduction": {"type": "far_field", "strength": 1}}}})
    ],
    **{
        f"audio.input.transcription.{name}": [({}, {"audio": {"input": {"transcription": {name: value}}}})]
        for name, value in {
            "language": "de",
            "languages": ["de"],
            "model": "whisper-1",
            "prompt": "names: Ann",
            "keywords": ["Ann"],
            "delay": "high",
        }.items()
    },
    "audio.input.turn_detection": [
        ({}, {"audio": {"input": {"turn_detection": setting}}})
        for setting in (
            None,
            {"type": "semantic_vad"},
            {"threshold": 0.9},
            {"prefix_padding_ms": 100},
            {"silence_duration_ms": 300},
            {"create_response": False},
            {"interrupt_response": False},
            {"idle_timeout_ms": 500},
        )
    ]
    + [
        (
            {"audio": {"input": {"turn_detection": {"type": "semantic_vad"}}}},
            {"audio": {"input": {"turn_detection": {"type": "semantic_vad", "eagerness": "high"}}}},
        )
    ],
}
RESPONSE: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {
    "conversation": [({}, {"conversation": "none"})],
    "input": [({}, {"input": []})],
    "instructions": [({}, {"instructions": "Be brief."})],
    "output_modalities": [({}, {"output_modalities": ["text"]})],
    "max_output_tokens": [({}, {"max_output_tokens": 3})],
    "metadata": [({}, {"metadata": {"topic": "weather"}})],
    "tools": [({}, {"tools": [TOOL]})],
    "tool_choice": [({"tools": [TOOL]}, CHOICE)],
    "parallel_tool_calls": [({"tools": [TOOL]}, {"tools": [TOOL], "parallel_tool_calls": False})],
    "reasoning": [({}, {"reasoning": {"effort": "high"}})],
    "prompt": [({}, {"prompt": {"id": "pmpt_1"}})],
    "audio.output.voice": [({}, {"audio": {"output": {"voice": "marin"}}})],
    "audio.output.format": [({}, {"audio": {"output": {"format": {"type": "audio/pcmu"}}}})],
}
ELSEWHERE = {"tool_choice.server_label"}
"""What no conversation shows, because it is refused."""


class _Watched(TurnsPlugin):
    """Keeps what it is asked; hears speech that goes on, in the language that it is told."""

    def __init__(self, asked: list[Any]) -> None:
        self.asked = asked

    def capabilities(self, max_sessions: int) -> DuplexCapabilities:
        return attrs.evolve(super().capabilities(max_sessions), partial_transcript_interval_ms=500)

    def plan_turn(self, turn: TurnInput) -> TurnPlan:
        left_out = {"pcm", "session_state", "runtime_config", "conversation"}
        told = {field.name: getattr(turn, field.name) for field in attrs.fields(TurnInput)}
        said = [(message.role, message.content) for message in turn.conversation]
        heard = 0.0 if turn.pcm is None else round(float(np.abs(turn.pcm).sum()), 3)
        self.asked.append(
            [said, heard, {name: value for name, value in told.items() if name not in left_out}]
        )
        return super().plan_turn(turn)

    def plan_partial(self, pcm: Pcm, language: str | None) -> StageForward | None:
        self.asked.append(language)
        return None


class _Unsure(EnergyVad):
    """Is never quite sure of speech."""

    def score(self, speakers: Sequence[None], frames: Any) -> Any:
        return super().score(speakers, frames) * np.float32(0.8)


class _Pipeline(TurnsPipeline):
    def __init__(self) -> None:
        super().__init__(script=Script(heard=["hello", "and you"], otherwise=lambda _: REPLY, word_ms=200))
        self.asked: list[Any] = []

    def build_plugin(self) -> _Watched:
        return _Watched(self.asked)

    def build_vad_worker(self) -> EnergyVad:
        return _Unsure()


Observed = tuple[list[Any], list[tuple[float, bytes]]]


async def talk(talker: TranscriptTalker) -> None:
    """A spoken turn, words over its answer, a pause, and a written question."""
    for seconds, loud in ((1.0, True), (0.8, False), (0.0, False), (0.5, True), (2.6, False)):
        for _ in range(round(seconds * 10)):
            talker.append(100, loud=loud)
            await trio.sleep(0.1)
        await trio.sleep(0.0 if seconds else 0.4)
    await trio.sleep(5.0)
    await ask(talker, {})


async def ask(talker: TranscriptTalker, options: Mapping[str, Any]) -> None:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "so"}]}
    talker.say({"type": "conversation.item.create", "item": item})
    talker.say({"type": "response.create", "response": dict(options)})
    await trio.sleep(6.0)


async def observe(patch: Mapping[str, Any], options: Mapping[str, Any] | None = None) -> Observed:
    """What the model was asked and what the client heard, each event with its moment."""
    pipeline = _Pipeline()
    async with scripted_omni(pipeline=pipeline, step_s={"mind": 0.03, "tts": 0.07}) as omni:
        begin_s = trio.current_time()
        talker = await open_transcript(omni, Dialect.GA, patch=patch)
        begin = len(talker.events)
        await (talk(talker) if options is None else ask(talker, options))
        assert not talker.heard.of(ErrorEvent)
        texts = [render(event, Dialect.GA) for event in talker.events[begin:]]
        moments_s = [round(time_s - begin_s, 3) for time_s in talker.heard.times_s[begin:]]
        await finish(omni, talker)
    heard = [(moment_s, text) for moment_s, text in zip(moments_s, texts, strict=False) if text is not None]
    lines = normalised([("server", orjson.loads(text)) for _, text in heard])
    # Tasks run in any order within a moment.
    return pipeline.asked, sorted(zip((moment_s for moment_s, _ in heard), lines, strict=True))


@pytest.fixture(scope="module")
def seen() -> dict[bytes, Observed]:
    """Conversations that were held already: most fields are compared with the same one."""
    return {}


@pytest.mark.parametrize("path", SESSION)
async def test_a_field_of_the_session_does_what_the_page_says(
    autojump_clock: MockClock, seen: dict[bytes, Observed], path: str
) -> None:
    """With it everything is as without, or something is not."""
    for without, with_it in SESSION[path]:
        key = orjson.dumps(without)
        if key not in seen:
            seen[key] = await observe(without)
        differs = await observe(with_it) != seen[key]
        assert differs == (rows("Session")[path] == "yes"), with_it


@pytest.mark.parametrize("path", RESPONSE)
async def test_a_field_of_one_response_does_what_the_page_says(autojump_clock: MockClock, path: str) -> None:
    """The same for what a `response.create` may carry."""
    for without, with_it in RESPONSE[path]:
        differs = await observe({}, without) != await observe({}, with_it)
        assert differs == (rows("One response")[path] == "yes"), with_it


@pytest.mark.parametrize(
    ("title", "cls", "tried"),
    [
        ("Session", RealtimeSessionCreateRequest, SESSION),
        ("One response", RealtimeResponseCreateParams, RESPONSE),
    ],
)
def test_the_page_names_every_field(
    title: str, cls: type[pydantic.BaseModel], tried: Mapping[str, Sequence[object]]
) -> None:
    """Each field of the SDK's class, or the object that it is in, and nothing else; each is tried above."""
    named = rows(title)
    missing = {leaf for leaf in leaves(cls) if not any(f"{leaf}.".startswith(f"{row}.") for row in named)}
    assert not missing
    invented = {row for row in named if not any(f"{leaf}.".startswith(f"{row}.") for leaf in leaves(cls))}
    assert not invented
    assert named.keys() - tried.keys() <= ELSEWHERE


async def test_fields_of_the_response_object_that_say_nothing(autojump_clock: MockClock) -> None:
    """The page's last table is of what is always 0; the others of a finished response are all filled."""
    always = re.findall(r"^\| `(usage[\w.]+)` \| 0 \|", PAGE, re.MULTILINE)
    async with scripted_omni(Script(heard=["hello"])) as omni:
        talker = await open_transcript(omni, Dialect.GA)
        await talker.turn()
        await talker.heard.nth(ResponseDone, 1)
        text = render(talker.heard.of(ResponseDone)[0], Dialect.GA)
        assert text is not None
        await finish(omni, talker)
    response = orjson.loads(text)["response"]
    for path in leaves(RealtimeResponse):
        value: Any = response
        for key in path.split("."):
            value = None if value is None else value.get(key)
        if any(f"{path}.".startswith(f"{row}.") for row in always):
            assert value == 0, path
        elif not path.startswith(("status_details.", "metadata", "usage.input_token_details.cached")):
            assert value, path
