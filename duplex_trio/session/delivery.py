"""From the egress to whoever is attached: numbers, the journal, and one attachment after another.

A session that can be resumed keeps what it sends. While nobody is attached its events go into the journal
alone; a new attachment first gets `session.resumed` and what it missed, written by a task of its own, and
then what is live. Until it has caught up the live events line up behind, so that nothing overtakes and the
egress does not wait for it.

A session that cannot be resumed hands its events to its one attachment, and keeps none. In the duplex dialect
they are numbered all the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import structlog
import trio

from duplex_trio.deploy import SessionLimits
from duplex_trio.protocol.dialects import Dialect, render
from duplex_trio.protocol.duplex import (
    DuplexEvent,
    SessionCreated,
    SessionReplaced,
    SessionResumed,
    SessionResyncRequired,
)
from duplex_trio.session.attachment import Attachment, ResumableAttachment
from duplex_trio.session.link import GONE, Link, Message
from duplex_trio.session.state.journal import EventJournal, EventNumbers
from duplex_trio.session.state.response import NewId

log = structlog.get_logger("duplex_trio.session")

StartTask = Callable[[Callable[[], Awaitable[None]], str], None]
"""Starts a named task among those of the session's egress."""


class Delivery:
    """Journal and attachments of one session.

    Args:
        session_id: of the session.
        attachment: the first consumer; there from the first event on.
        numbers: counts what is sent, and for a session that can be resumed is the journal that keeps it; None
            for a client that is shown no numbers.
        limits: how long a write may take.
        new_id: makes ids of events.
        on_lost: told that the client went away or, if true, stopped reading.
    """

    def __init__(
        self,
        session_id: str,
        attachment: Attachment,
        *,
        numbers: EventNumbers | None,
        limits: SessionLimits,
        new_id: NewId,
        on_lost: Callable[[bool], None],
    ) -> None:
        self.numbers = numbers
        self._session_id = session_id
        self._limits = limits
        self._new_id = new_id
        self._on_lost = on_lost
        self._link: Link | None = Link(attachment, limits.send_timeout_s)
        self._jobs: list[tuple[Callable[[], Awaitable[None]], str]] = []
        self._start: StartTask = lambda job, name: self._jobs.append((job, name))

    @property
    def journal(self) -> EventJournal | None:
        """What was sent and can be sent again; None for a session that cannot be resumed."""
        return self.numbers if isinstance(self.numbers, EventJournal) else None

    @property
    def attached(self) -> bool:
        """Whether somebody gets the events."""
        return self._link is not None

    def use(self, start: StartTask) -> None:
        """Start the tasks that attachments need with this; until then they wait."""
        self._start = start
        for job, name in self._jobs:
            start(job, name)
        self._jobs.clear()

    async def deliver(self, event: DuplexEvent) -> None:
        """Send an event that has left the lanes; waits while the client does not read.

        As often a checkpoint as the attachment's `send` is.
        """
        numbers = self.numbers
        if numbers is None or numbers.overflowed or isinstance(event, SessionCreated):
            await self._pass_on(event)
            return
        text = render(event, Dialect.DUPLEX, server_event_seq=numbers.next_seq)
        assert text is not None
        if numbers.record(text, trio.current_time()):
            await self._pass_on(text)
            return
        log.warning("session.journal_overflow", session_id=self._session_id)
        await self._pass_on(
            SessionResyncRequired(
                event_id=self._new_id("event_"), session_id=self._session_id, reason="journal_overflow"
            )
        )
        await self._pass_on(event)

    def resume(self, attachment: ResumableAttachment, hello: SessionResumed, missed: Sequence[bytes]) -> None:
        """Make a new consumer the session's; one that is still there is told, and gets nothing more."""
        old, link = self._link, Link(attachment, self._limits.send_timeout_s, missed)
        self._link = link
        if old is not None:
            assert isinstance(old.attachment, ResumableAttachment)
            replaced = SessionReplaced(
                event_id=self._new_id("event_"),
                session_id=self._session_id,
                attachment_generation=old.attachment.grant.attachment_generation,
            )
            self._part(old, replaced, 1000, "session_replaced")
        self._start(partial(self._catch_up, link, hello), "replay")

    def detach(self) -> None:
        """The consumer has gone; nothing more is written to it."""
        link, self._link = self._link, None
        if link is not None:
            link.stop()

    async def close(self, code: int, reason: str) -> None:
        """Say goodbye to whoever is attached, once it has got everything."""
        while self._link is not None and self._link.settled is not None and not self._link.live:
            await self._link.settled.wait()
        if self._link is not None:
            await self._link.attachment.close(code, reason)

    # ------------------------------------------------------------------ inner workings

    async def _pass_on(self, message: Message) -> None:
        link = self._link
        if link is not None and link.live:
            self._look_at(link, await link.send(message))
            return
        if link is not None:
            self._line_up(link, message)
        await trio.lowlevel.checkpoint()

    def _line_up(self, link: Link, message: Message) -> None:
        # What has no number comes behind an overflow: whoever is so far behind cannot be helped.
        if not isinstance(message, bytes) or link.missed_bytes > self._limits.journal_bytes_max:
            self._lose(link, "the client does not catch up")
        else:
            link.miss(message)

    async def _catch_up(self, link: Link, hello: SessionResumed) -> None:
        assert isinstance(link.attachment, ResumableAttachment)
        assert link.settled is not None
        try:
            if self._link is not link:
                return  # replaced before it had anything: what is to be said to it, its parting says
            self._look_at(link, await link.send(hello))
            while self._link is link and link.missed:
                self._look_at(link, await link.send(link.next_missed()))
            if self._link is link:
                link.attachment.caught_up()
        finally:
            link.settled.set()

    def _look_at(self, link: Link, problem: str | None) -> None:
        if problem is not None:
            self._lose(link, problem)

    def _lose(self, link: Link, why: str) -> None:
        if self._link is not link:
            return  # it was stopped because it is no longer the session's
        self._link = None
        log.info("session.client_lost", session_id=self._session_id, why=why)
        if self.journal is not None:
            self._part(link, None, 1008, "slow_reader")
        self._on_lost(why != GONE)

    def _part(self, link: Link, event: DuplexEvent | None, code: int, reason: str) -> None:
        link.stop()
        self._start(partial(link.part, event, code, reason), "parting")
