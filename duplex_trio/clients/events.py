"""Client-side views of server events: the JSON as received, with typed access to what clients use.

A view never refuses a field it does not know and never invents one: `raw` is the event, an accessor whose
field is missing or of another type answers `None` (or empty). `parse_event` picks the class by the event's
`type`; types without a class of their own are plain `ServerEvent`s. Decoding is done on access, once.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import pybase64
from attrs import define

from duplex_trio.clients.config import SAMPLE_BYTES
from duplex_trio.clients.errors import DuplexProtocolError
from duplex_trio.protocol import duplex as wire

OWN_ACKNOWLEDGMENT = "evt_playback_"
"""What the ids of acknowledgments begin with that a client makes by itself."""


@define(frozen=True, eq=False, slots=False)
class ServerEvent:
    """One event of the server.

    Attributes:
        raw: the event's JSON object.
        received_at_s: when the client read it, on Trio's clock.
    """

    raw: Mapping[str, Any]
    received_at_s: float = 0.0

    @property
    def type(self) -> str:
        """The event's type."""
        return str(self.raw["type"])

    @property
    def event_id(self) -> str | None:
        """The server's id of this event."""
        return self._string("event_id")

    @property
    def session_id(self) -> str | None:
        """The session, if the event names it."""
        return self._string("session_id") or _string_in(self.raw.get("session"), "id")

    @property
    def response_id(self) -> str | None:
        """The response that the event belongs to, from the top level or from the `response` object."""
        return self._string("response_id") or _string_in(self.raw.get("response"), "id")

    @property
    def item_id(self) -> str | None:
        """The conversation item that the event belongs to, from the top level or from the `item` object."""
        return self._string("item_id") or _string_in(self.raw.get("item"), "id")

    @property
    def server_event_seq(self) -> int | None:
        """Position in the session's journal, for events that are in it."""
        value = self.raw.get("server_event_seq")
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def duplex(self) -> Mapping[str, Any]:
        """The extension object of a Tier 1 event (epoch, turn_id, playback, metrics); empty without one."""
        return _mapping(self.raw.get("duplex"))

    @property
    def audio(self) -> bytes:
        """Decoded sound of an audio delta; empty for other events."""
        return b""

    @property
    def text(self) -> str:
        """Text of a transcript or text event; empty for other events."""
        return ""

    @property
    def sample_rate_hz(self) -> int | None:
        """Rate of the sound, if the event states it, at its top level or in the extension object."""
        value = self.raw.get("sample_rate_hz", self.duplex.get("sample_rate_hz"))
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

    def _string(self, name: str) -> str | None:
        value = self.raw.get(name)
        return value if isinstance(value, str) else None

    def _number(self, name: str) -> float | None:
        value = self.raw.get(name)
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


class SessionEvent(ServerEvent):
    """An event that carries the whole `session` object."""

    @property
    def session(self) -> Mapping[str, Any]:
        """The session object."""
        return _mapping(self.raw.get("session"))


class SessionCreated(SessionEvent):
    """`session.created`: the session is open."""

    @property
    def resume_token(self) -> str | None:
        """The secret that a later connection can take the session over with, if it can be resumed."""
        return self._string("resume_token")


class SessionUpdated(SessionEvent):
    """`session.updated`: the settings in force."""


class SessionResumed(SessionEvent):
    """`session.resumed`: the session goes on over another connection; what was missed follows."""

    @property
    def resume_token(self) -> str | None:
        """The secret for the next time."""
        return self._string("resume_token")


class ConnectionLost(ServerEvent):
    """`connection.lost`, made by the client: the connection broke, and another one is being made."""

    @property
    def message(self) -> str:
        """What happened."""
        return self._string("message") or ""


class ConnectionResumed(ServerEvent):
    """`connection.resumed`, made by the client: the session has a connection again."""

    @property
    def attempt(self) -> int:
        """Which attempt it was, from 1."""
        return int(self._number("attempt") or 0)


class SessionClosed(ServerEvent):
    """`session.closed`: the last event of a session that was ended on purpose."""

    @property
    def reason(self) -> str:
        """Why it ended."""
        return self._string("reason") or "closed"


class SessionExpired(SessionClosed):
    """`session.expired`: the last event of a session that the server gave up."""


class SpeechStarted(ServerEvent):
    """`input_audio_buffer.speech_started`."""

    @property
    def audio_start_ms(self) -> float | None:
        """Where in the appended sound the speech begins."""
        return self._number("audio_start_ms")


class SpeechStopped(ServerEvent):
    """`input_audio_buffer.speech_stopped`."""

    @property
    def audio_end_ms(self) -> float | None:
        """Where in the appended sound the speech is over."""
        return self._number("audio_end_ms")


class InputTranscriptDelta(ServerEvent):
    """What the user is saying, as far as it is recognised; `text` is this event's part."""

    @property
    def text(self) -> str:
        """The new part of the hypothesis."""
        return self._string("delta") or ""


class InputTranscript(ServerEvent):
    """What the user said, final."""

    @property
    def text(self) -> str:
        """The transcript."""
        return self._string("transcript") or ""


class ResponseCreated(ServerEvent):
    """`response.created`."""


class ResponseDone(ServerEvent):
    """`response.done`: nothing of the response follows."""

    @property
    def status(self) -> str | None:
        """`completed`, `cancelled`, `failed` or `incomplete`."""
        return _string_in(self.raw.get("response"), "status")

    @property
    def reason(self) -> str | None:
        """The reason in `status_details`, if there is one."""
        details = _mapping(self.raw.get("response")).get("status_details")
        return _string_in(details, "reason")


class AudioDelta(ServerEvent):
    """One piece of an answer's sound."""

    @cached_property
    def _decoded(self) -> bytes:
        try:
            return pybase64.b64decode(self._string("delta") or "", validate=True)
        except (binascii.Error, ValueError) as error:
            raise DuplexProtocolError(
                "bad_audio", f"the delta is not base64: {error}", raw=self.raw
            ) from None

    @property
    def audio(self) -> bytes:
        """The sound, in the encoding that `encoding` names.

        Raises:
            DuplexProtocolError: the delta is not base64 (`bad_audio`).
        """
        return self._decoded

    @property
    def encoding(self) -> str:
        """Wire name of the encoding."""
        return self._string("format") or _string_in(self.duplex, "format") or "pcm16"

    @property
    def duration_ms(self) -> float:
        """Length of the sound; 0 when the encoding has no fixed sample size or the rate is not stated."""
        rate = self.sample_rate_hz
        size = SAMPLE_BYTES.get(self.encoding)
        return 0.0 if rate is None or size is None else len(self.audio) * 1000 / (size * rate)


class TranscriptDelta(ServerEvent):
    """One piece of the text that an answer speaks."""

    @property
    def text(self) -> str:
        """The new part."""
        return self._string("delta") or ""


class TextDelta(TranscriptDelta):
    """One piece of an answer that is written, not spoken; under its present or its former name."""


class FunctionCall(ServerEvent):
    """The model calls a function, with all of its arguments; `send_function_output` answers."""

    @property
    def call_id(self) -> str:
        """What the answer names."""
        return self._string("call_id") or ""

    @property
    def name(self) -> str:
        """Of the function; empty where a server leaves it out."""
        return self._string("name") or ""

    @property
    def arguments(self) -> str:
        """The arguments as JSON text, as the model wrote it."""
        return self._string("arguments") or ""


class OutputAudioCleared(ServerEvent):
    """`output_audio_buffer.cleared`: sound that has not been played must not be."""


class SpeakDecision(ServerEvent):
    """`response.speak`: the model begins to talk."""


class ListenDecision(ServerEvent):
    """`response.listen`: the model keeps listening; with a `response_id` it ends that response."""


class ErrorEvent(ServerEvent):
    """`error`."""

    @property
    def code(self) -> str:
        """The wire error code, or the error's class where a server sends no code."""
        error = self.raw.get("error")
        return _string_in(error, "code") or self._string("code") or _string_in(error, "type") or "error"

    @property
    def message(self) -> str:
        """The server's text."""
        error = self.raw.get("error")
        return _string_in(error, "message") or (error if isinstance(error, str) else "")

    @property
    def param(self) -> str | None:
        """The field at fault."""
        return _string_in(self.raw.get("error"), "param")

    @property
    def related_event_id(self) -> str | None:
        """Id of the client event that was refused."""
        return _string_in(self.raw.get("error"), "event_id")

    @property
    def of_acknowledgment(self) -> bool:
        """Whether it refuses an acknowledgment of playback that the client made by itself.

        That is nobody's answer: it is told among the events, and raised nowhere.
        """
        return (self.related_event_id or "").startswith(OWN_ACKNOWLEDGMENT)

    def to_exception(self) -> DuplexProtocolError:
        """The same as an exception."""
        return DuplexProtocolError(
            self.code, self.message, event_id=self.related_event_id, param=self.param, raw=self.raw
        )


_CLASSES: Mapping[str, type[ServerEvent]] = {
    wire.SessionCreated.type: SessionCreated,
    wire.SessionUpdated.type: SessionUpdated,
    wire.SessionResumed.type: SessionResumed,
    "connection.lost": ConnectionLost,
    "connection.resumed": ConnectionResumed,
    wire.SessionClosed.type: SessionClosed,
    wire.SessionExpired.type: SessionExpired,
    wire.InputAudioBufferSpeechStarted.type: SpeechStarted,
    wire.InputAudioBufferSpeechStopped.type: SpeechStopped,
    wire.ConversationItemInputAudioTranscriptionDelta.type: InputTranscriptDelta,
    wire.ConversationItemInputAudioTranscriptionCompleted.type: InputTranscript,
    wire.ResponseCreated.type: ResponseCreated,
    wire.ResponseDone.type: ResponseDone,
    wire.ResponseOutputAudioDelta.type: AudioDelta,
    wire.ResponseOutputAudioTranscriptDelta.type: TranscriptDelta,
    wire.ResponseOutputTextDelta.type: TextDelta,
    "response.text.delta": TextDelta,
    wire.ResponseFunctionCallArgumentsDone.type: FunctionCall,
    wire.OutputAudioBufferCleared.type: OutputAudioCleared,
    wire.ResponseSpeak.type: SpeakDecision,
    wire.ResponseListen.type: ListenDecision,
    wire.ErrorEvent.type: ErrorEvent,
}


def parse_event(raw: object, *, received_at_s: float = 0.0) -> ServerEvent:
    """Wrap one decoded JSON value.

    Raises:
        DuplexProtocolError: it is not an object with a `type` string (`bad_event`).
    """
    if not isinstance(raw, Mapping) or not isinstance(raw.get("type"), str):
        raise DuplexProtocolError(
            "bad_event", "the server sent something that is no event", raw={"value": raw}
        )
    return _CLASSES.get(raw["type"], ServerEvent)(raw, received_at_s)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _string_in(value: object, name: str) -> str | None:
    found = value.get(name) if isinstance(value, Mapping) else None
    return found if isinstance(found, str) else None
