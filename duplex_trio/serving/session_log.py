"""One readable log line per thing that happens on a connection, as its client sees it.

Which events get a line and which of their fields are in it. Sound, tokens and keys are in no line; what
people said is in one only when the operator asked for it. The engine logs what sessions do by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

from duplex_trio.protocol.duplex import DuplexEvent

log = structlog.get_logger("duplex_trio.serving")

_LOGGED: Mapping[str, tuple[str, ...]] = {
    "input_audio_buffer.speech_started": ("audio_start_ms",),
    "input_audio_buffer.speech_stopped": ("audio_end_ms",),
    "input_audio_buffer.committed": ("item_id",),
    "conversation.item.input_audio_transcription.completed": ("item_id",),
    "conversation.item.input_audio_transcription.failed": ("item_id",),
    "conversation.item.truncated": ("item_id", "audio_end_ms"),
    "output_audio_buffer.cleared": ("response_id",),
    "response.output_audio_transcript.done": ("response_id",),
}
_SPOKEN = frozenset(
    {"conversation.item.input_audio_transcription.completed", "response.output_audio_transcript.done"}
)


class SessionLog:
    """The lines of one connection.

    Args:
        transcripts: also write what was said.
        context: what every line carries, such as the client's address.
    """

    def __init__(self, *, transcripts: bool = False, **context: Any) -> None:
        self._log = log.bind(**context)
        self._transcripts = transcripts

    def bind(self, **context: Any) -> None:
        """Add to what every further line carries."""
        self._log = self._log.bind(**context)

    def attached(self, session_id: str) -> None:
        """The connection has its session."""
        self.bind(session_id=session_id)
        self._log.info("client.attached")

    def refused(self, code: str, message: str) -> None:
        """No session was opened."""
        self._log.info("client.refused", code=code, message=message)

    def disconnected(self, code: int) -> None:
        """The client is gone."""
        self._log.info("client.disconnected", code=code)

    def event(self, event: DuplexEvent) -> None:
        """Write a line for `event` if it is one of those worth a line."""
        fields = _LOGGED.get(event.type)
        if fields is None:
            return
        values = {name: getattr(event, name) for name in fields}
        if self._transcripts and event.type in _SPOKEN:
            values["transcript"] = getattr(event, "transcript", None)
        self._log.info(event.type, **values)
