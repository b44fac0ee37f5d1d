"""A conversation written down as the wire has it, both directions, and made the same for every run of it.

A client sends raw messages through the codec, as over a socket, and what the session answers is rendered in the
client's dialect. `normalised` takes out of a message what differs from run to run: made ids become `item_1`,
`resp_2` by the order in which they appear, sound its length, and measured figures their mere presence. Ids that
the client made, texts, positions in the sound and everything else stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson
import pybase64
import trio.testing

from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.protocol.dialects import Dialect, render
from duplex_trio.protocol.duplex import (
    ConversationCreated,
    DuplexEvent,
    EnvelopeMessage,
    decode_command,
)
from duplex_trio.testing.recorder import ResumableRecorder
from duplex_trio.testing.talker import Talker

Line = tuple[str, dict[str, Any]]
"""Who said it, `client` or `server`, and the message; or `opening` and the session object to begin with."""

_KINDS = {
    "item": "item",
    "resp": "response",
    "duplex": "session",
    "event": "event",
    "conv": "conversation",
    "call": "call",
}
_MADE_ID = re.compile(rf"(?:{'|'.join(_KINDS)})[-_][-_0-9a-z]*[0-9a-f]{{8}}")
_LEFT_OUT = frozenset({"stage_metrics", "request_metrics", "engine_metrics", "capabilities"})
"""What is measured, and what the model can do: that they are there is all."""


class TranscriptRecorder(ResumableRecorder):
    """Keeps what the session writes in a dialect, beside what the client says.

    Args:
        dialect: the client's.

    Attributes:
        texts: the rendered events, in order.
        lines: both sides, in order.
    """

    def __init__(self, dialect: Dialect) -> None:
        super().__init__()
        self.texts: list[bytes] = []
        self.lines: list[Line] = []
        self._dialect = dialect

    async def send(self, event: DuplexEvent) -> None:
        """Keep an event that the session has not rendered itself."""
        self._keep(render(event, self._dialect))
        await super().send(event)

    async def send_text(self, text: bytes) -> None:
        """Keep an event that it has."""
        position = len(self.texts)
        await super().send_text(text)
        self.texts[position] = text
        self.lines[-1] = ("server", orjson.loads(text))

    def _keep(self, text: bytes | None) -> None:
        if text is not None:
            self.texts.append(text)
            self.lines.append(("server", orjson.loads(text)))


class TranscriptTalker(Talker):
    """One session and a client that speaks JSON to it."""

    heard: TranscriptRecorder

    def say(self, message: Mapping[str, Any]) -> None:
        """Send one message."""
        self.heard.lines.append(("client", dict(message)))
        command = decode_command(orjson.dumps(message))
        assert not isinstance(command, EnvelopeMessage)
        self.handle.submit(command)

    def append(self, milliseconds: int, *, loud: bool, event_id: str | None = None, **hints: Any) -> None:
        """Append sound, which in the transcript is one line however many pieces it has."""
        sound = "speech" if loud else "silence"
        line: dict[str, Any] = {"type": "input_audio_buffer.append", "audio": f"<{sound}>", **hints}
        earlier = [said for who, said in self.heard.lines if who == "client"]
        if not (earlier and earlier[-1] == line):
            self.heard.lines.append(("client", line))
        super().append(milliseconds, loud=loud, event_id=event_id, **hints)


async def open_transcript(
    omni: DuplexOmni, dialect: Dialect, *, patch: Mapping[str, Any] | None = None
) -> TranscriptTalker:
    """Open a session whose wire is written down, and let its first events come."""
    recorder = TranscriptRecorder(dialect)
    if patch is not None:
        recorder.lines.append(("opening", dict(patch)))
    handle = await omni.open_session(dialect=dialect.session_name, attachment=recorder, patch=patch)
    await recorder.wait_for(ConversationCreated)
    await trio.testing.wait_all_tasks_blocked()
    return TranscriptTalker(handle, recorder)


def normalised(lines: list[Line]) -> list[bytes]:
    """The lines as JSON text, without what differs from run to run."""
    names: dict[str, str] = {}
    return [orjson.dumps({who: _normal(message, "", names)}) for who, message in lines]


def _normal(value: Any, key: str, names: dict[str, str]) -> Any:
    match value:
        case _ if key in _LEFT_OUT:
            return f"<{key}>"
        case dict():
            return {name: _normal(inner, name, names) for name, inner in value.items()}
        case list():
            return [_normal(inner, key, names) for inner in value]
        case str() if key == "event_id" and _MADE_ID.fullmatch(value):
            return "event"
        case str() if key == "delta" and _is_sound(value):
            return f"<{len(pybase64.b64decode(value))} bytes>"
        case str():
            return _MADE_ID.sub(lambda made: _named(made[0], names), value)
    return value


def _is_sound(text: str) -> bool:
    return len(text) > 64 and " " not in text


def _named(made: str, names: dict[str, str]) -> str:
    if made not in names:
        kind = next(kind for kind in _KINDS if made.startswith(kind))
        kind = _KINDS[kind]
        names[made] = f"{kind}_{1 + sum(name.startswith(kind) for name in names.values())}"
    return names[made]
