"""A session outlives its connection: lost, detached, taken over, attached anew; nothing lost, nothing twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.deploy import SessionLimits
from duplex_trio.engine import JournalGapError
from duplex_trio.entrypoints.duplex_omni import DuplexOmni, ResumeGrant
from duplex_trio.models.scripted.native import NativePipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import (
    DuplexEvent,
    Heartbeat,
    RealtimeError,
    ResponseDone,
    ResponseOutputAudioDelta,
    SessionClosed,
    SessionCreated,
    SessionExpired,
    SessionHeartbeatAck,
    SessionReplaced,
    SessionResumed,
    SessionResyncRequired,
)
from duplex_trio.testing import (
    ResumableRecorder,
    ReturningTalker,
    Talker,
    essence,
    finish,
    open_returning,
    open_talker,
    scripted_omni,
)

LONG = "alpha bravo charlie delta echo foxtrot golf hotel. " * 5
"""40 words, 12 seconds of sound."""


def script() -> Script:
    return Script(replies={"go": LONG}, otherwise=lambda _: "ok")


@asynccontextmanager
async def resumable(
    reply: Script | None = None, **engine: Any
) -> AsyncIterator[tuple[DuplexOmni, ReturningTalker]]:
    """One session that can be resumed; it must have kept the rules and left nothing behind."""
    async with scripted_omni(reply or script(), **engine) as omni:
        talker = await open_returning(omni)
        yield omni, talker
        await finish(omni, talker)


async def undisturbed() -> list[tuple[Any, ...]]:
    """The essence of an answer that nothing happens to."""
    async with resumable() as (_, talker):
        talker.write("go")
        await talker.heard.nth(ResponseDone, 1)
        await trio.sleep(5)
        return essence(talker.events)


async def answered(talker: ReturningTalker) -> None:
    """Wait until the answer is complete, over whichever connection, and everything behind it."""
    await talker.wait_done()
    await trio.sleep(5)


# ------------------------------------------------------------------ lost and back


async def test_events_have_numbers_from_the_first_on(autojump_clock: MockClock) -> None:
    """All but `session.created`, which says how to come back."""
    async with resumable() as (_, talker):
        talker.write("hi")
        await talker.heard.nth(ResponseDone, 1)
        (created,) = talker.heard.of(SessionCreated)
        assert (created.attachment_generation, created.resume_token) == (1, "token 1")
        assert talker.gapless
        assert len(talker.heard.seqs) == len(talker.heard.events) - 1


@pytest.mark.parametrize("away_s", [0.0, 0.05, 2.0, 25.0])
@pytest.mark.parametrize("lost_s", [0.0, 0.1, 0.35, 3.0])
async def test_a_connection_is_lost_in_an_answer(
    autojump_clock: MockClock, lost_s: float, away_s: float
) -> None:
    """Both halves together are what an undisturbed client hears, and each event has come once."""
    async with resumable() as (_, talker):
        talker.write("go")
        await trio.sleep(lost_s)
        talker.lose()
        assert not talker.handle.attached
        await trio.sleep(away_s)
        again = talker.resume()
        await answered(talker)
        resumed = again.events[0]
        assert isinstance(resumed, SessionResumed)
        assert (resumed.attachment_generation, resumed.resume_token) == (2, "token 2")
        assert resumed.session["id"] == resumed.session_id == talker.handle.session_id
        assert again.live
        assert talker.gapless
        assert talker.handle.counters.lease_resumes == 1
        assert essence(talker.events) == await undisturbed()


async def test_what_nobody_hears_is_paced_like_playback(autojump_clock: MockClock) -> None:
    """An answer that is given to nobody lasts as long as its sound, so that it can still be interrupted."""
    async with resumable() as (_, talker):
        talker.write("go")
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        talker.lose()
        await trio.sleep(3)
        again = talker.resume()
        await again.wait_live()
        sent_s = sum(
            len(event.delta) for event in talker.events if isinstance(event, ResponseOutputAudioDelta)
        )
        assert 2.9 < sent_s / 48_000 < 4.0


async def test_a_command_is_answered_while_nobody_is_there(autojump_clock: MockClock) -> None:
    """What was asked before the connection broke is replayed with the rest."""
    async with resumable() as (_, talker):
        talker.lose()
        talker.send(*[Heartbeat() for _ in range(200)])
        await trio.sleep(1)
        talker.send(Heartbeat())
        await trio.sleep(1)
        again = talker.resume()
        await again.wait_live()
        assert again.of(SessionHeartbeatAck)
        assert talker.gapless


async def test_a_client_comes_back_many_times(autojump_clock: MockClock) -> None:
    async with resumable() as (_, talker):
        talker.write("go")
        for _ in range(20):
            await trio.sleep(0.3)
            talker.lose()
            await trio.sleep(0.2)
            talker.resume()
        await answered(talker)
        assert talker.gapless
        assert essence(talker.events) == await undisturbed()


async def test_a_reader_that_reports_late_changes_nothing(autojump_clock: MockClock) -> None:
    """Neither the loss of a connection that was replaced, nor one that was noticed before."""
    async with resumable() as (_, talker):
        old = talker.handle.generation
        talker.resume()
        talker.handle.disconnected(old)
        assert talker.handle.attached
        await talker.heard.wait_for(SessionResumed)
        talker.lose()
        detached_s = talker.handle._core.state.lease.detached_at_s
        await trio.sleep(5)
        talker.handle.disconnected(old + 1)
        assert talker.handle._core.state.lease.detached_at_s == detached_s
        talker.resume()
        await trio.sleep(100)
        assert talker.handle.attached


async def test_a_model_that_owns_its_turns_goes_on_alone(autojump_clock: MockClock) -> None:
    """It hears nothing, speaks on, and nothing of what it says is lost."""
    async with scripted_omni(pipeline=NativePipeline(answer="one two three four five")) as omni:
        talker = await open_returning(omni)
        for number in range(16):
            talker.append(250, loud=number < 6)
            await trio.sleep(0.25)
        talker.lose()
        await trio.sleep(20)
        talker.resume()
        await answered(talker)
        assert talker.gapless
        await finish(omni, talker)


# ------------------------------------------------------------------ who wins


async def test_a_healthy_connection_is_taken_over(autojump_clock: MockClock) -> None:
    """The old one is told and closed, gets nothing more, and the new one has the rest."""
    async with resumable() as (_, talker):
        talker.write("go")
        await talker.heard.nth(ResponseOutputAudioDelta, 5)
        old, new = talker.heard, talker.resume()
        await answered(talker)
        assert old.closed == (1000, "session_replaced")
        (replaced,) = old.of(SessionReplaced)
        assert (replaced.attachment_generation, old.events[-1]) == (1, replaced)
        assert new.of(ResponseDone)
        assert talker.gapless
        assert essence(talker.events) == await undisturbed()


async def test_a_stuck_connection_is_taken_over(autojump_clock: MockClock) -> None:
    """The write that is under way is given up at once; nobody waits for the old one."""
    async with resumable() as (_, talker):
        talker.write("go")
        await talker.heard.nth(ResponseOutputAudioDelta, 5)
        talker.heard.stalled = True
        await trio.sleep(1)
        new, taken_s = talker.resume(), trio.current_time()
        await new.wait_for(ResponseOutputAudioDelta)
        assert trio.current_time() == taken_s
        await answered(talker)
        assert talker.gapless


class _Careful(ResumableRecorder):
    """Takes its time, and notes when it is written to twice at a time."""

    writing = 0
    overlapped = False

    async def send(self, event: DuplexEvent) -> None:
        self.overlapped |= self.writing > 0
        self.writing += 1
        await trio.sleep(0.01)
        await super().send(event)
        self.writing -= 1


async def test_a_client_that_was_replaced_before_it_had_anything(autojump_clock: MockClock) -> None:
    """It is told so and nothing else, whichever of its tasks comes first."""
    for _ in range(8):  # the order is Trio's choice
        async with resumable() as (_, talker):
            short, new = _Careful(2), ResumableRecorder(3)
            talker.resume(short)
            talker.resume(new)
            await new.wait_live()
            await short.wait_closed()
            assert short.types == ["session.replaced"]
            assert not short.overlapped


async def test_of_two_who_know_the_same_one_wins(autojump_clock: MockClock) -> None:
    """Compare and swap: the loser is refused and changes nothing."""
    async with resumable() as (omni, talker):
        talker.lose()
        winner, loser = ResumableRecorder(2), ResumableRecorder(2)
        arguments = {"expected_generation": 0, "last_seq": talker.heard.last_seq}
        session_id = talker.handle.session_id
        assert omni.resume_session(session_id, attachment=winner, control_id="a", **arguments) == 1
        with pytest.raises(RealtimeError) as caught:
            omni.resume_session(session_id, attachment=loser, control_id="b", **arguments)
        assert caught.value.code == "session_resume_conflict"
        talker.send(Heartbeat())
        await winner.wait_for(SessionHeartbeatAck)
        assert loser.events == []
        assert talker.handle.generation == 1
        talker.connections.append(winner)
        talker.heard = winner


async def test_asking_again_is_answered_the_same(autojump_clock: MockClock) -> None:
    """A replay of the control id that made the current attachment changes nothing, even with other arguments."""
    async with resumable() as (omni, talker):
        new = talker.resume()
        await new.wait_live()
        count = len(new.events)
        session_id = talker.handle.session_id
        again = ResumableRecorder(3)
        for expected, last_seq in ((0, 0), (1, 10_000)):
            answer = omni.resume_session(
                session_id,
                attachment=again,
                expected_generation=expected,
                control_id="resume 1",
                last_seq=last_seq,
            )
            assert answer == 1
        await trio.sleep(1)
        assert (len(new.events), again.events) == (count, [])
        assert talker.handle.counters.lease_resumes == 1


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"last_seq": 10_000}, "session_resume_conflict"),
        ({"expected_generation": 5}, "session_resume_conflict"),
    ],
)
async def test_a_refused_resume_changes_nothing(
    autojump_clock: MockClock, arguments: dict[str, Any], code: str
) -> None:
    """The owner goes on, and no time to come back is used up."""
    async with resumable() as (omni, talker):
        asked = {"expected_generation": 0, "control_id": "x", "last_seq": 1, **arguments}
        with pytest.raises(RealtimeError) as caught:
            omni.resume_session(talker.handle.session_id, attachment=ResumableRecorder(2), **asked)
        assert caught.value.code == code
        talker.send(Heartbeat())
        await talker.heard.wait_for(SessionHeartbeatAck)
        assert (talker.handle.generation, talker.handle.attached) == (0, True)


async def test_a_session_without_a_journal_is_not_resumed(autojump_clock: MockClock) -> None:
    """A consumer that cannot be replaced costs no journal; neither does another dialect."""
    async with scripted_omni() as omni:
        plain = await open_talker(omni)
        recorder = ResumableRecorder()
        ga = Talker(await omni.open_session(dialect="ga", attachment=recorder), recorder)
        for talker in (plain, ga):
            assert not talker.handle.resumable
            for ask in (
                talker.handle.detach,
                lambda handle=talker.handle: handle.resume(
                    ResumableRecorder(2), expected_generation=0, control_id="x", last_seq=0
                ),
            ):
                with pytest.raises(RealtimeError) as caught:
                    ask()
                assert caught.value.code == "unsupported_session_resume"
            talker.handle.ack_events(0)
            with pytest.raises(RealtimeError) as caught:
                talker.handle.ack_events(1)
            assert caught.value.code == "invalid_event_ack"
        assert recorder.seqs == []
        assert (await recorder.wait_for(SessionCreated)).resume_token is None
        plain.handle.disconnected(0)
        assert (await plain.handle.wait_closed()).reason == "disconnect"
        ga.handle.close("over")
        await ga.handle.wait_closed()


# ------------------------------------------------------------------ the journal's ends


async def test_acknowledged_events_are_not_sent_again(autojump_clock: MockClock) -> None:
    """Who comes back with less than it acknowledged must begin anew."""
    async with resumable() as (_, talker):
        talker.write("hi")
        await talker.heard.nth(ResponseDone, 1)
        await trio.sleep(1)
        talker.handle.ack_events(talker.heard.last_seq)
        assert talker.handle._core.delivery.journal.size_bytes == 0
        talker.heard.last_seq -= 1
        with pytest.raises(JournalGapError):
            talker.resume()
        talker.heard.last_seq += 1
        await talker.resume().wait_live()


async def test_events_that_are_too_old_are_missed(autojump_clock: MockClock) -> None:
    """A client that was gone for longer than events are kept is told that there is a gap."""
    limits = SessionLimits(journal_ttl_s=5.0)
    async with resumable(limits=limits) as (_, talker):
        talker.lose()
        talker.send(Heartbeat())
        await trio.sleep(6)
        with pytest.raises(JournalGapError):
            talker.resume()


async def test_a_full_journal_is_told_once(autojump_clock: MockClock) -> None:
    """From then on events have no number, the session goes on, and nobody can come back to it."""
    limits = SessionLimits(journal_bytes_max=20_000)
    async with resumable(limits=limits) as (_, talker):
        talker.write("go")
        await answered(talker)
        (told,) = talker.heard.of(SessionResyncRequired)
        assert told.reason == "journal_overflow"
        position = talker.heard.events.index(told)
        assert len(talker.heard.seqs) == position - 1  # without session.created
        talker.handle.ack_events(talker.heard.last_seq)
        with pytest.raises(JournalGapError):
            talker.resume()
        talker.heard.events.remove(told)
        assert essence(talker.events) == await undisturbed()


async def test_a_journal_overflows_while_nobody_is_there(autojump_clock: MockClock) -> None:
    """The session still runs its grace; whoever comes is told of the gap."""
    limits = SessionLimits(journal_bytes_max=20_000)
    async with resumable(limits=limits) as (_, talker):
        talker.write("go")
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        talker.lose()
        await trio.sleep(5)
        with pytest.raises(JournalGapError):
            talker.resume()
        assert (await talker.handle.wait_closed()).reason == "disconnect_grace_expired"


async def test_a_client_that_comes_back_too_slowly_is_let_go(autojump_clock: MockClock) -> None:
    """Slower than the session speaks: what waits for it is bounded, and it may come back once more."""
    limits = SessionLimits(journal_bytes_max=300_000, journal_ttl_s=3.0)
    async with resumable(limits=limits) as (_, talker):
        talker.write("go")
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        talker.lose()
        slow = _Slow(2)
        talker.resume(slow)
        with trio.fail_after(40):
            await slow.wait_closed()
        assert not talker.handle.attached
        assert talker.gapless
        talker.heard.broken = True


class _Slow(ResumableRecorder):
    async def send(self, event: DuplexEvent) -> None:
        await trio.sleep(1.0)
        await super().send(event)


# ------------------------------------------------------------------ how long it waits


@pytest.mark.parametrize(("away_s", "back"), [(29.0, True), (31.0, False)])
async def test_a_session_waits_for_its_grace(autojump_clock: MockClock, away_s: float, back: bool) -> None:
    """30 s after it was left it expires; nobody hears of it, and it is over."""
    async with resumable() as (omni, talker):
        talker.lose()
        await trio.sleep(away_s)
        if back:
            await talker.resume().wait_live()
            await trio.sleep(60)
            assert talker.handle.attached
        else:
            end = await talker.handle.wait_closed()
            assert (end.reason, end.expired) == ("disconnect_grace_expired", True)
            assert omni.statistics().sessions == 0
            assert talker.handle.counters.lease_expiries == 1
            with pytest.raises(RealtimeError) as caught:
                talker.resume()
            assert caught.value.code == "session_closed"


async def test_an_answer_does_not_prolong_the_grace(autojump_clock: MockClock) -> None:
    """The session works on while it waits, but not for longer."""
    async with resumable(Script(otherwise=lambda _: LONG * 10)) as (_, talker):
        talker.write("go")
        await trio.sleep(1)
        talker.lose()
        lost_s = trio.current_time()
        assert (await talker.handle.wait_closed()).reason == "disconnect_grace_expired"
        assert trio.current_time() - lost_s == pytest.approx(30, abs=0.1)


async def test_an_attached_session_expires_idle_as_ever(autojump_clock: MockClock) -> None:
    """After a resume the idle time runs anew, and its client hears of the end."""
    async with resumable() as (_, talker):
        talker.lose()
        await trio.sleep(10)
        talker.resume()
        resumed_s = trio.current_time()
        await talker.heard.wait_for(SessionExpired, timeout_s=1000)
        assert trio.current_time() - resumed_s == pytest.approx(300, abs=0.1)
        assert (await talker.heard.wait_closed()) == (1000, "idle_ttl_expired")


async def test_a_touch_keeps_a_session_alive(autojump_clock: MockClock) -> None:
    async with resumable() as (omni, talker):
        for _ in range(3):
            await trio.sleep(200)
            omni.touch_session(talker.handle.session_id)
        assert not talker.handle.closing


async def test_a_consumer_may_leave_by_itself(autojump_clock: MockClock) -> None:
    """Detached through the engine, it gets nothing more until it comes back; a stale generation is refused."""
    async with resumable() as (omni, talker):
        with pytest.raises(RealtimeError) as caught:
            omni.detach_session(talker.handle.session_id, 7)
        assert caught.value.code == "session_resume_conflict"
        omni.detach_session(talker.handle.session_id, 0)
        count = len(talker.heard.events)
        talker.send(Heartbeat())
        await trio.sleep(1)
        assert len(talker.heard.events) == count
        await talker.resume().wait_for(SessionHeartbeatAck)
        assert talker.gapless


# ------------------------------------------------------------------ ends


async def test_a_session_is_closed_while_nobody_is_there(autojump_clock: MockClock) -> None:
    async with resumable() as (omni, talker):
        talker.write("go")
        await trio.sleep(1)
        talker.lose()
        omni.close_session(talker.handle.session_id)
        closed_s = trio.current_time()
        assert (await talker.handle.wait_closed()).reason == "closed"
        assert trio.current_time() == closed_s


async def test_the_server_stops_while_nobody_is_there(autojump_clock: MockClock) -> None:
    """Nobody is waited for."""
    async with scripted_omni(script()) as omni:
        talker = await open_returning(omni)
        talker.write("go")
        await trio.sleep(1)
        talker.lose()
        await trio.sleep(1)
        stopped_s = trio.current_time()
    assert trio.current_time() == stopped_s
    assert (await talker.handle.wait_closed()).reason == "server_shutdown"
    assert omni.statistics().live_requests == 0


async def test_a_session_ends_in_the_middle_of_a_replay(autojump_clock: MockClock) -> None:
    """The replay comes first, then the goodbye, then the close."""
    async with resumable() as (_, talker):
        talker.write("go")
        await trio.sleep(1)
        talker.lose()
        await trio.sleep(20)
        again = talker.resume()
        talker.handle.close("over")
        assert await again.wait_closed() == (1000, "over")
        assert isinstance(again.events[-1], SessionClosed)
        assert talker.gapless


async def test_a_replay_that_nobody_reads_does_not_hold_up_the_end(autojump_clock: MockClock) -> None:
    async with resumable() as (_, talker):
        talker.lose()
        again = talker.resume()
        again.stalled = True
        talker.handle.close("over")
        with trio.fail_after(10):
            await talker.handle.wait_closed()


# ------------------------------------------------------------------ slow readers and neighbours


async def test_a_client_that_stops_reading_may_come_back(autojump_clock: MockClock) -> None:
    """After 5 s it is let go, what it has not read is kept, and it is told over the old connection if it can be."""
    async with resumable() as (_, talker):
        talker.write("go")
        await talker.heard.nth(ResponseOutputAudioDelta, 3)
        old = talker.heard
        old.stalled = True
        stalled_s = trio.current_time()
        with trio.fail_after(20):
            assert await old.wait_closed() == (1008, "slow_reader")
        assert trio.current_time() - stalled_s == pytest.approx(5, abs=0.5)
        assert not talker.handle.attached
        await trio.sleep(3)
        talker.resume()
        await answered(talker)
        assert talker.gapless
        assert essence(talker.events) == await undisturbed()


async def test_a_slow_replay_overtakes_nothing_and_holds_nobody_up(autojump_clock: MockClock) -> None:
    """While the new client reads what it missed the answer goes on at its own pace, and nothing is out of order."""
    async with resumable() as (_, talker):
        talker.write("go")
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        talker.lose()
        await trio.sleep(4)
        again = talker.resume()
        again.stalled = True
        await trio.sleep(3)
        queue = talker.handle._core.egress.queue
        assert (queue.control_waiting, queue.media_ms < 2_300) == (0, True)
        journal = talker.handle._core.delivery.journal
        assert journal is not None
        head = journal.head
        await trio.sleep(1)
        assert journal.head > head
        talker.lose()
        talker.resume()
        await answered(talker)
        assert talker.gapless
        assert essence(talker.events) == await undisturbed()


async def test_a_detached_session_slows_nobody(autojump_clock: MockClock) -> None:
    """Others hear their answers without a pause while one is away, comes back and is replayed."""
    async with scripted_omni(script(), max_sessions=5) as omni:
        away, *others = [await open_returning(omni) for _ in range(5)]
        for talker in (away, *others):
            talker.write("go")
        await away.heard.nth(ResponseOutputAudioDelta, 1)
        away.lose()
        await trio.sleep(5)
        away.resume().stalled = True
        await trio.sleep(2)
        away.lose()
        away.resume()
        for talker in others:
            await talker.heard.nth(ResponseDone, 1)
            times = [
                at_s
                for at_s, event in zip(talker.heard.times_s, talker.heard.events, strict=True)
                if isinstance(event, ResponseOutputAudioDelta)
            ]
            assert max(later - earlier for earlier, later in pairwise(times)) <= 0.15
        await answered(away)
        assert away.gapless
        await finish(omni, away, *others)


class _Unwritable(ResumableRecorder):
    """A client whose goodbye cannot be rendered."""

    async def close(self, code: int, reason: str) -> None:
        raise TypeError("cannot render")


async def test_a_replaced_client_that_cannot_be_written_to(
    autojump_clock: MockClock, faults_expected: None
) -> None:
    """A fault in parting from an old connection does not reach the session."""
    async with scripted_omni() as omni:
        broken = _Unwritable()
        talker = ReturningTalker(await omni.open_session(dialect="duplex", attachment=broken), broken)
        await broken.wait_for(SessionCreated)
        await trio.sleep(1)
        await talker.resume().wait_live()
        talker.write("hi")
        await talker.heard.nth(ResponseDone, 1)
        await finish(omni, talker)


class _Nameless(ResumableRecorder):
    """A consumer that breaks when it is asked who it is."""

    @property
    def grant(self) -> ResumeGrant:
        raise TypeError("no name")


async def test_a_consumer_that_breaks_as_it_attaches_changes_nothing(autojump_clock: MockClock) -> None:
    """The session goes on waiting for one that works, and for its grace."""
    async with resumable(limits=SessionLimits(disconnect_grace_s=30)) as (_, talker):
        talker.lose()
        gone_s = trio.current_time()
        await trio.sleep(10)
        with pytest.raises(TypeError):
            talker.resume(_Nameless(2))
        assert (talker.handle.generation, talker.handle.attached) == (0, False)
        await talker.handle.wait_closed()
        assert trio.current_time() - gone_s == pytest.approx(30, abs=0.1)
