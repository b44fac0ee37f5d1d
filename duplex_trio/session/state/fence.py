"""Identity of work inside a session: the fence, and the spelling of stage request ids.

A fence is (session, epoch, turn). The epoch grows with each cancellation and never falls; whatever carries an
older epoch than the session's is stale. Request ids carry the fence through stages that know nothing of
sessions.
"""

from __future__ import annotations

import base64
import re

from attrs import frozen

_ROLE = re.compile(r"[A-Za-z0-9_-]+")


@frozen(order=False)
class DuplexFence:
    """A point in a session's history of turns."""

    session_id: str
    epoch: int
    turn_id: int

    def admits(self, other: DuplexFence) -> bool:
        """Whether work of `other` is still current when this fence is the accepted one."""
        return self.session_id == other.session_id and (other.epoch, other.turn_id) >= (
            self.epoch,
            self.turn_id,
        )


def stage_request_id(session_id: str, epoch: int, role: str) -> str:
    """Spell a stage request id: `duplex-s.<base64url of the session id>.e.<epoch>.r.<role>`.

    Raises:
        ValueError: the role has other characters than letters, digits, `_` and `-`.
    """
    if not _ROLE.fullmatch(role):
        raise ValueError(f"role {role!r} may hold letters, digits, '_' and '-' only")
    encoded = base64.urlsafe_b64encode(session_id.encode()).decode().rstrip("=")
    return f"duplex-s.{encoded}.e.{epoch}.r.{role}"


def turn_role(turn_id: int, attempt: int = 0) -> str:
    """Role of the request that answers one turn of a model that answers whole turns."""
    return f"stage0-turn{turn_id}" if attempt == 0 else f"stage0-try{attempt}-turn{turn_id}"


def session_id_of(request_id: str) -> str | None:
    """The session a request id belongs to, or None if it is not spelled by `stage_request_id`."""
    match = re.fullmatch(r"duplex-s\.([A-Za-z0-9_-]+)\.e\.\d+\.r\.[A-Za-z0-9_-]+", request_id)
    if match is None:
        return None
    text = match.group(1)
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
