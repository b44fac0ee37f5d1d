"""One attachment of a session while it is the session's: the write under way, and what it has still to catch up.

Which attachment is the current one, and what it gets, is `delivery`'s.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import structlog
import trio

from duplex_trio.protocol.duplex import DuplexEvent
from duplex_trio.session.attachment import Attachment, ResumableAttachment

log = structlog.get_logger("duplex_trio.session")

GONE = "the client is gone"

Message = DuplexEvent | bytes
"""What leaves for a client: an event, or the text of one that has a number."""


class Link:
    """The way to one attachment.

    Args:
        attachment: the consumer.
        send_timeout_s: how long it may take to read one message.
        missed: texts that it gets ahead of everything live; None for the first attachment of a session.

    Attributes:
        missed: what of them is left.
        missed_bytes: their size.
        settled: set once nothing is missed any more, or the link has ended; None where nothing ever was.
    """

    def __init__(
        self, attachment: Attachment, send_timeout_s: float, missed: Sequence[bytes] | None = None
    ) -> None:
        self.attachment = attachment
        self.missed: deque[bytes] = deque(missed or ())
        self.missed_bytes = sum(map(len, self.missed))
        self.settled: trio.Event | None = None if missed is None else trio.Event()
        self._send_timeout_s = send_timeout_s
        self._writing: trio.CancelScope | None = None
        self._written = trio.lowlevel.ParkingLot()

    @property
    def live(self) -> bool:
        """Whether events go to the attachment as they come."""
        return self.settled is None or self.settled.is_set()

    def miss(self, text: bytes) -> None:
        """Put one more behind what is missed."""
        self.missed.append(text)
        self.missed_bytes += len(text)

    def next_missed(self) -> bytes:
        """Take the oldest of what is missed."""
        text = self.missed.popleft()
        self.missed_bytes -= len(text)
        return text

    async def send(self, message: Message) -> str | None:
        """Hand one message over; returns what went wrong, if something did. `stop` ends it early."""
        scope = self._writing = trio.CancelScope(deadline=trio.current_time() + self._send_timeout_s)
        try:
            with scope:
                if isinstance(message, bytes):
                    assert isinstance(self.attachment, ResumableAttachment)
                    await self.attachment.send_text(message)
                else:
                    await self.attachment.send(message)
                return None
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return GONE
        finally:
            self._writing = None
            self._written.unpark_all()
        return "the client has not read for too long"

    def stop(self) -> None:
        """Give up the write that is under way."""
        if self._writing is not None:
            self._writing.cancel()

    async def part(self, event: DuplexEvent | None, code: int, reason: str) -> None:
        """Tell an attachment that is not the session's any more why, as far as it still listens."""
        try:
            with trio.move_on_after(self._send_timeout_s):
                while self._writing is not None:
                    await self._written.park()
                if event is not None:
                    await self.attachment.send(event)
                await self.attachment.close(code, reason)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            log.debug("session.parting_unheard", reason=reason)
        except Exception:
            # A consumer that nobody serves any more must not end the session that others go on with.
            log.exception("session.parting_failed", reason=reason)
