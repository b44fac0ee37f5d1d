"""A model that can work on the next turn while it speaks does so, and what it makes is heard in its place."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from duplex_trio.engine import SessionLimits
from duplex_trio.models.scripted.script import Script
from duplex_trio.models.scripted.turns import TurnsPipeline
from duplex_trio.models.scripted.turns_plugin import TurnsPlugin
from duplex_trio.plugin.capabilities import DuplexCapabilities
from duplex_trio.protocol.duplex import (
    BargeIn,
    CancelResponse,
    ClearOutputAudio,
    Commit,
    ConversationItemInputAudioTranscriptionCompleted,
    DuplexCommand,
    Heartbeat,
    InputAudioBufferCommitted,
    RealtimeError,
    ResponseCreated,
    ResponseDone,
    ResponseOutputAudioDelta,
    ResponseOutputAudioTranscriptDone,
)
from duplex_trio.testing import Talker, finish, open_session, open_talker, scripted_omni

Transcribed = ConversationItemInputAudioTranscriptionCompleted
LONG = "one two three four five six seven eight nine ten"
BY_HAND = {"turn_detection": None}


class OneByOne(TurnsPipeline):
    """The same model, without saying that it can work ahead."""

    class _Plugin(TurnsPlugin):
        def capabilities(self, max_sessions: int) -> DuplexCapabilities:
            able = super().capabilities(max_sessions)
            return attrs.evolve(able, supports_concurrent_turn_requests=False)

    def build_plugin(self) -> TurnsPlugin:
        return self._Plugin()


def script(**more: Any) -> Script:
    return Script(
        heard=["first", "second", "third"],
        replies={"first": LONG, "second": "ahead", "third": "late"},
        **more,
    )


def told(script: Script) -> list[list[str]]:
    """What the model was told in each of its prompts."""
    return [[message.content for message in asked.prompt.messages] for asked in script.asked]


async def say(talker: Talker) -> None:
    """Commit some speech that asks for an answer, and wait until it is an item."""
    number = len(talker.heard.of(InputAudioBufferCommitted)) + 1
    talker.append(800, loud=True)
    talker.send(Commit(response_create=True))
    await talker.heard.nth(InputAudioBufferCommitted, number)


async def two_turns(talker: Talker) -> None:
    """The second turn is said while the answer to the first is being heard and all of it is written."""
    await say(talker)
    await talker.heard.nth(ResponseOutputAudioDelta, 3)
    await say(talker)


def order(talker: Talker) -> list[tuple[str, str]]:
    """The responses as they began and were done, by what they said."""
    said = {
        event.response_id: event.transcript for event in talker.heard.of(ResponseOutputAudioTranscriptDone)
    }
    shown = []
    for event in talker.heard.events:
        if isinstance(event, ResponseCreated):
            shown.append(("created", said.get(event.response.id, "")))
        elif isinstance(event, ResponseDone):
            shown.append((event.response.status, said.get(event.response.id, "")))
    return shown


async def test_the_next_turn_is_computed_meanwhile(autojump_clock: MockClock) -> None:
    """Its prompt knows all of the answer that is still being spoken; its own is heard when that is over."""
    lines = script()
    async with open_session(pipeline=TurnsPipeline(script=lines), patch=BY_HAND) as talker:
        await two_turns(talker)
        transcript = await talker.heard.nth(Transcribed, 2)
        assert transcript.transcript == "second"
        assert not talker.heard.of(ResponseDone)
        assert told(lines) == [["first"], ["first", LONG, "second"]]
        await talker.heard.nth(ResponseDone, 2)
        assert order(talker) == [
            ("created", LONG),
            ("completed", LONG),
            ("created", "ahead"),
            ("completed", "ahead"),
        ]


async def test_a_model_that_works_one_by_one_does_not(autojump_clock: MockClock) -> None:
    """Without the ability the next turn is asked when the answer before it is done."""
    lines = script()
    async with open_session(pipeline=OneByOne(script=lines), patch=BY_HAND) as talker:
        await two_turns(talker)
        await talker.heard.nth(Transcribed, 2)
        await trio.sleep(1.0)
        assert not talker.heard.of(ResponseDone)
        assert len(lines.asked) == 1
        await talker.heard.nth(ResponseDone, 2)
        assert order(talker)[-1] == ("completed", "ahead")
        assert len(lines.asked) == 2


async def test_it_waits_until_the_stages_are_free(autojump_clock: MockClock) -> None:
    """A turn that comes while the answer is still being written enters the stages when that is written."""
    lines = script()
    async with open_session(
        pipeline=TurnsPipeline(script=lines), patch=BY_HAND, step_s={"mind": 0.3}
    ) as talker:
        await say(talker)
        await talker.heard.nth(ResponseCreated, 1)
        await say(talker)
        await trio.sleep(1.0)
        assert len(lines.asked) == 1
        await talker.heard.nth(ResponseDone, 2)
        assert told(lines)[1] == ["first", LONG, "second"]


async def test_one_turn_ahead_and_no_more(autojump_clock: MockClock) -> None:
    """A third turn is answered behind the second, as by a model without the ability."""
    lines = script()
    async with open_session(pipeline=TurnsPipeline(script=lines), patch=BY_HAND) as talker:
        await two_turns(talker)
        await talker.heard.nth(Transcribed, 2)
        await say(talker)
        await talker.heard.nth(ResponseDone, 3)
        assert [said for status, said in order(talker) if status == "completed"] == [LONG, "ahead", "late"]
        assert [prompt[-1] for prompt in told(lines)] == ["first", "second", "third"]


@pytest.mark.parametrize("command", [BargeIn(), CancelResponse()])
async def test_a_cancel_discards_it(autojump_clock: MockClock, command: DuplexCommand) -> None:
    """What the user said stays said and is transcribed once; it is not answered."""
    lines = script()
    async with open_session(pipeline=TurnsPipeline(script=lines), patch=BY_HAND) as talker:
        await two_turns(talker)
        talker.send(command)
        await talker.heard.nth(Transcribed, 2)
        await trio.sleep(5.0)
        assert [status for status, _ in order(talker)] == ["created", "cancelled"]
        assert len(talker.heard.of(Transcribed)) == 2


@pytest.mark.parametrize("transcribed", [False, True])
async def test_silencing_the_answer_leaves_it_standing(autojump_clock: MockClock, transcribed: bool) -> None:
    """The client silenced the first answer; the second one follows, and its words are told once."""
    async with open_session(pipeline=TurnsPipeline(script=script()), patch=BY_HAND) as talker:
        await two_turns(talker)
        if transcribed:
            await talker.heard.nth(Transcribed, 2)
        talker.send(ClearOutputAudio())
        await talker.heard.nth(ResponseDone, 2)
        statuses = [status for status, _ in order(talker)]
        assert statuses == ["created", "cancelled", "created", "completed"]
        assert len(talker.heard.of(Transcribed)) == 2


async def test_what_was_said_behind_it_does_not_hold_it_up(autojump_clock: MockClock) -> None:
    """The first answer is silenced while a third utterance has no words yet: the second answer waits for them."""
    async with open_session(pipeline=TurnsPipeline(script=script()), patch=BY_HAND) as talker:
        await two_turns(talker)
        await talker.heard.nth(Transcribed, 2)
        await say(talker)
        assert len(talker.heard.of(Transcribed)) == 2
        silenced_s = trio.current_time()
        talker.send(ClearOutputAudio())
        await talker.heard.nth(ResponseDone, 2)
        assert [status for status, _ in order(talker)] == ["created", "cancelled", "created", "completed"]
        assert trio.current_time() - silenced_s < 2
        assert len(talker.heard.of(Transcribed)) == 3


@pytest.mark.parametrize("command", [BargeIn(), ClearOutputAudio()])
async def test_all_that_was_said_is_transcribed_after_a_cut(
    autojump_clock: MockClock, command: DuplexCommand
) -> None:
    """More utterances without words than may wait at once were with the model; a cut loses none, nor the answer."""
    lines = Script(heard=["first", "second"], replies={"first": LONG, "second": "ahead"})
    async with open_session(pipeline=TurnsPipeline(script=lines), patch=BY_HAND) as talker:
        await two_turns(talker)
        await talker.heard.nth(Transcribed, 2)
        for _ in range(5):
            talker.append(800, loud=True)
            talker.send(Commit(response_create=False))
            await trio.sleep(0.001)
        talker.send(command)
        await trio.sleep(10)
        assert len(talker.heard.of(Transcribed)) == 7
        answered = ["cancelled", "completed"] if isinstance(command, ClearOutputAudio) else ["cancelled"]
        assert [done.response.status for done in talker.heard.of(ResponseDone)] == answered


async def test_a_failed_answer_leaves_it_standing(autojump_clock: MockClock) -> None:
    """The voice breaks in the first answer; the second is given."""
    lines = script(fail_speaking="eight")
    async with open_session(pipeline=TurnsPipeline(script=lines), patch=BY_HAND) as talker:
        await two_turns(talker)
        await talker.heard.nth(ResponseDone, 2)
        statuses = [status for status, _ in order(talker)]
        assert statuses == ["created", "failed", "created", "completed"]


async def test_it_may_fail_itself(autojump_clock: MockClock) -> None:
    """While it is held nothing is said about it; its response begins and has failed."""
    lines = script(fail_on=frozenset({"second"}))
    async with open_session(pipeline=TurnsPipeline(script=lines), patch=BY_HAND) as talker:
        await two_turns(talker)
        await talker.heard.nth(Transcribed, 2)
        await talker.heard.nth(ResponseDone, 2)
        statuses = [status for status, _ in order(talker)]
        assert statuses == ["created", "completed", "created", "failed"]


async def test_what_has_failed_is_not_tried_again(autojump_clock: MockClock) -> None:
    """The answer before it is cut while it is held: its response begins and has failed, and the model is not asked."""
    lines = script(fail_on=frozenset({"second"}))
    async with open_session(pipeline=TurnsPipeline(script=lines), patch=BY_HAND) as talker:
        await two_turns(talker)
        await talker.heard.nth(Transcribed, 2)
        await trio.sleep(0.3)
        talker.send(ClearOutputAudio())
        await talker.heard.nth(ResponseDone, 2)
        statuses = [status for status, _ in order(talker)]
        assert statuses == ["created", "cancelled", "created", "failed"]
        await trio.sleep(5.0)
        assert len(lines.asked) == 2
        await say(talker)
        assert (await talker.heard.nth(ResponseDone, 3)).response.status == "completed"


async def test_a_session_may_close_meanwhile(autojump_clock: MockClock) -> None:
    """Both requests are let go; the end of the conversation looks for what is left behind."""
    async with open_session(pipeline=TurnsPipeline(script=script()), patch=BY_HAND) as talker:
        await two_turns(talker)
        await talker.heard.nth(Transcribed, 2)
        talker.handle.close("over")
        await talker.handle.wait_closed()
        assert [status for status, _ in order(talker)] == ["created", "cancelled"]


async def test_nothing_begins_in_a_session_that_ends(autojump_clock: MockClock) -> None:
    """The first answer fails, of which a client that does not read is not even told: the second does not begin."""
    limits = SessionLimits(control_events_max=24)
    async with scripted_omni(pipeline=TurnsPipeline(script=script()), limits=limits) as omni:
        talker = await open_talker(omni, patch=BY_HAND)
        await two_turns(talker)
        await talker.heard.nth(Transcribed, 2)
        core = talker.handle._core
        talker.heard.stalled = True
        await trio.sleep(0.2)
        while core.egress.queue.control_waiting < 22:
            talker.send(Heartbeat())
        assert core.state.active is not None
        talker.handle._control.fail_response(core.state.active, RealtimeError("engine_error", "broken"))
        assert core.end is not None
        assert (core.end.reason, core.state.active) == ("slow_reader", None)
        await finish(omni, talker)
