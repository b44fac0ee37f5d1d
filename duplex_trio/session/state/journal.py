"""The numbers of a session's events, and what of them can be sent again.

Pure: the time is an argument. Numbers are 1, 2, 3, ... in the order of the wire; an event gets its number
when it is recorded, so nothing may be recorded that is not sent next. `EventNumbers` keeps nothing of an
event; the `EventJournal` keeps its JSON text, bounded in bytes and in age. There an event is forgotten once
it was acknowledged, once it is older than the time to live, and for good once all that must be kept is more
than the journal holds: from then on nothing is numbered and nothing can be resumed.
"""

from __future__ import annotations

from collections import deque

from attrs import define, field, frozen

from duplex_trio.protocol.duplex import RealtimeError


class JournalGapError(Exception):
    """Events that a client missed are no longer kept."""


@frozen(eq=False)
class _Entry:
    seq: int
    text: bytes
    recorded_s: float


@define(eq=False)
class EventNumbers:
    """The numbers of one session whose events are not kept: it cannot be resumed.

    Attributes:
        head: the number of the latest event; 0 before the first.
        overflowed: whether no event is numbered any more.
    """

    head: int = field(default=0, init=False)
    overflowed: bool = field(default=False, init=False)

    @property
    def next_seq(self) -> int:
        """The number that the next event gets."""
        return self.head + 1

    def record(self, text: bytes, now_s: float) -> bool:
        """Count an event that was rendered with `next_seq`; false if it has no number after all."""
        self.head += 1
        return True

    def ack(self, seq: int) -> None:
        """The client has all events up to `seq`.

        Raises:
            RealtimeError: `invalid_event_ack` when no event has that number yet.
        """
        if seq > self.head:
            raise RealtimeError(
                "invalid_event_ack",
                f"the last event of this session has number {self.head}",
                param="server_event_seq",
            )


@define(eq=False)
class EventJournal(EventNumbers):
    """The journal of one session.

    Args:
        ttl_s: how long an event is kept at most.
        bytes_max: how much text is kept at most.

    Attributes:
        size_bytes: the text kept.
    """

    ttl_s: float
    bytes_max: int
    size_bytes: int = field(default=0, init=False)
    _entries: deque[_Entry] = field(factory=deque, init=False)

    def __len__(self) -> int:
        return len(self._entries)

    def record(self, text: bytes, now_s: float) -> bool:
        """Keep an event that was rendered with `next_seq`.

        Returns false if that is one too many, or was so before: then this event and all later ones have no
        number.
        """
        if self.overflowed:
            return False
        self._prune(now_s)
        if self.size_bytes + len(text) > self.bytes_max:
            self.overflowed = True
            self._entries.clear()
            self.size_bytes = 0
            return False
        self._entries.append(_Entry(self.next_seq, text, now_s))
        self.size_bytes += len(text)
        return super().record(text, now_s)

    def ack(self, seq: int) -> None:
        """Forget all events up to `seq`: the client has them.

        Raises:
            RealtimeError: as without a journal.
        """
        super().ack(seq)
        while self._entries and self._entries[0].seq <= seq:
            self._drop_oldest()

    def replay(self, after_seq: int, now_s: float) -> list[bytes]:
        """The texts of all events behind number `after_seq`, in order.

        Raises:
            RealtimeError: `session_resume_conflict` when no event has that number yet.
            JournalGapError: some of them are no longer kept.
        """
        if after_seq > self.head:
            raise RealtimeError(
                "session_resume_conflict",
                f"the last event of this session has number {self.head}",
                param="last_received_server_event_seq",
            )
        self._prune(now_s)
        oldest = self._entries[0].seq if self._entries else self.next_seq
        if self.overflowed or after_seq + 1 < oldest:
            raise JournalGapError(f"event {after_seq + 1} is no longer kept")
        return [entry.text for entry in self._entries if entry.seq > after_seq]

    def _prune(self, now_s: float) -> None:
        while self._entries and self._entries[0].recorded_s + self.ttl_s <= now_s:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        self.size_bytes -= len(self._entries.popleft().text)
