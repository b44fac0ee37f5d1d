"""How sessions end: by their client, by silence, by the server; what is said, and what is given back when."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.engine import SessionLimits
from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import (
    CloseSession,
    ConversationCreated,
    CreateItem,
    DuplexEvent,
    Heartbeat,
    InputTextPart,
    MessageItem,
    ResponseCreated,
    ResponseDone,
    ResponseOutputAudioDelta,
    SessionClosed,
    SessionExpired,
    SessionHeartbeatAck,
)
from duplex_trio.testing import (
    RecordingAttachment,
    Talker,
    finish,
    open_session,
    open_talker,
    scripted_omni,
)
from duplex_trio.testing.steps import acting_at
from duplex_trio.testing.watched import WatchedNativePipeline

LONG = "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima. " * 10
"""120 words, 36 seconds of sound."""


async def expired(talker: Talker) -> float:
    """Wait for the session to expire and return when it did."""
    event = await talker.heard.wait_for(SessionExpired, timeout_s=4000)
    assert event.reason == "idle_ttl_expired"
    assert await talker.heard.wait_closed() == (1000, "idle_ttl_expired")
    return talker.heard.times_s[talker.heard.events.index(event)]


async def test_an_idle_session_expires(autojump_clock: MockClock) -> None:
    """300 s after its last sign of life, with `session.expired` as its last event."""
    async with open_session() as talker:
        opened_s = trio.current_time()
        assert await expired(talker) - opened_s == pytest.approx(300, abs=0.1)


async def test_a_heartbeat_keeps_a_session_alive(autojump_clock: MockClock) -> None:
    """Each is acknowledged and starts the time anew."""
    async with open_session() as talker:
        for _ in range(5):
            await trio.sleep(200)
            talker.send(Heartbeat())
        beaten_s = trio.current_time()
        assert await expired(talker) - beaten_s == pytest.approx(300, abs=0.1)
        assert len(talker.heard.of(SessionHeartbeatAck)) == 5


async def test_sound_keeps_a_session_alive(autojump_clock: MockClock) -> None:
    """Also silence: an open microphone is a sign of life."""
    async with open_session() as talker:
        for _ in range(10):
            await trio.sleep(100)
            talker.append(20, loud=False)
        spoken_s = trio.current_time()
        assert await expired(talker) - spoken_s == pytest.approx(300, abs=0.1)


async def test_an_answer_in_progress_keeps_a_session_alive(autojump_clock: MockClock) -> None:
    """36 seconds of speech are spoken to the end; the ten allowed seconds run from there."""
    script, limits = Script(otherwise=lambda _: LONG), SessionLimits(idle_ttl_s=10.0)
    async with open_session(script, limits=limits) as talker:
        talker.write("go")
        done = await talker.heard.nth(ResponseDone, 1, timeout_s=1000)
        assert done.response.status == "completed"
        done_s = talker.heard.times_s[talker.heard.events.index(done)]
        assert done_s > 30
        assert await expired(talker) - done_s == pytest.approx(10, abs=0.1)


async def test_some_commands_are_no_sign_of_life(autojump_clock: MockClock) -> None:
    """An item put into the conversation does not keep the session alive."""
    async with open_session() as talker:
        opened_s = trio.current_time()
        await trio.sleep(200)
        talker.send(CreateItem(item=MessageItem(role="user", content=(InputTextPart("x"),))))
        assert await expired(talker) - opened_s == pytest.approx(300, abs=0.1)


async def test_a_session_may_live_for_ever(autojump_clock: MockClock) -> None:
    """Without an idle time it is still there after a day."""
    async with open_session(limits=SessionLimits(idle_ttl_s=None)) as talker:
        await trio.sleep(86_400)
        talker.write("hi")
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"


async def test_a_client_closes_its_session(autojump_clock: MockClock) -> None:
    """Its response is cancelled first, then the terminal event with its reason, then a normal close."""
    async with scripted_omni(Script(otherwise=lambda _: LONG)) as omni:
        talker = await open_talker(omni)
        talker.write("go")
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        talker.send(CloseSession(reason="bye"))
        assert await talker.heard.wait_closed() == (1000, "bye")
        (done,) = talker.heard.of(ResponseDone)
        assert done.response.status == "cancelled"
        (closed,) = talker.heard.of(SessionClosed)
        assert (closed.reason, talker.heard.events[-1]) == ("bye", closed)
        await finish(omni, talker)


async def test_closing_twice_is_closing_once(autojump_clock: MockClock) -> None:
    """The first reason stands; there is one terminal event."""
    async with scripted_omni() as omni:
        talker = await open_talker(omni)
        talker.send(CloseSession(reason="first"), CloseSession(reason="second"))
        talker.handle.close("third", code=1001)
        talker.handle.disconnected()
        assert (await talker.handle.wait_closed()).reason == "first"
        assert omni.statistics().sessions == 0


async def test_the_server_stops(autojump_clock: MockClock) -> None:
    """Cancelled as a whole, each session still cancels its response, says goodbye, and closes with 1001."""
    talkers = []
    async with scripted_omni(Script(otherwise=lambda _: LONG)) as omni:
        for _ in range(3):
            talkers.append(await open_talker(omni))
            talkers[-1].write("go")
        for talker in talkers:
            await talker.heard.nth(ResponseOutputAudioDelta, 2)
    for talker in talkers:
        assert talker.heard.closed == (1001, "server_shutdown")
        assert talker.heard.of(ResponseDone)[0].response.status == "cancelled"
        assert isinstance(talker.heard.events[-1], SessionClosed)
        assert (await talker.handle.wait_closed()).code == 1001
    assert omni.statistics().live_requests == 0


async def test_the_server_stops_though_a_client_does_not_read(autojump_clock: MockClock) -> None:
    """A stuck client holds the shutdown up for seconds, not for ever."""
    async with scripted_omni() as omni:
        talker = await open_talker(omni)
        talker.heard.stalled = True
        talker.send(Heartbeat())
        await trio.sleep(0.1)
        stopped_s = trio.current_time()
    assert trio.current_time() - stopped_s <= 10


async def test_a_response_is_done_before_its_session_is(autojump_clock: MockClock) -> None:
    """Whenever the session ends during a response, that response has its one `response.done`."""
    for wait_s in (0.0, 0.01, 0.02, 0.05, 0.1, 0.3, 1.0):
        async with scripted_omni() as omni:
            talker = await open_talker(omni)
            talker.write("hi there")
            await trio.sleep(wait_s)
            talker.handle.close("over")
            await finish(omni, talker)
            assert len(talker.heard.of(ResponseDone)) == len(talker.heard.of(ResponseCreated))


class _Leisurely(RecordingAttachment):
    """Takes its time over each event."""

    async def send(self, event: DuplexEvent) -> None:
        await trio.sleep(0.3)
        await super().send(event)


@pytest.mark.parametrize("step", [1, 4, 8, 16, 24])
async def test_a_session_that_says_goodbye_asks_the_model_nothing_more(
    autojump_clock: MockClock, step: int
) -> None:
    """Sound that waits stays where it is, however long the client takes over the last events."""
    model = WatchedNativePipeline()
    async with scripted_omni(pipeline=model) as omni:
        attachment = _Leisurely()
        handle = await omni.open_session(dialect="duplex", attachment=attachment)
        await attachment.wait_for(ConversationCreated)
        talker = Talker(handle, attachment)
        begun = -1

        def close() -> None:
            nonlocal begun
            begun = len(model.plugin.epochs)
            handle.close("over")

        with acting_at(step, close):
            talker.append(4100, loud=True)
            await trio.sleep(1.0)
        await handle.wait_closed()
        assert len(model.plugin.epochs) == begun
