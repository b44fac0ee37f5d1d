"""The frame layer of the native path against that of wsproto, which the ASGI path uses: both must read the
same.

For both the bytes are a WebSocket from its first frame on. What they tell of it is compared up to its end:
whole messages, pings, the client's close, or the close code that says which rule was broken.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Message, Ping, TextMessage

from duplex_trio.serving.native.frames import (
    INVALID_DATA,
    TOO_BIG,
    BinaryMessage,
    FrameDecoder,
    PeerClose,
    Violation,
)
from duplex_trio.serving.native.frames import Ping as NativePing
from duplex_trio.testing.fuzz.wire.mutate import in_pieces, mutated, odd_frame

LIMIT_BYTES = 1 << 20
Told = tuple[str, object]


def native_reading(pieces: Sequence[bytes]) -> list[Told]:
    """What the native path makes of bytes that arrive in pieces."""
    decoder = FrameDecoder(LIMIT_BYTES)
    told: list[Told] = []
    for piece in pieces:
        for received in decoder.feed(piece):
            match received:
                case str():
                    told.append(("text", received))
                case BinaryMessage(data):
                    told.append(("binary", data))
                case NativePing(data):
                    told.append(("ping", data))
                case PeerClose(code, _):
                    told.append(("close", code))
                case Violation(code, _):
                    told.append(("broken", code))
    return told


def wsproto_reading(data: bytes) -> list[Told]:
    """What wsproto makes of the same, in the same words. It knows no limit."""
    connection = Connection(ConnectionType.SERVER)
    connection.receive_data(data)
    told: list[Told] = []
    message: list[str | bytes] = []
    for event in connection.events():
        match event:
            case TextMessage() | BytesMessage():
                _add(event, message, told)
            case Ping(payload=payload):
                told.append(("ping", bytes(payload)))
            case CloseConnection(code=code):
                broken = connection.state.name == "OPEN"  # no close frame of the peer's
                return [*told, ("broken" if broken else "close", int(code))]
    return told


def _add(event: Message[Any], message: list[str | bytes], told: list[Told]) -> None:
    message.append(event.data if isinstance(event.data, str) else bytes(event.data))
    if event.message_finished:
        text = isinstance(event, TextMessage)
        told.append(("text", "".join(message)) if text else ("binary", b"".join(message)))  # type: ignore[arg-type]
        message.clear()


def differing(seed: int) -> str | None:
    """Read frames that the seed makes in both ways, and say how they differ; None if they do not."""
    rng = random.Random(seed)  # noqa: S311  not for secrets
    payloads = (
        b"",
        b"{}",
        "\u00e9\u6f22".encode(),
        b"\xff",
        b"\x03\xe8ok",
        b"\x03",
        bytes(130),
        rng.randbytes(20),
    )
    data = b"".join(odd_frame(rng, rng.choice(payloads)) for _ in range(rng.randrange(1, 6)))
    if rng.random() < 0.5:
        data = mutated(rng, data)
    whole, pieces = native_reading([data]), native_reading(in_pieces(rng, data))
    if whole != pieces:
        return f"seed {seed}: {data!r}: whole {whole}, in pieces {pieces}"
    theirs = wsproto_reading(data)
    if whole == theirs or _agree(whole, theirs):
        return None
    return f"seed {seed}: {data[:300]!r}: {whole}, wsproto {theirs}"


def _agree(ours: list[Told], theirs: list[Told]) -> bool:
    """Whether both tell the same messages, and differ at most in when they notice that a rule is broken.

    The native path looks at text when the message is whole, and at a header before its payload comes; wsproto
    does the reverse. So one may have noticed what the other one has not yet, or two faults in the other
    order.
    """
    said, they_said = _before_the_fault(ours), _before_the_fault(theirs)
    if ("broken", TOO_BIG) in ours:
        return they_said[: len(said)] == said
    if ("broken", INVALID_DATA) in theirs:
        # in a fragment; what may come between it and the next one is told before the message is whole
        return said[: len(they_said)] == they_said and all(
            kind in ("ping", "close") for kind, _ in said[len(they_said) :]
        )
    return said == they_said


def _before_the_fault(told: list[Told]) -> list[Told]:
    return told[:-1] if told and told[-1][0] == "broken" else told
