"""What a scripted engine sends: steps, and the bytes of whole answers and of streamed ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import trio
from attrs import define, field, frozen


@frozen
class Wait:
    """Nothing is sent for so many seconds."""

    seconds: float


class Cut:
    """The connection is closed, whatever was announced."""


class Stall:
    """Nothing is sent any more, but the connection stays."""


@define(eq=False)
class Hold:
    """Nothing is sent until the test lets go; `reached` tells that the script came here."""

    reached: trio.Event = field(factory=trio.Event)
    leave: trio.Event = field(factory=trio.Event)


Step = bytes | Wait | Cut | Stall | Hold


def reply(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None, kind: str = "application/json"
) -> bytes:
    """A whole answer; text goes as it is, everything else as JSON."""
    body = value.encode() if isinstance(value, str) else json.dumps(value).encode()
    told = {"content-type": kind, "content-length": str(len(body)), **(headers or {})}
    return f"HTTP/1.1 {status} Whatever\r\n{_lines(told)}\r\n".encode() + body


def refusal(status: int, message: str, headers: Mapping[str, str] | None = None, **more: Any) -> bytes:
    """An answer with an error as OpenAI's API words them."""
    return reply({"error": {"message": message, "type": "error", **more}}, status, headers)


def stream_head(kind: str = "text/event-stream; charset=utf-8") -> bytes:
    """The beginning of a stream, which ends in chunks."""
    return f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n".encode()


def chunk(data: bytes) -> bytes:
    """One chunk of a stream."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


LAST_CHUNK = b"0\r\n\r\n"
DONE = b"data: [DONE]\n\n"


def event(value: Any) -> bytes:
    """One event."""
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def delta(text: str | None = None, finish_reason: str | None = None, **more: Any) -> dict[str, Any]:
    """A chunk of a chat completion; what is `more` goes into its delta."""
    content = {} if text is None else {"content": text}
    return {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {**content, **more}, "finish_reason": finish_reason}],
    }


def usage(prompt: int, completion: int, cached: int = 0) -> dict[str, Any]:
    """The chunk with the counts, which has no choices."""
    counts = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    return {"object": "chat.completion.chunk", "choices": [], "usage": counts}


def spoken(*words: str, finish_reason: str = "stop") -> bytes:
    """The events of a plain answer: its words, the end and the counts."""
    events = [event(delta("", role="assistant")), *(event(delta(word)) for word in words)]
    events += [event(delta(None, finish_reason)), event(usage(7, len(words))), DONE]
    return b"".join(events)


def streamed(*words: str, finish_reason: str = "stop") -> list[Step]:
    """The steps of such an answer."""
    return [stream_head(), chunk(spoken(*words, finish_reason=finish_reason)), LAST_CHUNK]


def _lines(headers: Mapping[str, str] | Sequence[tuple[str, str]]) -> str:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return "".join(f"{name}: {value}\r\n" for name, value in pairs)
