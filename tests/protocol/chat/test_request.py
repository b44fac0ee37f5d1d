"""Chat requests: what is taken, what is refused, and that a refusal names the field."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsBase,
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)

from duplex_trio.protocol.chat import ChatAudio, ChatError, ChatRequest, read_chat_request
from duplex_trio.protocol.chat.request import EFFECTS
from duplex_trio.protocol.sampling import KNOBS

RATE_HZ = 16_000
HELLO = [{"role": "user", "content": "hello"}]
TOOL = {
    "type": "function",
    "function": {"name": "look", "description": "d", "parameters": {"type": "object"}},
}


def read(**fields: Any) -> ChatRequest:
    return read_chat_request(orjson.dumps({"model": "m", "messages": HELLO, **fields}), RATE_HZ)


def refused(**fields: Any) -> ChatError:
    with pytest.raises(ChatError) as caught:
        read(**fields)
    error = caught.value
    assert error.status == 400
    assert error.message
    return error


def test_a_plain_request_is_text_with_the_models_own_habits() -> None:
    request = read()
    assert (request.model, request.modalities, request.speaks, request.stream) == (
        "m",
        ("text",),
        False,
        False,
    )
    assert request.sampling.set_knobs == frozenset()
    assert (request.max_tokens, request.temperature, request.tools) == (None, None, ())


def test_every_knob_is_read_into_its_place() -> None:
    knobs: dict[str, Any] = {
        "top_p": 0.5, "top_k": 7, "min_p": 0.1, "seed": 42, "presence_penalty": -1.5, "frequency_penalty": 2,
        "repetition_penalty": 1.1,
    }  # fmt: skip
    request = read(**knobs, stop=["a", "b"], response_format={"type": "json_object"}, temperature=0)
    assert request.sampling.set_knobs == KNOBS
    assert {name: getattr(request.sampling, name) for name in knobs} == knobs
    assert request.sampling.stop == ("a", "b")
    assert request.sampling.json_schema == {"type": "object"}
    assert request.temperature == 0


def test_null_says_nothing() -> None:
    fields = dict.fromkeys(
        ["temperature", "top_p", "seed", "stop", "n", "logprobs", "logit_bias", "tools", "tool_choice", "audio",
         "modalities", "stream", "stream_options", "response_format", "max_tokens", "unheard_of"]
    )  # fmt: skip
    assert read(**fields) == read()


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 6}, 6),
        ({"max_tokens": 5, "max_completion_tokens": 6}, 6),
    ],
)
def test_the_newer_name_of_the_limit_wins(fields: dict[str, Any], limit: int) -> None:
    assert read(**fields).max_tokens == limit


@pytest.mark.parametrize("stop", ["###", ["###"]])
def test_one_stop_may_stand_alone(stop: Any) -> None:
    assert read(stop=stop).sampling.stop == ("###",)


def test_what_changes_no_answer_is_taken() -> None:
    assert read(
        store=True, metadata={"a": "b"}, user="u", safety_identifier="s", service_tier="auto", prompt_cache_key="k",
        n=1, logprobs=False, logit_bias={}, top_logprobs=0,
    ) == read()  # fmt: skip


@pytest.mark.parametrize(
    ("given", "audio"),
    [
        ({"modalities": ["text", "audio"]}, ChatAudio("wav", None)),
        ({"modalities": ["audio"], "audio": {"voice": "alloy", "format": "pcm16"}}, ChatAudio("pcm16", "alloy")),
        ({"modalities": ["text", "audio"], "audio": {"voice": {"id": "v1"}, "format": "pcm"}},
         ChatAudio("pcm16", "v1")),
    ],
)  # fmt: skip
def test_sound_is_asked_for_as_openai_has_it(given: dict[str, Any], audio: ChatAudio) -> None:
    request = read(**given)
    assert request.speaks
    assert (request.modalities, request.audio) == (("text", "audio"), audio)


def test_tools_come_out_in_the_words_of_sessions() -> None:
    request = read(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "look"}})
    flat = {"type": "function", "name": "look", "description": "d", "parameters": {"type": "object"}}
    assert request.tools == (flat,)
    assert request.tool_choice == {"type": "function", "name": "look"}
    assert read(tools=[TOOL], tool_choice="required", parallel_tool_calls=False).parallel_tool_calls is False


@pytest.mark.parametrize(
    ("wanted", "schema"),
    [
        ({"type": "text"}, None),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "array"}}},
            {"type": "array"},
        ),
        ({"type": "json_schema", "json_schema": {"name": "n"}}, {"type": "object"}),
    ],
)
def test_a_form_of_the_answer(wanted: dict[str, Any], schema: Any) -> None:
    assert read(response_format=wanted).sampling.json_schema == schema


def test_streams() -> None:
    assert read(stream=True).stream
    request = read(stream=True, stream_options={"include_usage": True, "include_obfuscation": False})
    assert request.include_usage


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"n": 2}, "n", "unsupported_parameter"),
        ({"n": True}, "n", "unsupported_parameter"),
        ({"logprobs": True}, "logprobs", "unsupported_parameter"),
        ({"logit_bias": {"50256": -100}}, "logit_bias", "unsupported_parameter"),
        ({"functions": []}, "functions", "unknown_parameter"),
        ({"x" * 99: 1}, "x" * 64, "unknown_parameter"),
        ({"audio": {"pitch": 2}}, "audio.pitch", "unknown_parameter"),
        ({"stream": True, "stream_options": {"every": 1}}, "stream_options.every", "unknown_parameter"),
        ({"response_format": {"type": "text", "regex": "a"}}, "response_format.regex", "unknown_parameter"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {}, "depth": 2}}},
         "response_format.json_schema.depth", "unknown_parameter"),
        ({"model": ""}, "model", "invalid_value"),
        ({"temperature": 2.1}, "temperature", "invalid_value"),
        ({"temperature": "0"}, "temperature", "invalid_value"),
        ({"top_p": 0}, "top_p", "invalid_value"),
        ({"seed": 0.5}, "seed", "invalid_value"),
        ({"presence_penalty": 3}, "presence_penalty", "invalid_value"),
        ({"max_tokens": 0}, "max_tokens", "invalid_value"),
        ({"max_tokens": 0, "max_completion_tokens": 1}, "max_tokens", "invalid_value"),
        ({"max_completion_tokens": "9"}, "max_completion_tokens", "invalid_value"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop", "invalid_value"),
        ({"stop": ["a", ""]}, "stop[1]", "invalid_value"),
        ({"stop": 3}, "stop", "invalid_value"),
        ({"stream": 1}, "stream", "invalid_value"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "invalid_value"),
        ({"stream": True, "stream_options": {"include_usage": 1}}, "stream_options.include_usage", "invalid_value"),
        ({"modalities": []}, "modalities", "invalid_value"),
        ({"modalities": ["text", "video"]}, "modalities[1]", "invalid_value"),
        ({"audio": {"format": "mp3"}}, "audio.format", "invalid_value"),
        ({"audio": {"format": "opus"}, "modalities": ["audio"]}, "audio.format", "invalid_value"),
        ({"audio": {"voice": 7}}, "audio.voice", "invalid_value"),
        ({"audio": "wav"}, "audio", "invalid_value"),
        ({"metadata": {"a": 1}}, "metadata.a", "invalid_value"),
        ({"store": "yes"}, "store", "invalid_value"),
        ({"tools": {}}, "tools", "invalid_value"),
        ({"tools": [TOOL] * 2}, "tools[1].function.name", "invalid_value"),
        ({"tools": [{"type": "custom", "custom": {}}]}, "tools[0].type", "unsupported_parameter"),
        ({"tools": [{"type": "function"}]}, "tools[0].function", "missing_required_parameter"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name", "missing_required_parameter"),
        ({"tool_choice": "sometimes"}, "tool_choice", "invalid_value"),
        ({"tools": [{"type": "function", "function": {"name": "a.b"}}]}, "tools[0].function.name", "invalid_value"),
        ({"tool_choice": "required"}, "tool_choice", "invalid_value"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "listen"}}},
         "tool_choice.function.name", "invalid_value"),
        ({"response_format": {"type": "yaml"}}, "response_format.type", "invalid_value"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", "invalid_value"),
        ({"response_format": {"type": "json_object"}, "modalities": ["audio"]}, "response_format",
         "unsupported_parameter"),
        ({"messages": None}, "messages", "missing_required_parameter"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_field(fields: dict[str, Any], param: str, code: str) -> None:
    error = refused(**fields)
    assert (error.param, error.code) == (param, code)
    assert error.body()["error"] == {
        "message": error.message, "type": "invalid_request_error", "param": param, "code": code,
    }  # fmt: skip


def test_a_format_that_is_not_made_comes_with_those_that_are() -> None:
    assert "wav, pcm16" in refused(audio={"format": "flac"}).message


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"x"', b"\xff", b'{"a":' * 5000])
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(ChatError) as caught:
        read_chat_request(body, RATE_HZ)
    assert (caught.value.status, caught.value.code) == (400, "invalid_json")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = [
    "model", "messages", "modalities", "audio", "tools", "tool_choice", "stream", "stream_options", "stop", "seed",
    "temperature", "top_p", "response_format", "metadata", "n", "max_tokens",
]  # fmt: skip


def attempt(body: bytes) -> ChatRequest | ChatError:
    try:
        return read_chat_request(body, RATE_HZ)
    except ChatError as error:
        return error


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(NAMES), json_values))
def test_nothing_but_a_refusal_comes_of_nonsense(fields: dict[str, Any]) -> None:
    """Whatever a field holds, the request is read or refused, and a refusal is about one of its fields."""
    try:
        body = orjson.dumps({"messages": HELLO, **fields})
    except (TypeError, orjson.JSONEncodeError):
        return  # numbers or text that JSON does not have
    outcome = attempt(body)
    if isinstance(outcome, ChatError):
        assert outcome.status == 400
        assert outcome.param is not None
        assert outcome.param.partition(".")[0].partition("[")[0] in fields
    else:
        assert outcome.items or fields.get("messages")


@pytest.mark.parametrize("tier", ["", "gold", "AUTO", 1])
def test_an_unknown_service_tier_is_named(tier: Any) -> None:
    with pytest.raises(ChatError) as caught:
        read(service_tier=tier)
    assert (caught.value.status, caught.value.param) == (400, "service_tier")


def test_the_page_names_every_field_and_its_effect() -> None:
    """The fields of OpenAI's SDK and our own; what the code does not list is refused, whatever it says."""
    page = (Path(__file__).parents[3] / "docs" / "openai-compatibility.md").read_text()
    section = page.split("\n## Chat completions\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (yes|none|refused) \|", section, re.MULTILINE)
    named = dict(rows)
    assert len(named) == len(rows)
    base, whole, streamed = (
        set(params.__annotations__)
        for params in (
            CompletionCreateParamsBase, CompletionCreateParamsNonStreaming, CompletionCreateParamsStreaming,
        )
    )  # fmt: skip
    assert set(named) == set(EFFECTS) | base | whole | streamed
    for name, effect in named.items():
        assert effect == EFFECTS.get(name, "refused"), name
        if effect == "refused":
            with pytest.raises(ChatError) as caught:
                read(**{name: "anything"})
            assert caught.value.param == name
