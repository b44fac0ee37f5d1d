"""A client that loses its connection and comes back, and what it has heard over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import trio

from duplex_trio.entrypoints.duplex_omni import DuplexOmni, DuplexSessionHandle
from duplex_trio.protocol.duplex import (
    ConversationCreated,
    DuplexEvent,
    ResponseDone,
    SessionReplaced,
    SessionResumed,
)
from duplex_trio.protocol.duplex.session import DialectName
from duplex_trio.testing.recorder import ResumableRecorder
from duplex_trio.testing.talker import Talker


class ReturningTalker(Talker):
    """One session and a client whose connections may break.

    Attributes:
        heard: what came over the current connection.
        connections: all of them, the current one last.
    """

    heard: ResumableRecorder

    def __init__(self, handle: DuplexSessionHandle, attachment: ResumableRecorder) -> None:
        super().__init__(handle, attachment)
        self.connections = [attachment]

    @property
    def events(self) -> list[DuplexEvent]:
        """What came over all connections, without what each of them said of itself."""
        return [
            event
            for heard in self.connections
            for event in heard.events
            if not isinstance(event, SessionResumed | SessionReplaced)
        ]

    @property
    def gapless(self) -> bool:
        """Whether every number came once and in order, over all connections."""
        numbers = [seq for heard in self.connections for seq in heard.seqs]
        return numbers == list(range(1, len(numbers) + 1))

    def lose(self) -> None:
        """The connection breaks, and whoever reads from it notices."""
        self.heard.broken = True
        self.handle.disconnected(self.handle.generation)

    def resume(self, new: ResumableRecorder | None = None) -> ResumableRecorder:
        """Come back over a new connection.

        Raises:
            RealtimeError: the session cannot be resumed.
            JournalGapError: too much was missed.
        """
        last_seq = self.heard.last_seq
        if new is None:
            new = ResumableRecorder(len(self.connections) + 1)
        new.last_seq = last_seq
        self.handle.resume(
            new,
            expected_generation=self.handle.generation,
            control_id=f"resume {len(self.connections)}",
            last_seq=last_seq,
        )
        self.connections.append(new)
        self.heard = new
        return new

    async def wait_done(self, number: int = 1, *, timeout_s: float = 60.0) -> None:
        """Wait until so many responses are done, over whichever connections."""
        with trio.fail_after(timeout_s):
            while self._done_count() < number:  # noqa: ASYNC110  which connection to wait at may change
                await trio.sleep(0.1)

    def _done_count(self) -> int:
        return sum(isinstance(event, ResponseDone) for event in self.events)


async def open_returning(
    omni: DuplexOmni, *, patch: Mapping[str, Any] | None = None, dialect: DialectName = "duplex"
) -> ReturningTalker:
    """Open a session that can be resumed, and let its first events come."""
    attachment = ResumableRecorder()
    handle = await omni.open_session(dialect=dialect, attachment=attachment, patch=patch)
    await attachment.wait_for(ConversationCreated)
    return ReturningTalker(handle, attachment)


def essence(events: Sequence[DuplexEvent]) -> list[tuple[Any, ...]]:
    """What events say, without ids and figures: equal for two sessions in which the same happened."""
    return [
        (event.type, getattr(event, "delta", None), getattr(event, "transcript", None)) for event in events
    ]
