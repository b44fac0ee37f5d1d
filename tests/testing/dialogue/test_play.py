"""Conversations that go as planned, on every kind of session."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import numpy as np
import pytest
import trio
from trio.testing import MockClock

from duplex_trio.clients import (
    AudioFormat,
    DuplexClientBase,
    InlineDuplexClient,
    PlaybackCursor,
    SessionConfig,
)
from duplex_trio.protocol.duplex import SessionCreated
from duplex_trio.testing import (
    Account,
    CannotDropError,
    ConversationError,
    ConversationScript,
    Script,
    open_client,
    open_session,
    open_talker,
    script,
    scripted_omni,
    tool_call,
)
from duplex_trio.testing.dialogue.caller import Session, caller_of

LONG = "one two three four five six seven eight nine ten"
TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
Opened = Callable[[Script], AbstractAsyncContextManager[Session]]


@asynccontextmanager
async def inline(model: Script) -> AsyncIterator[Session]:
    async with scripted_omni(model) as omni, InlineDuplexClient(omni) as client:
        yield client


both = pytest.mark.parametrize("opened", [open_session, open_client])


@both
async def test_a_turn_an_interruption_and_a_lost_connection(
    autojump_clock: MockClock, opened: Opened
) -> None:
    model = Script(replies={"count for me": LONG, "stop": "Fine."})
    async with opened(model) as session:
        account = await (
            script()
            .say("count for me")
            .expects_transcript("count for me")
            .expects_reply(LONG)
            .after_hearing(ms=600)
            .interrupt("stop")
            .expects_cancelled()
            .drop()
            .wait(5)
            .resume()
            .expects_reply("Fine.")
            .after_hearing()
            .expects_silence(2)
            .play(session)
        )
    first, second = account.answers
    assert (first.status, second.status) == ("cancelled", "completed")
    assert first.cut_ms is not None
    assert first.spoke_ms is not None
    assert 600 <= first.cut_ms - first.spoke_ms <= 800
    assert account.transcripts == ["count for me", "stop"]
    assert account.connected


@both
async def test_a_function_is_called_and_returns(autojump_clock: MockClock, opened: Opened) -> None:
    replies = {"weather": f"One moment. {tool_call('get_weather', city='Paris')}", "sunny": "It is sunny."}
    async with opened(Script(replies=replies)) as session:
        account = await (
            script()
            .update(tools=[TOOL])
            .write("weather")
            .expects_reply("One moment.")
            .expects_call("get_weather", city="Paris")
            .returns("sunny")
            .expects_reply(containing="SUNNY")
            .play(session)
        )
    assert account.calls[0].arguments == {"city": "Paris"}


@both
async def test_either_is_opened_with_the_settings_of_a_client(
    autojump_clock: MockClock, opened: Callable[..., AbstractAsyncContextManager[Session]]
) -> None:
    config = SessionConfig(turn_detection=None)
    async with opened(Script(), config=config) as session:
        await script().say("hello").commit().expects_reply("You said: hello").play(session)


async def test_a_session_object_wins_over_the_settings_of_a_client(autojump_clock: MockClock) -> None:
    config = SessionConfig(instructions="be brief", metadata={"who": "me"})
    async with open_session(config=config, patch={"instructions": "be long"}) as session:
        created = session.events[0]
    assert isinstance(created, SessionCreated)
    assert (created.session["instructions"], created.session["metadata"]) == ("be long", {"who": "me"})


@both
async def test_push_to_talk_and_written_words(autojump_clock: MockClock, opened: Opened) -> None:
    async with opened(Script()) as session:
        by_hand = script().update(audio={"input": {"turn_detection": None}}).expects_event("session.updated")
        turn = script().say("hello").commit().expects_reply("You said: hello").after_hearing()
        await script(by_hand, turn).play(session)
        await script().write("bye").expects_reply("You said: bye").play(session)


@both
async def test_refusals_and_ends(autojump_clock: MockClock, opened: Opened) -> None:
    async with opened(Script()) as session:
        account = await (
            script()
            .update(audio={"output": {"speed": 9}})
            .expects_error("invalid_value")
            .send({"type": "session.close"})
            .expects_closed()
            .play(session)
        )
    assert account.ended


@both
async def test_what_the_server_cannot_read_is_refused_whatever_carries_it(
    autojump_clock: MockClock, opened: Opened
) -> None:
    async with opened(Script()) as session:
        account = await (
            script()
            .send({"type": "nonsense"})
            .expects_error("unknown_event")
            .send(
                {"type": "session.resume", "session_id": "s", "resume_token": "t", "last_server_event_seq": 0}
            )
            .expects_error("unsupported_session_resume")
            .write("hello")
            .expects_reply("You said: hello")
            .play(session)
        )
    assert [code for code, _ in account.errors] == ["unknown_event", "unsupported_session_resume"]


@both
@pytest.mark.parametrize(
    ("last", "told"),
    [
        (script().send({"type": "nonsense"}), "unknown_event"),
        (script().update(audio={"output": {"speed": 9}}), "invalid_value"),
        (script().commit(), "input_audio_buffer_commit_empty"),
    ],
    ids=str,
)
async def test_what_is_refused_in_the_last_step_fails_the_conversation(
    autojump_clock: MockClock, opened: Opened, last: ConversationScript, told: str
) -> None:
    async with opened(Script()) as session:
        with pytest.raises(ConversationError, match=f"no step expects one\n.*{told}"):
            await last.play(session)


@pytest.mark.parametrize(
    "make",
    [
        lambda ms: script().wait(ms),
        lambda ms: script().after_hearing(ms),
        lambda ms: script().expects_silence(ms),
        lambda ms: script().expects_reply().within(ms),
    ],
)
@pytest.mark.parametrize("time", [-1, float("nan")])
def test_no_time_is_negative(make: Callable[[float], ConversationScript], time: float) -> None:
    with pytest.raises(ValueError, match=">= 0"):
        make(time)


async def test_who_speaks_may_find_the_session_over_first(autojump_clock: MockClock) -> None:
    """Its events tell why; that nothing can be sent any more is no failure of the test."""
    async with inline(Script()) as client:
        assert isinstance(client, DuplexClientBase)
        caller = caller_of(client)
        await client.close()
        await caller.append(np.zeros(480, np.float32))
        await caller.send({"type": "response.create"})
        assert await caller.listen(lambda _: None) == "closed"


async def test_functions_of_the_test_see_the_account(autojump_clock: MockClock) -> None:
    seen: list[int] = []

    async def note(account: Account) -> None:
        await trio.sleep(1)
        seen.append(len(account.answers))

    def check(account: Account) -> None:
        assert account.answers[0].text == "You said: hello"

    async with open_session() as session:
        await script().write("hello").expects_reply().then(note).then(check).play(session)
    assert seen == [1]


@pytest.mark.parametrize("encoding", ["pcm16", "pcm_f32le", "g711_ulaw", "g711_alaw"])
async def test_a_client_is_spoken_to_in_its_own_format(autojump_clock: MockClock, encoding: str) -> None:
    config = SessionConfig(input_audio=AudioFormat(encoding, 8000 if encoding.startswith("g711") else 16000))
    async with open_client(config=config) as client:
        await script().say("hello").expects_reply("You said: hello").play(client)


async def test_a_voice_is_heard_by_models_that_nothing_is_told(autojump_clock: MockClock) -> None:
    async with inline(Script()) as client:
        sound = np.full(24_000 * 2, 0.3, np.float32)
        await (
            script()
            .say("hello", pcm=sound)
            .expects_transcript(lambda text: text.startswith("sound of 2."))
            .after_hearing()
            .say("a longer sentence than before")
            .expects_transcript(containing="sound of 2.0")
            .play(client)
        )


async def test_a_client_that_acknowledges_by_itself_is_left_to_it(autojump_clock: MockClock) -> None:
    async with scripted_omni() as omni, InlineDuplexClient(omni, playback=PlaybackCursor()) as client:
        await script().write("hello").after_hearing().play(client)


async def test_there_must_be_a_connection_to_be_dropped(autojump_clock: MockClock) -> None:
    async with scripted_omni() as omni:
        with pytest.raises(CannotDropError, match="open_session"):
            await script().drop().play(await open_talker(omni))
    async with inline(Script()) as client:
        with pytest.raises(CannotDropError, match="BreakableClient"):
            await script().drop().play(client)


async def test_only_sessions_can_be_talked_to() -> None:
    with pytest.raises(TypeError, match="not on int"):
        await script().play(3)  # type: ignore[arg-type]


async def test_an_error_of_a_function_comes_out_as_it_is(autojump_clock: MockClock) -> None:
    def broken(_account: Account) -> None:
        raise ZeroDivisionError

    async with open_session() as session:
        with pytest.raises(ZeroDivisionError):
            await script().then(broken).play(session)


def test_a_script_is_written_as_it_is_called() -> None:
    written = script().say("hello").expects_reply(containing="you").within(3).interrupt("no").wait(0.5)
    assert str(written) == 'script().say("hello").expects_reply(containing="you").interrupt("no").wait(0.5)'
    assert [step.within_s for step in written.steps] == [None, 3, None, None]
    with pytest.raises(ValueError, match="step before it"):
        script().within(3)


def test_a_beginning_can_be_shared() -> None:
    beginning = script().say("hello").expects_reply()
    assert len(beginning.wait(1).steps) == len(beginning.wait(2).steps) == 3
    assert len(beginning.steps) == 2
