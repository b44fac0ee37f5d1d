"""Who may come back to which session: resume tokens, and the checks before a socket becomes a session's.

A token is shown once, in `session.created` or `session.resumed`; only its hash is kept. Each resume makes a
new one, and the old one is dead, but for one case: the answer with the new token may be lost on its way, and
then its client has nothing but the one it presented. So that one opens the session again until something is
heard from the new socket, which a client uses only once it has the answer. It does so even while the server
takes that socket for a healthy one: a connection that swallows everything looks like that for a long time. It
gives nobody more than the token gave already when it was presented. A client that numbers its attempts is
protected from one of its own that the network delivers late.

The session itself is the engine's. What is remembered of one that has ended is enough to tell its client so.
"""

from __future__ import annotations

import hmac
import secrets
from hashlib import sha256
from typing import TYPE_CHECKING
from uuid import uuid4

from attrs import define, field

from duplex_trio.engine import DuplexSessionHandle, ResumeGrant
from duplex_trio.protocol.duplex import RealtimeError, SessionResume
from duplex_trio.serving.socket_attachment import SocketAttachment

if TYPE_CHECKING:
    from duplex_trio.entrypoints.duplex_omni import DuplexOmni

TOKEN_BYTES = 32
SWEEP_AT_MIN = 256
"""Records of ended sessions are dropped when there are twice as many records as sessions, but not below this."""


def new_grant(attachment_generation: int) -> ResumeGrant:
    """A name for an attachment, with a token that nobody can guess."""
    return ResumeGrant(attachment_generation, secrets.token_urlsafe(TOKEN_BYTES))


def _hashed(token: str) -> bytes:
    return sha256(token.encode()).digest()


@define(eq=False)
class _Record:
    """What is known of one session's attachments. `recovery` is the token that was presented last, as long as
    it is good, and `attempt` what its client called that request."""

    token: bytes = field(repr=False)
    attachment_generation: int
    lease_generation: int
    recovery: bytes | None = field(default=None, repr=False)
    attempt: int = 0


class DuplexSessionAttachmentRegistry:
    """The attachments of all sessions of a deployment.

    Args:
        omni: whose sessions they are.
    """

    def __init__(self, omni: DuplexOmni) -> None:
        self._omni = omni
        self._records: dict[str, _Record] = {}
        self._sweep_at = SWEEP_AT_MIN
        # What an unknown session is compared with, so that it takes as long as a wrong token.
        self._nobody = _Record(secrets.token_bytes(TOKEN_BYTES), 0, 0)

    def register(self, handle: DuplexSessionHandle, grant: ResumeGrant) -> None:
        """A session was opened with its first attachment."""
        if len(self._records) >= self._sweep_at:
            self._sweep()
        self._records[handle.session_id] = _Record(
            _hashed(grant.resume_token), grant.attachment_generation, handle.generation
        )

    def resume(self, request: SessionResume, attachment: SocketAttachment) -> DuplexSessionHandle:
        """Make a socket a session's, in place of the one it has or had.

        The session and whoever has it are untouched unless this succeeds. An unknown session and a wrong
        token are answered alike, so that an id tells a stranger nothing.

        Raises:
            RealtimeError: `unsupported_session_resume`, `invalid_resume_token`, `session_resume_expired`,
                `session_resume_conflict` or `runtime_resume_failed`, in the order of the checks.
            JournalGapError: what was missed is no longer kept.
        """
        if not self._omni.capabilities.supports_session_resume:
            raise RealtimeError(
                "unsupported_session_resume", "sessions of this deployment cannot be resumed", param="type"
            )
        presented = _hashed(request.resume_token)
        record = self._authorize(request, presented)
        handle = self._find(request.session_id)
        if handle is None:
            raise RealtimeError("session_resume_expired", "the session has ended", param="session_id")
        grant = new_grant(record.attachment_generation + 1)
        attachment.regrant(grant)
        record.lease_generation = self._take_over(handle, record, request, attachment)
        record.attachment_generation = grant.attachment_generation
        record.token, record.recovery = _hashed(grant.resume_token), presented
        record.attempt = request.attempt
        return handle

    def confirm(self, session_id: str) -> None:
        """The client that has the session now has heard its new token; the one before is dead."""
        record = self._records.get(session_id)
        if record is not None:
            record.recovery = None

    # ------------------------------------------------------------------ inner workings

    def _authorize(self, request: SessionResume, presented: bytes) -> _Record:
        record = self._records.get(request.session_id, self._nobody)
        matches = hmac.compare_digest(presented, record.token)
        recovers = hmac.compare_digest(presented, record.recovery or self._nobody.token)
        if record is not self._nobody and (matches or (recovers and request.attempt >= record.attempt)):
            return record
        raise RealtimeError(
            "invalid_resume_token", "there is no session with this id and this token", param="resume_token"
        )

    def _take_over(
        self,
        handle: DuplexSessionHandle,
        record: _Record,
        request: SessionResume,
        attachment: SocketAttachment,
    ) -> int:
        try:
            return handle.resume(
                attachment,
                expected_generation=record.lease_generation,
                control_id=uuid4().hex,
                last_seq=request.last_received_server_event_seq,
            )
        except RealtimeError as error:
            if error.param is not None:
                raise
            raise RealtimeError("runtime_resume_failed", error.message) from error

    def _find(self, session_id: str) -> DuplexSessionHandle | None:
        try:
            handle = self._omni.get_session(session_id)
        except RealtimeError:
            return None
        return None if handle.closing else handle

    def _sweep(self) -> None:
        self._records = {
            session_id: record
            for session_id, record in self._records.items()
            if self._find(session_id) is not None
        }
        self._sweep_at = max(SWEEP_AT_MIN, 2 * len(self._records))
