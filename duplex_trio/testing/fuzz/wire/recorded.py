"""Valid byte streams of clients: what fuzzing of bytes starts from.

WebSocket streams are a handshake and frames; HTTP streams are requests for every route there is, and for some
that there are not.
"""

from __future__ import annotations

import base64
import json
import random

from duplex_trio.testing.fuzz.vocabulary import message_kinds
from duplex_trio.testing.fuzz.wire.mutate import mutated, odd_frame
from duplex_trio.testing.raw_websocket import FIN, TEXT, frame, upgrade_request

_TARGETS = (
    "/v1/realtime?model=m",
    "/v1/realtime",
    "/v1/realtime?duplex=1&model=m",
    "/v1/duplex",
    "/v1/duplex?model=m&autostart=0",
    "/v1/realtime?duplex=0",
    "/v1/realtime/video",
)
_HEADERS: tuple[dict[str, str], ...] = (
    {},
    {},
    {"OpenAI-Beta": "realtime=v1"},
    {"Sec-WebSocket-Protocol": "realtime, openai-insecure-api-key.k"},
    {"Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits"},
    {"Authorization": "Bearer k", "Origin": "http://localhost"},
)
_HTTP_TARGETS = (
    "/health", "/v1/models", "/v1/models/m", "/metrics", "/v1/realtime/capabilities", "/v1/chat/completions",
    "/v1/chat/completions/batch", "/v1/audio/speech", "/v1/responses", "/v1/realtime/sessions", "/", "/v1/realtime",
    "/v1/duplex",
)  # fmt: skip
_METHODS = ("GET", "GET", "POST", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT")

CHAT: tuple[dict[str, object], ...] = (
    {"model": "m", "messages": [{"role": "user", "content": "hello"}]},
    {"model": "m", "messages": [{"role": "user", "content": "hello"}], "stream": True},
    {"model": "m", "messages": [{"role": "user", "content": "hi"}], "modalities": ["text", "audio"],
     "audio": {"format": "wav", "voice": "tone"}, "max_tokens": 5},
)  # fmt: skip
"""Bodies that the chat route takes."""


def some_message(rng: random.Random) -> dict[str, object]:
    """A message of any kind, each field with a value that its reader takes; ends no session."""
    kind = rng.choice([kind for kind in message_kinds() if "close" not in kind.type])
    keys = {*kind.required, *(key for key in kind.keys if rng.random() < 0.15)}
    return {"type": kind.type, **{key: rng.choice(kind.values[key]) for key in kind.keys if key in keys}}


def websocket_stream(rng: random.Random) -> tuple[bytes, bytes]:
    """A handshake and the frames behind it; of the frames a few may be odd."""
    key = {"Sec-WebSocket-Key": base64.b64encode(rng.randbytes(16)).decode()}
    handshake = upgrade_request(rng.choice(_TARGETS), rng.choice(_HEADERS) | key)
    frames = []
    for _ in range(rng.randrange(1, 8)):
        payload = json.dumps(some_message(rng)).encode()
        match rng.randrange(6):
            case 0:
                frames.append(odd_frame(rng, payload))
            case 1:
                cut = rng.randrange(len(payload) + 1)
                frames += [frame(TEXT, payload[:cut]), frame(FIN, payload[cut:])]
            case 2:
                frames.append(frame(FIN | rng.choice((0x9, 0xA)), rng.randbytes(rng.randrange(126))))
            case _:
                frames.append(frame(FIN | TEXT, payload))
    return handshake, b"".join(frames)


def http_stream(rng: random.Random) -> bytes:
    """One or more requests on one connection."""
    return b"".join(_request(rng) for _ in range(rng.choice((1, 1, 2, 4))))


def _request(rng: random.Random) -> bytes:
    method, target = rng.choice(_METHODS), rng.choice(_HTTP_TARGETS)
    body = b""
    headers = ["Host: 127.0.0.1", rng.choice(("Authorization: Bearer k", "Accept: */*", "User-Agent: fuzz"))]
    if method in ("POST", "PUT", "PATCH"):
        body = json.dumps(rng.choice((*CHAT, some_message(rng)))).encode()
        if rng.random() < 0.5:
            body = mutated(rng, body)
        headers.append("Content-Type: application/json")
        if rng.random() < 0.2:
            headers.append("Transfer-Encoding: chunked")
            body = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n" if body else b"0\r\n\r\n"
        else:
            headers.append(f"Content-Length: {len(body)}")
    return "\r\n".join([f"{method} {target} HTTP/1.1", *headers, "", ""]).encode() + body


def almost_websocket(rng: random.Random) -> tuple[bytes, bytes]:
    """An almost valid handshake with valid frames, or the other way round; one is sent behind the other."""
    handshake, frames = websocket_stream(rng)
    others = (http_stream(rng), frames)
    match rng.randrange(6):
        case 0:
            return mutated(rng, handshake, others), frames
        case 1:
            return handshake + mutated(rng, frames, others), b""
        case 2:
            return handshake, frames
        case _:
            return handshake, mutated(rng, frames, others)


def almost_http(rng: random.Random) -> tuple[bytes, bytes]:
    """Almost valid requests, all at once."""
    stream = http_stream(rng)
    if rng.random() < 0.9:
        stream = mutated(rng, stream, (websocket_stream(rng)[0], http_stream(rng)))
    return stream, b""
