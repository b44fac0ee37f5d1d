"""When the sound of a response starts and when it has been played: `output_audio_buffer.started` and `stopped`."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from duplex_trio.models.scripted.native import NativePipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import (
    AckPlayback,
    CancelResponse,
    ClearOutputAudio,
    OutputAudioBufferCleared,
    OutputAudioBufferStarted,
    OutputAudioBufferStopped,
    ResponseCreated,
    ResponseDone,
    ResponseOutputAudioDelta,
)
from duplex_trio.protocol.duplex.session import DialectName
from duplex_trio.session.state.engine_session import ACK_SLACK_S
from duplex_trio.testing import Talker, open_session

FOUR_WORDS = Script(otherwise=lambda _: "alpha bravo charlie delta", word_ms=300)
SOUND_S = 1.2


def sound_s(talker: Talker) -> float:
    """When the first sound went out, by the session's clock."""
    first = next(i for i, event in enumerate(talker.events) if isinstance(event, ResponseOutputAudioDelta))
    return talker.heard.times_s[first]


def stopped_s(talker: Talker) -> float:
    """When the client was told that all was played."""
    (position,) = (i for i, event in enumerate(talker.events) if isinstance(event, OutputAudioBufferStopped))
    return talker.heard.times_s[position]


@pytest.mark.parametrize("dialect", ["ga", "beta"])
async def test_a_response_is_played_in_real_time(autojump_clock: MockClock, dialect: DialectName) -> None:
    """It starts with its first sound and stops when a player that never pauses is through with it."""
    async with open_session(FOUR_WORDS, dialect=dialect) as talker:
        talker.write("go")
        stopped = await talker.heard.nth(OutputAudioBufferStopped, 1)
        done = talker.heard.of(ResponseDone)[0]
        assert stopped.response_id == done.response.id
        types = talker.heard.types
        started, first = (
            types.index("output_audio_buffer.started"),
            types.index("response.output_audio.delta"),
        )
        assert types.index("response.content_part.added") < started == first - 1
        assert types[-2:] == ["rate_limits.updated", "output_audio_buffer.stopped"]
        assert stopped_s(talker) - sound_s(talker) == pytest.approx(SOUND_S, abs=0.05)


async def test_a_client_that_acknowledges_says_itself_when_it_has_played(autojump_clock: MockClock) -> None:
    """The last acknowledgement ends the sound, whatever the estimate says; until then it plays."""
    async with open_session(FOUR_WORDS) as talker:
        talker.write("go")
        await talker.heard.nth(ResponseDone, 1)
        await trio.sleep(SOUND_S + 0.5)
        talker.send(AckPlayback(played_ms=600))
        await trio.sleep(0.1)
        assert not talker.heard.of(OutputAudioBufferStopped)
        talker.send(AckPlayback(played_ms=1200))
        await talker.heard.nth(OutputAudioBufferStopped, 1)
        assert talker.heard.types[-2:] == ["playback.acknowledged", "output_audio_buffer.stopped"]


async def test_nobody_is_waited_for_who_never_acknowledges(autojump_clock: MockClock) -> None:
    """A duplex client that tells nothing gets the estimate, and a while for what it may have told late."""
    async with open_session(FOUR_WORDS) as talker:
        talker.write("go")
        await talker.heard.nth(OutputAudioBufferStopped, 1)
        assert stopped_s(talker) - sound_s(talker) == pytest.approx(SOUND_S + ACK_SLACK_S, abs=0.05)


@pytest.mark.parametrize("command", [CancelResponse(), ClearOutputAudio()])
async def test_what_is_cleared_was_not_played(
    autojump_clock: MockClock, command: CancelResponse | ClearOutputAudio
) -> None:
    """`cleared` or `stopped`, never both."""
    async with open_session(FOUR_WORDS, dialect="ga") as talker:
        talker.write("go")
        await talker.heard.nth(ResponseOutputAudioDelta, 2)
        talker.send(command)
        await talker.heard.nth(ResponseDone, 1)
        await trio.sleep(10)
        assert len(talker.heard.of(OutputAudioBufferStarted)) == 1
        assert len(talker.heard.of(OutputAudioBufferCleared)) == 1
        assert not talker.heard.of(OutputAudioBufferStopped)


async def test_a_response_without_sound_neither_starts_nor_stops(autojump_clock: MockClock) -> None:
    """Written answers, and answers that are cancelled before they have said anything."""
    async with open_session(FOUR_WORDS, dialect="ga", patch={"output_modalities": ["text"]}) as talker:
        talker.write("go")
        await talker.heard.nth(ResponseDone, 1)
        await trio.sleep(5)
        assert not [name for name in talker.heard.types if name.startswith("output_audio_buffer")]
    async with open_session(FOUR_WORDS, dialect="ga") as talker:
        talker.write("go")
        await talker.heard.nth(ResponseCreated, 1)
        talker.send(CancelResponse())
        await talker.heard.nth(ResponseDone, 1)
        await trio.sleep(5)
        assert not [name for name in talker.heard.types if name.startswith("output_audio_buffer")]


async def test_answers_in_a_row_each_have_their_end(autojump_clock: MockClock) -> None:
    """The second is made while the first is still heard; both stop, in their order."""
    async with open_session(FOUR_WORDS, dialect="ga") as talker:
        for number in (1, 2):
            talker.write("go")
            await talker.heard.nth(ResponseDone, number)
        await talker.heard.nth(OutputAudioBufferStopped, 2)
        done = [event.response.id for event in talker.heard.of(ResponseDone)]
        assert [event.response_id for event in talker.heard.of(OutputAudioBufferStarted)] == done
        assert [event.response_id for event in talker.heard.of(OutputAudioBufferStopped)] == done


async def test_a_model_that_owns_its_turns_starts_and_stops_too(autojump_clock: MockClock) -> None:
    """Whoever makes the sound, it leaves by the same way."""
    async with open_session(pipeline=NativePipeline(answer="one two three")) as talker:
        await talker.speak(2.0)
        await talker.pause(3.0)
        stopped = await talker.heard.nth(OutputAudioBufferStopped, 1)
        assert stopped.response_id == talker.heard.of(OutputAudioBufferStarted)[0].response_id
