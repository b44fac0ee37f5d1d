"""Everything that can pile up is bounded: unread events, waiting commands, uncommitted sound, the conversation."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.engine import SessionLimits
from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import (
    CancelResponse,
    Commit,
    ConversationItemDone,
    ConversationItemInputAudioTranscriptionCompleted,
    CreateItem,
    DuplexEvent,
    ErrorEvent,
    Heartbeat,
    InputTextPart,
    MessageItem,
    ResponseDone,
    ResponseOutputAudioDelta,
    RetrieveItem,
    SessionClosed,
)
from duplex_trio.testing import RecordingAttachment, Talker, finish, open_session, open_talker, scripted_omni

TEN_MINUTES = "alpha bravo charlie delta echo. " * 400
"""2000 words, ten minutes of sound."""
UNLIMITED = {"max_output_tokens": 4096}


def message(number: int) -> CreateItem:
    return CreateItem(item=MessageItem(id=f"m{number}", role="user", content=(InputTextPart(str(number)),)))


async def test_a_client_that_stops_reading_ends(autojump_clock: MockClock) -> None:
    """Within 30 s the session is over; its answer was not computed far ahead; the others never noticed."""
    script = Script(replies={"go": TEN_MINUTES}, words_per_step=5)
    async with scripted_omni(script) as omni:
        stuck, *others = [await open_talker(omni, patch=UNLIMITED) for _ in range(5)]
        stuck.write("go")
        await stuck.heard.nth(ResponseOutputAudioDelta, 1)
        stuck.heard.stalled = True
        stalled_s = trio.current_time()
        for talker in others:
            talker.write("alpha bravo charlie")
        with trio.fail_after(30):
            end = await stuck.handle.wait_closed()
        assert (end.reason, end.code) == ("slow_reader", 1008)
        assert trio.current_time() - stalled_s <= 30
        assert omni.statistics().sessions == 4
        for talker in others:
            assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"
            times = [
                at_s
                for at_s, event in zip(talker.heard.times_s, talker.heard.events, strict=True)
                if isinstance(event, ResponseOutputAudioDelta)
            ]
            assert max(later - earlier for earlier, later in pairwise(times)) <= 0.15
        await finish(omni, stuck, *others)


async def test_what_a_client_does_not_read_is_not_made(autojump_clock: MockClock) -> None:
    """Sound waits up to a bound, then the voice waits too: the clauses beyond its window are never spoken."""
    script = Script(replies={"go": TEN_MINUTES}, words_per_step=50)
    async with scripted_omni(script) as omni:
        talker = await open_talker(omni, patch=UNLIMITED)
        talker.write("go")
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        talker.heard.stalled = True
        peak_ms = peak_bytes = 0.0
        for _ in range(40):
            await trio.sleep(0.1)
            queue = talker.handle._core.egress.queue
            peak_ms, peak_bytes = max(peak_ms, queue.media_ms), max(peak_bytes, queue.media_bytes)
        clause_ms = 5 * 300
        assert peak_ms <= 2_000 + clause_ms
        assert peak_bytes <= 512 * 1024
        spoken = next(stage.outputs_total for stage in omni.statistics().stages if stage.name == "tts")
        assert spoken <= 8
        await talker.handle.wait_closed()
        await finish(omni, talker)


async def test_sound_runs_ahead_by_little(autojump_clock: MockClock) -> None:
    """Though the whole answer is ready, no more leaves than a player needs: what has left cannot be taken back."""
    script = Script(replies={"go": "alpha bravo charlie delta echo foxtrot golf hotel"}, words_per_step=50)
    limits = SessionLimits(media_lead_ms=300.0)
    async with open_session(script, limits=limits) as talker:
        talker.write("go")
        await talker.heard.nth(ResponseDone, 1)
        start_s, sent_ms = None, 0
        for at_s, event in zip(talker.heard.times_s, talker.heard.events, strict=True):
            if not isinstance(event, ResponseOutputAudioDelta):
                continue
            start_s = at_s if start_s is None else start_s
            assert sent_ms - (at_s - start_s) * 1000 <= 301
            sent_ms += len(event.delta) // 48
        assert sent_ms == 8 * 300


class _Slow(RecordingAttachment):
    """A client that takes a while for each event."""

    async def send(self, event: DuplexEvent) -> None:
        await trio.sleep(0.5)
        await super().send(event)


async def test_a_slow_client_that_asks_too_much_is_let_go(autojump_clock: MockClock) -> None:
    """More events than may wait: the session ends with 1008 and says so last, in bounded memory."""
    async with scripted_omni() as omni:
        attachment = _Slow()
        handle = await omni.open_session(dialect="duplex", attachment=attachment)
        talker = Talker(handle, attachment)
        for _ in range(300):
            talker.send(Heartbeat())
        assert len(handle._core.egress.queue) <= 256 + 1
        end = await handle.wait_closed()
        assert (end.reason, end.code) == ("slow_reader", 1008)


async def test_too_many_commands_at_once_are_refused(autojump_clock: MockClock) -> None:
    """The 64 that fit are carried out, the rest are refused by name, and the session is as usable as before."""
    async with open_session() as talker:
        for number in range(80):
            talker.send(message(number))
        await trio.sleep(1)
        done = talker.heard.of(ConversationItemDone)
        errors = talker.heard.of(ErrorEvent)
        assert len(done) + len(errors) == 80
        assert len(done) >= 64
        assert {(event.error.code, event.error.type) for event in errors} == {
            ("input_backpressure", "rate_limit_error")
        }
        talker.write("hi")
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "completed"


async def test_a_cancel_is_never_refused_for_want_of_room(autojump_clock: MockClock) -> None:
    """Behind a full line of commands a cancel still acts at once."""
    async with open_session(Script(otherwise=lambda _: TEN_MINUTES)) as talker:
        talker.write("go")
        await talker.heard.nth(ResponseOutputAudioDelta, 1)
        for number in range(80):
            talker.send(message(number))
        talker.send(CancelResponse())
        begun_s = trio.current_time()
        assert (await talker.heard.nth(ResponseDone, 1)).response.status == "cancelled"
        assert trio.current_time() == begun_s


async def test_a_reader_that_waits_has_nothing_refused(autojump_clock: MockClock) -> None:
    """A client that brings back a long conversation in one burst is read as fast as it is answered."""
    async with open_session(Script(otherwise=lambda _: "ok")) as talker:
        for number in range(150):
            await talker.handle.ready()
            talker.send(message(number), RetrieveItem(item_id=f"m{number}"))
        await talker.heard.nth(ConversationItemDone, 150)
        assert not talker.heard.of(ErrorEvent)
        talker.write("hi")
        await talker.heard.nth(ResponseDone, 1)


async def test_a_waiting_reader_is_let_go_at_the_end(autojump_clock: MockClock) -> None:
    """A session that ends, for whatever reason, leaves no reader waiting for room."""
    async with scripted_omni() as omni:
        attachment = _Slow()
        handle = await omni.open_session(dialect="duplex", attachment=attachment)
        for _ in range(100):
            handle.submit(Heartbeat())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(handle.ready)
            await trio.sleep(0.1)
            assert nursery.child_tasks
            handle.close("over")
        await handle.wait_closed()


async def test_uncommitted_sound_is_bounded(autojump_clock: MockClock) -> None:
    """Beyond the bound appends are refused and dropped; what was kept can be committed, and then there is room."""
    limits = SessionLimits(pending_input_bytes_max=4 * 16_000)  # one second
    async with open_session(patch={"turn_detection": None}, limits=limits) as talker:
        for _ in range(15):
            talker.append(100, loud=True)
        errors = talker.heard.of
        await trio.sleep(0.1)
        assert {event.error.code for event in errors(ErrorEvent)} == {"input_backpressure"}
        assert {event.error.param for event in errors(ErrorEvent)} == {"audio"}
        talker.send(Commit())
        completed = await talker.heard.nth(ConversationItemInputAudioTranscriptionCompleted, 1)
        assert completed.transcript == "sound of 1.0 seconds"
        refused = len(talker.heard.of(ErrorEvent))
        talker.append(900, loud=True)
        talker.send(Commit())
        await talker.heard.nth(ConversationItemInputAudioTranscriptionCompleted, 2)
        assert len(talker.heard.of(ErrorEvent)) == refused


async def test_silence_does_not_fill_the_buffer(autojump_clock: MockClock) -> None:
    """With detection on, a microphone left open for minutes costs a few seconds of sound and is never refused."""
    limits = SessionLimits(pending_input_bytes_max=4 * 16_000 * 6)  # six seconds
    async with open_session(limits=limits) as talker:
        for _ in range(60):
            talker.append(1000, loud=False)
            await trio.sleep(1)
        assert not talker.heard.of(ErrorEvent)
        assert talker.handle._core.state.timeline.held_bytes < 4 * 16_000 * 4
        await talker.turn()
        await talker.heard.nth(ResponseDone, 1)


async def test_the_model_is_told_a_bounded_history(autojump_clock: MockClock) -> None:
    """A long conversation costs no longer prompt than a short one."""
    script = Script()
    async with open_session(script, limits=SessionLimits(history_messages_max=5)) as talker:
        for number in range(30):
            talker.send(message(number))
        talker.write("now")
        await talker.heard.nth(ResponseDone, 1)
    assert script.asked[-1].prompt.messages[-1].content == "26 27 28 29 now"


async def test_nothing_follows_the_last_event(autojump_clock: MockClock) -> None:
    """Commands that arrive while the session ends get no answer behind its terminal event."""
    async with scripted_omni() as omni:
        talker = await open_talker(omni)
        talker.handle.close("over")
        talker.send(Heartbeat(), message(1))
        talker.append(20, loud=True)
        await talker.handle.wait_closed()
        assert isinstance(talker.heard.events[-1], SessionClosed)
        await finish(omni, talker)


@pytest.mark.parametrize("seconds", [0.02, 3.0])
async def test_long_appends_are_worked_off_in_pieces(autojump_clock: MockClock, seconds: float) -> None:
    """One append of any length is heard like a stream of short ones."""
    async with open_session(Script(heard=["hello"])) as talker:
        for _ in range(round(3.0 / seconds)):
            talker.append(int(seconds * 1000), loud=True)
        for _ in range(round(3.0 / seconds)):
            talker.append(int(seconds * 1000), loud=False)
        done = await talker.heard.nth(ResponseDone, 1)
        assert done.response.status == "completed"
        assert len(talker.heard.of(ConversationItemInputAudioTranscriptionCompleted)) == 1
