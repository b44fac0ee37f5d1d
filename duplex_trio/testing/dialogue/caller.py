"""The user's side of a session, whatever carries it: a handle in this process, or a client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import orjson
import trio

from duplex_trio.clients.base import DuplexClientBase
from duplex_trio.clients.errors import DuplexClientError
from duplex_trio.clients.playback import PlaybackAck
from duplex_trio.entrypoints.client_messages import read_text, take_message
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.dialects import Dialect, render
from duplex_trio.protocol.duplex import AppendAudio, encode_message
from duplex_trio.protocol.sound import AudioFormat, AudioOutputEncoder, Pcm, pcm16_bytes, resample
from duplex_trio.testing.breakable import BreakableClient
from duplex_trio.testing.dialogue.account import Account
from duplex_trio.testing.dialogue.person import RATE_HZ
from duplex_trio.testing.returning import ReturningTalker
from duplex_trio.testing.talker import Talker

Observe = Callable[[Mapping[str, Any]], None]
EVENTS_MAX = 1_000_000
"""A conversation of a test is read as it comes; nothing falls behind."""

Session = Talker | DuplexClientBase
"""What a conversation can be played on."""


class CannotDropError(TypeError):
    """What the conversation is played on has no connection that could be dropped."""


class Caller(ABC):
    """The user's side of one session.

    Attributes:
        script: of the scripted model at the other side, if that is known.
        accounts: of the conversations with this session, if anybody keeps them.
    """

    def __init__(self) -> None:
        self.script: Script | None = None
        self.accounts: list[Account] = []

    @property
    @abstractmethod
    def session_id(self) -> str:
        """The session."""

    @abstractmethod
    async def listen(self, observe: Observe) -> str:
        """Hand every event over, until the session is over; returns why it is."""

    @abstractmethod
    async def send(self, message: Mapping[str, Any]) -> None:
        """Send one message of the wire."""

    @abstractmethod
    async def append(self, pcm: Pcm) -> None:
        """Append sound, 24 kHz."""

    @abstractmethod
    def drop(self) -> None:
        """Break the connection.

        Raises:
            CannotDropError: there is none.
        """

    @abstractmethod
    def resume(self) -> None:
        """Let there be a connection again."""

    async def acknowledge(self, ack: PlaybackAck) -> None:
        """Tell the session what the user has heard."""
        heard = {"response_id": ack.response_id, "played_ms": ack.played_ms, "committed_ms": ack.played_ms}
        await self.send({"type": "playback.ack", **heard})

    def tell(self, text: str) -> None:
        """Tell a scripted model what the next turn says."""
        if self.script is not None:
            self.script.will_hear(self.session_id, text)


class TalkerCaller(Caller):
    """The user of a session in this process."""

    def __init__(self, talker: Talker) -> None:
        super().__init__()
        self._talker = talker
        self._connection = talker.heard
        self._position = len(talker.heard.events)
        self._away = False
        self.script, self.accounts = talker.script, talker.accounts

    @property
    def session_id(self) -> str:
        """The session."""
        return self._talker.handle.session_id

    async def listen(self, observe: Observe) -> str:
        """Read what the attachment keeps, and then what the next one does."""
        while True:
            heard = self._connection
            while self._position < len(heard.events):
                event = heard.events[self._position]
                self._position += 1
                text = render(event, Dialect.DUPLEX)
                if text is not None:
                    observe(orjson.loads(text))
            if heard.closed is not None:
                return heard.closed[1]
            if self._talker.heard is not heard:
                self._connection, self._position = self._talker.heard, 0
            else:
                await heard.wait_news()

    async def send(self, message: Mapping[str, Any]) -> None:
        """Hand it over as a server would, which answers what it cannot read with an `error`."""
        await trio.lowlevel.checkpoint()
        if self._away:
            return
        read = read_text(self._talker.handle, encode_message(message))
        if read is not None:
            take_message(self._talker.handle, read)

    async def append(self, pcm: Pcm) -> None:
        """Append sound, unless there is no connection to carry it."""
        await trio.lowlevel.checkpoint()
        if not self._away:
            self._talker.send(AppendAudio(audio=pcm16_bytes(pcm), format="pcm16", sample_rate_hz=RATE_HZ))

    def drop(self) -> None:
        """Detach."""
        if not isinstance(self._talker, ReturningTalker):
            raise CannotDropError(
                "this session was opened without a connection; open_session() gives one that can"
            )
        self._away = True
        self._talker.lose()

    def resume(self) -> None:
        """Attach again."""
        assert isinstance(self._talker, ReturningTalker)
        self._talker.heard.wake()
        self._talker.resume()
        self._away = False


class ClientCaller(Caller):
    """The user of a client."""

    def __init__(self, client: DuplexClientBase) -> None:
        super().__init__()
        self._client = client
        self._events = client.events(events_max=EVENTS_MAX)
        audio = client.config.input_audio
        self._rate_hz, self._encoding = audio.sample_rate_hz, audio.encoding
        self._encoder = None
        if self._encoding.startswith("g711"):
            wire_format = AudioFormat(cast(Any, self._encoding), self._rate_hz, self._encoding)
            self._encoder = AudioOutputEncoder(wire_format, RATE_HZ)
        if isinstance(client, BreakableClient):
            self.script, self.accounts = client.script, client.accounts

    @property
    def session_id(self) -> str:
        """The session."""
        return self._client.session_id or ""

    async def listen(self, observe: Observe) -> str:
        """Read the client's events."""
        try:
            with self._events as events:
                async for event in events:
                    observe(event.raw)
        except DuplexClientError as error:
            return str(error)
        return "closed"

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send it, unless the session is over."""
        with self._until_over():
            await self._client.send(message)

    async def append(self, pcm: Pcm) -> None:
        """Append sound in the format that the client has agreed on."""
        data = self._encoded(pcm)
        if data:  # a change of rate holds the first of it back
            with self._until_over():
                await self._client.append_audio(data)
        else:
            await trio.lowlevel.checkpoint()

    async def acknowledge(self, ack: PlaybackAck) -> None:
        """Acknowledge, unless the client does so itself."""
        if self._client.playback is None:
            await super().acknowledge(ack)

    def drop(self) -> None:
        """Cut the line."""
        if not isinstance(self._client, BreakableClient):
            raise CannotDropError("drop() needs a BreakableClient, such as open_client() gives")
        self._client.cut()

    def resume(self) -> None:
        """Mend it."""
        assert isinstance(self._client, BreakableClient)
        self._client.mend()

    @contextmanager
    def _until_over(self) -> Iterator[None]:
        """Whoever speaks may find the session over before whoever listens has heard of it, and tells why."""
        try:
            yield
        except DuplexClientError:
            if not self._client.closed:
                raise

    def _encoded(self, pcm: Pcm) -> bytes:
        if self._encoder is not None:
            return self._encoder.feed(pcm)
        sound = pcm if self._rate_hz == RATE_HZ else resample(pcm, RATE_HZ, self._rate_hz)
        if self._encoding == "pcm_f32le":
            return sound.astype(np.dtype("<f4")).tobytes()
        if self._encoding in ("pcm16", "pcm"):
            return pcm16_bytes(sound)
        raise ValueError(f"a conversation cannot be spoken in {self._encoding}")


def script_of(omni: DuplexOmni) -> Script | None:
    """The script of an engine's model, if it is the scripted one."""
    found = getattr(omni.pipeline, "script", None)
    return found if isinstance(found, Script) else None


def caller_of(session: Session) -> Caller:
    """Whoever uses a session.

    Raises:
        TypeError: it is no session.
    """
    if isinstance(session, Talker):
        return TalkerCaller(session)
    if isinstance(session, DuplexClientBase):
        return ClientCaller(session)
    raise TypeError(f"a conversation is played on a session or a client, not on {type(session).__name__}")
