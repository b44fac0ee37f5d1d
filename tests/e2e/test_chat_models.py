"""OpenAI's SDK at the chat route of the server with the real models."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from openai import APITimeoutError, BadRequestError, LengthFinishReasonError, OpenAI

from duplex_trio.protocol.duplex.audio import pcm16_bytes, read_wav, wav_bytes
from duplex_trio.testing.server_process import ServedPort, server_process
from duplex_trio.testing.speech import Speaker

pytestmark = [pytest.mark.e2e, pytest.mark.models]

PATIENCE_S = 180.0
QUESTION: list[Any] = [{"role": "user", "content": "What is a good breakfast?"}]


@pytest.fixture(scope="module")
def turn_server() -> Iterator[ServedPort]:
    with server_process("--deploy", "cascade_turn", start_timeout_s=PATIENCE_S) as server:
        yield server


@pytest.fixture(params=["real_server", "turn_server"])
def served(request: pytest.FixtureRequest) -> ServedPort:
    """The same models behind sessions, and behind requests alone: every test runs on both."""
    server: ServedPort = request.getfixturevalue(request.param)
    return server


@pytest.fixture
def client(served: ServedPort) -> Iterator[OpenAI]:
    with OpenAI(api_key="none", base_url=served.http_base, max_retries=0, timeout=PATIENCE_S) as client:
        yield client


def test_a_seed_gives_the_same_answer_and_another_one_another(client: OpenAI) -> None:
    def answer(seed: int) -> str | None:
        completion = client.chat.completions.create(
            model="m", messages=QUESTION, seed=seed, temperature=1.5, max_tokens=24
        )
        return completion.choices[0].message.content

    assert answer(7) == answer(7) != answer(8)


def test_a_stop_ends_the_answer_in_front_of_it(client: OpenAI) -> None:
    """Also where its text comes in several tokens, and streamed as well as whole."""
    plain = client.chat.completions.create(model="m", messages=QUESTION, temperature=0, max_tokens=40)
    said = plain.choices[0].message.content or ""
    middle = said[12:20]
    assert len(middle) == 8
    stopped = client.chat.completions.create(
        model="m", messages=QUESTION, temperature=0, max_tokens=40, stop=[middle]
    )
    assert stopped.choices[0].message.content == said[: said.index(middle)]
    assert stopped.choices[0].finish_reason == "stop"
    assert stopped.usage is not None
    assert plain.usage is not None
    assert stopped.usage.completion_tokens < plain.usage.completion_tokens
    chunks = client.chat.completions.create(
        model="m", messages=QUESTION, temperature=0, max_tokens=40, stop=[middle], stream=True
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == said[: said.index(middle)]


def test_a_limit_is_kept_in_tokens(client: OpenAI) -> None:
    completion = client.chat.completions.create(model="m", messages=QUESTION, max_completion_tokens=5)
    assert completion.choices[0].finish_reason == "length"
    assert completion.usage is not None
    assert completion.usage.completion_tokens == 5
    assert completion.usage.prompt_tokens > 5


def test_an_answer_has_the_form_that_was_asked_for(client: OpenAI) -> None:
    schema = {
        "type": "object",
        "properties": {"meal": {"enum": ["eggs", "oats"]}},
        "required": ["meal"],
        "additionalProperties": False,
    }
    completion = client.chat.completions.create(
        model="m",
        messages=QUESTION,
        response_format={"type": "json_schema", "json_schema": {"name": "breakfast", "schema": schema}},
    )
    assert orjson.loads(completion.choices[0].message.content or "")["meal"] in ("eggs", "oats")


def test_a_form_that_is_none_is_a_bad_request_in_one_line(client: OpenAI) -> None:
    """Told by the engine, which alone knows what it can hold an answer to."""
    form: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nonsense"}}}
    with pytest.raises(BadRequestError) as caught:
        client.chat.completions.create(model="m", messages=QUESTION, response_format=form)
    assert "nonsense" in caught.value.body["message"]  # type: ignore[index]
    assert not any(piece in caught.value.body["message"] for piece in ("\n", ".cc", ".py"))  # type: ignore[index]


@pytest.mark.parametrize("stream", [False, True])
def test_speech_is_heard_and_answered_in_speech(client: OpenAI, stream: bool) -> None:
    spoken = wav_bytes(pcm16_bytes(Speaker().say("Tell me something about the moon.")), 16_000)
    part = {
        "type": "input_audio",
        "input_audio": {"data": base64.b64encode(spoken).decode(), "format": "wav"},
    }
    asked: dict[str, Any] = {
        "model": "m",
        "messages": [{"role": "user", "content": [part]}],
        "modalities": ["text", "audio"],
        "audio": {"voice": "alloy", "format": "wav"},
        "temperature": 0,
        "max_tokens": 40,
    }
    if stream:
        with client.chat.completions.stream(**asked) as events:
            try:
                completion: Any = events.get_final_completion()
            except LengthFinishReasonError as error:  # the SDK's word for an answer that `max_tokens` ended
                completion = error.completion
    else:
        completion = client.chat.completions.create(**asked)
    audio = completion.choices[0].message.audio
    assert "moon" in re.findall(r"[a-z]+", audio.transcript.lower())
    pcm, rate_hz = read_wav(base64.b64decode(audio.data))
    assert rate_hz == 24_000
    assert len(pcm) / rate_hz > 0.04 * len(audio.transcript)
    assert float(abs(pcm).max()) > 0.05


def test_what_does_not_fit_is_a_bad_request(client: OpenAI) -> None:
    with pytest.raises(BadRequestError) as caught:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "word " * 9000}])
    assert caught.value.code == "context_length_exceeded"


CHATS = ("duplex_chats", 'duplex_chat_completions_total{status="cancelled"}')
REQUESTS = ("duplex_requests_running", 'duplex_requests_total{status="aborted"}')
"""What a server of sessions, and one of requests, tell of chats: those that hold a place, and those that were left."""


@pytest.mark.parametrize("stream", [True, False])
def test_who_leaves_frees_the_engine(client: OpenAI, served: ServedPort, stream: bool) -> None:
    """B03: a second after it began the client goes; the engine has forgotten its request at once."""
    asked: dict[str, Any] = {
        "model": "m",
        "max_tokens": 4000,
        "messages": [{"role": "user", "content": "count to 5000"}],
        "stop": None,
        "extra_body": {"min_p": 0.0},
        "temperature": 1.8,
    }
    if stream:
        chunks = client.chat.completions.create(stream=True, **asked)
        next(iter(chunks))
        chunks.close()
    else:
        with pytest.raises(APITimeoutError):
            client.with_options(timeout=0.5).chat.completions.create(**asked)
    deadline_s = time.monotonic() + PATIENCE_S
    while (figures := served.metrics())["duplex_live_requests"] and time.monotonic() < deadline_s:
        pass
    assert figures["duplex_live_requests"] == 0
    held, left = CHATS if CHATS[0] in figures else REQUESTS
    assert figures[held] == 0 or served.metrics()[held] == 0
    assert figures['duplex_stage_live_requests{stage="llm"}'] == 0
    assert figures[left] >= 1
