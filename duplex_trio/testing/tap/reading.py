"""From the bytes of the two directions of a connection to the messages in them, sans I/O.

Owns the reading of the handshake and of the frames behind it, compressed ones too; the frames themselves are
wsproto's business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, Literal

import orjson
from attrs import Factory, define, frozen
from wsproto.extensions import PerMessageDeflate
from wsproto.frame_protocol import FrameProtocol, Opcode

Side = Literal["client", "server"]
SHOWN_CHARS_MAX = 60
"""Longer strings are shown by their length."""
_SOUND = frozenset({"input_audio_buffer.append", "response.output_audio.delta", "response.audio.delta"})


@frozen
class TappedMessage:
    """A text message or the close frame of one side.

    `at_s` is when its last byte passed, on Trio's clock. `close_code` is None for text.
    """

    sender: Side
    at_s: float
    text: str
    close_code: int | None = None

    @property
    def event(self) -> Mapping[str, Any]:
        """The JSON object that it is; empty if it is none."""
        try:
            event = orjson.loads(self.text)
        except orjson.JSONDecodeError:
            return {}
        return event if isinstance(event, dict) else {}

    @property
    def kind(self) -> str:
        """The type of its event; `close` for a close frame, `?` for what is no event."""
        return "close" if self.close_code is not None else str(self.event.get("type", "?"))


@define(eq=False)
class TappedConnection:
    """One connection: the two heads of the handshake, and the messages in the order in which they passed."""

    messages: list[TappedMessage] = Factory(list)
    request: str = ""
    response: str = ""
    _buffers: dict[Side, bytes] = Factory(lambda: {"client": b"", "server": b""})
    _frames: dict[Side, FrameProtocol] = Factory(dict)
    _parts: dict[Side, list[str]] = Factory(lambda: {"client": [], "server": []})

    def take(self, sender: Side, data: bytes, at_s: float) -> None:
        """Read bytes of one side.

        Raises:
            wsproto.frame_protocol.ParseFailed: they break RFC 6455.
        """
        if not self._frames:
            self._buffers[sender] += data
            self._read_heads()
            for side in self._frames:
                self._read_frames(side, self._buffers[side], at_s)
            return
        self._read_frames(sender, data, at_s)

    def events(self, sender: Side) -> list[Mapping[str, Any]]:
        """The events of one side."""
        return [m.event for m in self.messages if m.sender == sender and m.close_code is None]

    def describe(self) -> str:
        """The conversation for people: a line per message; sound is only counted."""
        lines = [self.request.partition("\r\n")[0], self.response.partition("\r\n")[0]]
        for is_sound, group in groupby(self.messages, lambda message: message.kind in _SOUND):
            messages = list(group)
            if is_sound:
                up = sum(message.sender == "client" for message in messages)
                lines.append(f"{self._since(messages[0])} .. sound, {up} times up, {len(messages) - up} down")
            else:
                lines += [f"{self._since(message)} {_shown(message)}" for message in messages]
        return "\n".join(lines)

    def _since(self, message: TappedMessage) -> str:
        return f"{message.at_s - self.messages[0].at_s:7.2f}"

    def _read_heads(self) -> None:
        if not self.request and b"\r\n\r\n" in self._buffers["client"]:
            self.request, self._buffers["client"] = _head(self._buffers["client"])
        if not self.response and b"\r\n\r\n" in self._buffers["server"]:
            self.response, self._buffers["server"] = _head(self._buffers["server"])
        if not self.response.startswith("HTTP/1.1 101"):
            return
        extensions = [
            value
            for name, value in _headers(self.response)
            if name == "sec-websocket-extensions" and value.startswith(PerMessageDeflate.name)
        ]
        for side in ("client", "server"):
            deflate = [PerMessageDeflate() for _ in extensions]
            for extension, value in zip(deflate, extensions, strict=True):
                extension.finalize(value)
            # wsproto reads as the receiving side, so the client's frames are read as a server.
            self._frames[side] = FrameProtocol(client=side == "server", extensions=[*deflate])

    def _read_frames(self, sender: Side, data: bytes, at_s: float) -> None:
        frames = self._frames[sender]
        frames.receive_bytes(data)
        for frame in frames.received_frames():
            if frame.opcode is Opcode.CLOSE:
                assert isinstance(frame.payload, tuple)
                code, reason = frame.payload
                self.messages.append(TappedMessage(sender, at_s, str(reason or ""), int(code)))
            elif frame.opcode in (Opcode.TEXT, Opcode.CONTINUATION):
                assert isinstance(frame.payload, str)
                self._parts[sender].append(frame.payload)
                if frame.message_finished:
                    text, self._parts[sender] = "".join(self._parts[sender]), []
                    self.messages.append(TappedMessage(sender, at_s, text))


def _head(data: bytes) -> tuple[str, bytes]:
    head, _, rest = data.partition(b"\r\n\r\n")
    return head.decode("latin1"), rest


def _headers(head: str) -> Iterator[tuple[str, str]]:
    for line in head.split("\r\n")[1:]:
        name, _, value = line.partition(":")
        yield name.strip().lower(), value.strip()


def _shown(message: TappedMessage) -> str:
    if message.close_code is not None:
        body = {"code": message.close_code, "reason": message.text}
    elif message.event:
        body = {key: value for key, value in message.event.items() if key not in ("type", "event_id")}
    else:
        body = {"text": message.text}
    arrow = "->" if message.sender == "client" else "<-"
    return f"{arrow} {message.kind} {orjson.dumps(_shortened(body)).decode()}"


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= SHOWN_CHARS_MAX else f"<{len(value)} characters>"
    if isinstance(value, list):
        return [_shortened(one) for one in value]
    if isinstance(value, dict):
        return {key: _shortened(one) for key, one in value.items()}
    return value
