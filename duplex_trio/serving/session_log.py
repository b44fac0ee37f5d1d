"""The log lines of a connection: who came, who was refused, who left, and on request what was said.

Sound, tokens and keys are in no line. The engine writes the lines about what sessions do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import structlog

from duplex_trio.protocol.duplex import (
    ConversationItemInputAudioTranscriptionCompleted,
    DuplexEvent,
    ResponseOutputAudioTranscriptDone,
    ResponseOutputTextDone,
)

log = structlog.get_logger("duplex_trio.serving")

_SPOKEN: Mapping[str, str] = {
    ConversationItemInputAudioTranscriptionCompleted.type: "user.said",
    ResponseOutputAudioTranscriptDone.type: "assistant.said",
    ResponseOutputTextDone.type: "assistant.wrote",
}


class SessionLog:
    """The lines of one connection.

    Args:
        transcripts: also write what was said.
        context: what every line carries, such as the client's address.
    """

    def __init__(self, *, transcripts: bool = False, **context: Any) -> None:
        self._log = log.bind(**context)
        self._session_id: str | None = None
        self._transcripts = transcripts

    def bind(self, **context: Any) -> None:
        """Add to what every further line carries."""
        self._log = self._log.bind(**context)

    def attached(self, session_id: str, **context: Any) -> None:
        """The connection has its session; `context` is what else every further line carries."""
        self._session_id = session_id
        self.bind(session_id=session_id, **context)
        self._log.info("client.attached")

    def resumed(self, session_id: str, attachment_generation: int) -> None:
        """The connection has taken a session over from an earlier one."""
        self.bind(session_id=session_id)
        self._session_id = session_id
        self._log.info("client.resumed", attachment=attachment_generation)

    def caught_up(self) -> None:
        """A client that came back has been sent what it missed."""
        self._log.debug("client.caught_up")

    def silent(self, timeout_s: float) -> None:
        """The client has brought nothing for too long."""
        self._log.info("client.silent", timeout_s=timeout_s)

    def refused(self, code: str, message: str) -> None:
        """No session was opened."""
        self._log.info("client.refused", code=code, message=message)

    def disconnected(self, code: int) -> None:
        """The client is gone."""
        self._log.info("client.disconnected", code=code)

    def event(self, event: DuplexEvent) -> None:
        """Write what was said, if the operator asked for that."""
        if self._transcripts:
            self._said(event.type, getattr(event, "transcript", None) or getattr(event, "text", None) or "")

    def text(self, text: bytes) -> None:
        """The same for an event of the duplex dialect that is rendered already; a replay repeats it."""
        if self._transcripts:
            event = orjson.loads(text)
            self._said(event["type"], event.get("transcript") or event.get("text") or "")

    def _said(self, event_type: str, text: str) -> None:
        name = _SPOKEN.get(event_type)
        if name is not None:
            log.info(name, session_id=self._session_id, text=text)
