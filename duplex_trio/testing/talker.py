"""A person with a microphone, as data: speaks and is silent in real time on Trio's clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import trio

from duplex_trio.entrypoints.duplex_omni import DuplexOmni, DuplexSessionHandle
from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import (
    NO_HINTS,
    AppendAudio,
    AppendHints,
    ConversationCreated,
    CreateItem,
    CreateResponse,
    DuplexCommand,
    DuplexEvent,
    InputTextPart,
    MessageItem,
)
from duplex_trio.protocol.duplex.audio import pcm16_bytes
from duplex_trio.protocol.duplex.session import DialectName
from duplex_trio.testing.recorder import RecordingAttachment

if TYPE_CHECKING:
    from duplex_trio.testing.dialogue.account import Account

CLIENT_RATE_HZ = 24_000
CHUNK_MS = 20


class Talker:
    """One session and the one who talks to it.

    Args:
        handle: the session.
        attachment: what it sends.

    Attributes:
        heard: what it has sent.
        script: of the scripted model that hears the talker, if that is known.
        accounts: of the conversations that were played on the session.
    """

    script: Script | None = None

    def __init__(self, handle: DuplexSessionHandle, attachment: RecordingAttachment) -> None:
        self.handle = handle
        self.heard = attachment
        self.accounts: list[Account] = []

    @property
    def events(self) -> list[DuplexEvent]:
        """Everything that the session sent."""
        return self.heard.events

    def send(self, *commands: DuplexCommand) -> None:
        """Send commands, all in the same moment."""
        for command in commands:
            self.handle.submit(command)

    def append(self, milliseconds: int, *, loud: bool, event_id: str | None = None, **hints: Any) -> None:
        """Append sound at once: a tone, or silence, with what the client has to say about it."""
        samples = CLIENT_RATE_HZ * milliseconds // 1000
        time_s = np.arange(samples, dtype=np.float32) / CLIENT_RATE_HZ
        pcm = (
            (0.3 * np.sin(2 * np.pi * 200 * time_s)).astype(np.float32)
            if loud
            else np.zeros(samples, np.float32)
        )
        said = AppendHints(**hints) if hints else NO_HINTS
        self.handle.submit(AppendAudio(audio=pcm16_bytes(pcm), hints=said, event_id=event_id))

    async def speak(self, seconds: float, **hints: Any) -> None:
        """Speak in real time."""
        await self._stream(seconds, loud=True, **hints)

    async def pause(self, seconds: float, **hints: Any) -> None:
        """Send silence in real time."""
        await self._stream(seconds, loud=False, **hints)

    async def turn(self, seconds: float = 1.0) -> None:
        """Speak, then be silent long enough for the turn to end."""
        await self.speak(seconds)
        await self.pause(0.8)

    def write(self, text: str) -> None:
        """Put a text message into the conversation and ask for an answer."""
        self.send(CreateItem(item=MessageItem(role="user", content=(InputTextPart(text),))), CreateResponse())

    async def _stream(self, seconds: float, *, loud: bool, **hints: Any) -> None:
        for _ in range(round(seconds * 1000 / CHUNK_MS)):
            self.append(CHUNK_MS, loud=loud, **hints)
            await trio.sleep(CHUNK_MS / 1000)


async def open_talker(
    omni: DuplexOmni, *, dialect: DialectName = "duplex", patch: Mapping[str, Any] | None = None
) -> Talker:
    """Open a session with a recording attachment, and let its first events come."""
    attachment = RecordingAttachment()
    handle = await omni.open_session(dialect=dialect, attachment=attachment, patch=patch)
    await attachment.wait_for(ConversationCreated)
    return Talker(handle, attachment)
