"""Answers as they are written: whole and in chunks, each held against the SDK's own classes."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from duplex_trio.protocol.chat import (
    AnswerFrame,
    CallPiece,
    ChatPiece,
    ChatUsage,
    FinishPiece,
    SpeechPiece,
    SpokenAnswers,
    StreamedAnswer,
    TextPiece,
    TranscriptPiece,
    WholeAnswer,
)
from duplex_trio.protocol.chat.spoken import SPOKEN_CHARS_MAX, SPOKEN_MAX
from duplex_trio.protocol.duplex.audio import pcm16_bytes, read_wav

USAGE = ChatUsage(input_tokens=5, cached_tokens=3, output_tokens=2)


def frame(**changed: Any) -> AnswerFrame:
    said: dict[str, Any] = {
        "completion_id": "chatcmpl-1", "created_s": 100, "model": "m", "speaks": False, "audio_format": "wav",
        "audio_id": "audio-1", "expires_s": 3700,
    }  # fmt: skip
    return AnswerFrame(**said | changed)


def whole(pieces: Iterable[ChatPiece], **changed: Any) -> dict[str, Any]:
    answer = WholeAnswer(frame(**changed))
    for piece in pieces:
        answer.take(piece)
    written: dict[str, Any] = orjson.loads(orjson.dumps(answer.render()))
    ChatCompletion.model_validate_json(orjson.dumps(written), strict=True)
    return written


def chunks(pieces: Iterable[ChatPiece], **changed: Any) -> list[dict[str, Any]]:
    answer = StreamedAnswer(frame(**changed))
    written = [orjson.loads(orjson.dumps(chunk)) for piece in pieces for chunk in answer.take(piece)]
    for chunk in written:
        ChatCompletionChunk.model_validate_json(orjson.dumps(chunk), strict=True)
        assert (chunk["id"], chunk["created"], chunk["model"]) == ("chatcmpl-1", 100, "m")
    return written


def deltas(written: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [choice["delta"] for chunk in written for choice in chunk["choices"]]


def test_a_written_answer() -> None:
    written = whole([TextPiece("Hel"), TextPiece("lo."), FinishPiece("stop", USAGE)])
    assert written == {
        "object": "chat.completion", "id": "chatcmpl-1", "created": 100, "model": "m", "system_fingerprint": None,
        "choices": [{
            "index": 0, "finish_reason": "stop", "logprobs": None,
            "message": {"role": "assistant", "content": "Hello.", "refusal": None},
        }],
        "usage": {
            "prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 3, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        },
    }  # fmt: skip


def test_an_answer_that_says_nothing_is_an_empty_text() -> None:
    assert whole([FinishPiece("stop")])["choices"][0]["message"]["content"] == ""


@pytest.mark.parametrize("audio_format", ["wav", "pcm16"])
def test_a_spoken_answer(audio_format: str) -> None:
    pieces = [SpeechPiece(b"\1\0\2\0"), TranscriptPiece("Hi "), SpeechPiece(b"\3\0"), TranscriptPiece("you")]
    written = whole([*pieces, FinishPiece("stop")], speaks=True, audio_format=audio_format)
    message = written["choices"][0]["message"]
    assert message["content"] is None
    audio = message["audio"]
    assert (audio["id"], audio["expires_at"], audio["transcript"]) == ("audio-1", 3700, "Hi you")
    data = base64.b64decode(audio["data"])
    if audio_format == "wav":
        pcm, rate_hz = read_wav(data)
        assert rate_hz == 24_000
        data = pcm16_bytes(pcm)
    assert data == b"\1\0\2\0\3\0"


CALLS = [
    CallPiece(0, call_id="c0", name="f"), CallPiece(0, '{"a"'), CallPiece(0, ":1}"),
    CallPiece(1, "{}", call_id="c1", name="g"), FinishPiece("tool_calls"),
]  # fmt: skip


def test_calls() -> None:
    choice = whole(CALLS)["choices"][0]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", None)
    assert choice["message"]["tool_calls"] == [
        {"id": "c0", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
        {"id": "c1", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]


def test_calls_in_chunks_say_each_thing_once() -> None:
    pieces = [delta["tool_calls"][0] for delta in deltas(chunks(CALLS)) if "tool_calls" in delta]
    assert pieces == [
        {"index": 0, "id": "c0", "type": "function", "function": {"name": "f", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"a"'}},
        {"index": 0, "function": {"arguments": ":1}"}},
        {"index": 1, "id": "c1", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]


def test_a_written_answer_in_chunks() -> None:
    written = chunks([TextPiece("Hel"), TextPiece("lo."), FinishPiece("length", USAGE)])
    assert deltas(written) == [
        {"role": "assistant", "content": ""}, {"content": "Hel"}, {"content": "lo."}, {},
    ]  # fmt: skip
    assert [chunk["choices"][0]["finish_reason"] for chunk in written] == [None, None, None, "length"]
    assert [chunk.get("modality") for chunk in written] == [None, "text", "text", None]
    assert not any("usage" in chunk for chunk in written)


def test_tokens_come_in_a_last_chunk_without_choices() -> None:
    written = chunks([TextPiece("x"), FinishPiece("stop", USAGE)], include_usage=True)
    assert [chunk["usage"] for chunk in written[:-1]] == [None] * 3
    assert written[-1]["choices"] == []
    assert written[-1]["usage"]["total_tokens"] == 7


def test_figures_of_the_stages_only_when_asked_for() -> None:
    finish = FinishPiece("stop", USAGE, {"1": {"stage_name": "llm"}})
    assert "metrics" not in whole([finish])
    assert whole([finish], stage_metrics=True)["metrics"] == {"1": {"stage_name": "llm"}}
    assert chunks([finish], stage_metrics=True)[-1]["metrics"] == {"1": {"stage_name": "llm"}}


@pytest.mark.slow
@given(st.lists(st.binary(max_size=30).map(lambda data: data[: len(data) // 2 * 2]), max_size=6),
       st.sampled_from(["wav", "pcm16"]))  # fmt: skip
def test_sound_in_chunks_is_the_sound(parts: list[bytes], audio_format: str) -> None:
    """Joined before or after decoding; the id comes once, and the end of its life at the end."""
    pieces: list[ChatPiece] = []
    for part in parts:
        pieces += [SpeechPiece(part), TranscriptPiece("la")]
    written = chunks([*pieces, FinishPiece("stop")], speaks=True, audio_format=audio_format)
    audio = [delta["audio"] for delta in deltas(written) if "audio" in delta]
    data = [said["data"] for said in audio if "data" in said]
    joined = base64.b64decode("".join(data))
    assert joined == b"".join(map(base64.b64decode, data))
    if parts:
        assert [said["id"] for said in audio if "id" in said] == ["audio-1"]
        assert [said["expires_at"] for said in audio if "expires_at" in said] == [3700]
        assert "".join(said.get("transcript", "") for said in audio) == "la" * len(parts)
    else:
        assert audio == []
    if audio_format == "wav" and parts:
        pcm, rate_hz = read_wav(joined)
        assert rate_hz == 24_000
        joined = pcm16_bytes(pcm)
    assert joined == b"".join(parts)


def test_what_was_said_is_known_for_its_time() -> None:
    spoken = SpokenAnswers()
    spoken.remember("a", "hello", 100)
    assert spoken.recall("a", 99.9) == "hello"
    assert spoken.recall("a", 100) is None
    assert spoken.recall("b", 0) is None


def test_what_was_said_is_bounded() -> None:
    spoken = SpokenAnswers()
    for index in range(SPOKEN_MAX + 1):
        spoken.remember(f"a{index}", "x", 100)
    assert spoken.recall("a0", 0) is None
    assert spoken.recall("a1", 0) == "x"
    spoken.remember("long", "x" * SPOKEN_CHARS_MAX, 100)
    assert spoken.recall(f"a{SPOKEN_MAX}", 0) is None
    assert spoken.recall("long", 0) is not None
