"""What a video does with prompts and with what it hears of its playback, and the figures that it leaves."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import attrs
import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock, wait_all_tasks_blocked

from duplex_trio.models.scripted.video_script import VideoScript
from duplex_trio.protocol.video import SessionPlayback, SessionStart, SessionStop
from duplex_trio.testing.kept_logs import Logs
from duplex_trio.testing.videos.encoder import TRAILER
from duplex_trio.testing.videos.host import WatchedHost
from duplex_trio.testing.videos.run import watching
from duplex_trio.video.tally import VideoTally

CHUNK_S = 9 / 16
FRAME_BYTES = 64 * 64 * 3


# ------------------------------------------------------------------ pacing


async def test_chunks_come_as_they_are_played(autojump_clock: MockClock) -> None:
    """Each as early as the lead allows."""
    async with watching(WatchedHost(), SessionStart(prompt="red", num_frames=90)) as video:
        await video.end()
    expected = [max(0.0, index * CHUNK_S - 0.5) for index in range(10)]
    assert video.times_s[:10] == pytest.approx(expected, abs=0.01)


async def test_a_larger_lead(autojump_clock: MockClock) -> None:
    start = SessionStart(prompt="red", num_frames=90, streaming_buffer_seconds=2.0)
    async with watching(WatchedHost(), start) as video:
        await video.end()
    expected = [max(0.0, index * CHUNK_S - 2.0) for index in range(10)]
    assert video.times_s[:10] == pytest.approx(expected, abs=0.01)


async def test_without_a_lead_nothing_is_waited_for(autojump_clock: MockClock) -> None:
    start = SessionStart(prompt="red", num_frames=900, streaming_buffer_seconds=None)
    async with watching(WatchedHost(), start) as video:
        await video.end()
    assert video.times_s[-1] == 0.0


async def test_a_player_that_tells_where_it_is(autojump_clock: MockClock) -> None:
    """The clock does not count any more: paused, nothing is made; playing on, it goes on."""
    host = WatchedHost()
    async with watching(host, SessionStart(prompt="red", num_frames=90)) as video:
        await video.chunk(1)
        await video.peer.send(SessionPlayback(position_seconds=0.1))
        await trio.sleep(30.0)
        paused = len(video.pairs)
        assert paused <= 4
        await video.peer.send(SessionPlayback(position_seconds=2.0))
        await video.until(lambda: len(video.pairs) > paused)
        await trio.lowlevel.checkpoint()
        assert trio.current_time() == pytest.approx(30.0625, abs=0.01)
        await video.peer.send(SessionStop())
        await video.end()


async def test_the_newest_prompt_is_what_a_chunk_is_made_of(autojump_clock: MockClock) -> None:
    """A prompt that is ready while playback is waited for is in the chunk that is made then."""
    host = WatchedHost()
    async with watching(host, SessionStart(prompt="red", num_frames=90)) as video:
        await video.chunk(3)
        await trio.sleep(0.5)
        await video.say("a", "blue", 0)
        await video.chunk(4)
        await video.end()
    assert video.ids[4] == ("a", "a", "a")


# ------------------------------------------------------------------ what models are told


async def test_what_a_model_is_told_of_its_prompt(autojump_clock: MockClock) -> None:
    """Whether it is another one than before, and whether it came at once."""
    host = WatchedHost()
    hold = host.hold((0, 0))
    async with watching(host, SessionStart(prompt="red", num_frames=70)) as video:
        await video.say("a", "blue", 2)
        await video.told("interaction.queued a")
        await wait_all_tasks_blocked()
        hold.open()
        await video.chunk(4)
        await video.say("b", "green", 0)
        await video.end()
    asked = host.watched.sessions[0].chunks
    assert [chunk.index for chunk in asked] == list(range(8))
    assert [chunk.n_frames for chunk in asked] == [9] * 7 + [7]
    assert [(chunk.changed, chunk.hard) for chunk in asked[1:5]] == [
        (True, False),
        (True, False),
        (False, False),
        (False, False),
    ]
    hard = next(chunk for chunk in asked if chunk.hard)
    assert hard.changed
    assert video.ids[hard.index] == ("b", "b", "b")


# ------------------------------------------------------------------ prompts that fail


@pytest.mark.parametrize(
    ("prompt", "more", "message"),
    [
        ("refused", {}, "The scripted model cannot do 'refused'"),
        ("blue", {"style": "oil"}, "The scripted model does not support 'style'"),
        ("failing", {}, "The prompt could not be encoded."),
    ],
)
async def test_a_prompt_that_fails(
    autojump_clock: MockClock, logs: Logs, prompt: str, more: dict[str, object], message: str
) -> None:
    """It is told, with the model's words where they are meant for the client; its id is free again."""
    host = WatchedHost(script=VideoScript(refused_word="refused", failing_word="failing"))
    async with watching(host, SessionStart(prompt="red", num_frames=90)) as video:
        await video.say("a", prompt, 0, **more)
        await video.told("error interaction_failed a")
        await video.say("a", "blue", 0)
        await video.end()
    assert video.errors[0].message == message
    assert video.done.interactions == {"a": "completed"}
    logged = [entry for entry in logs if entry["event"] == "video.prompt_failed"]
    assert bool(logged) == (prompt == "failing")


@pytest.mark.parametrize("refused", [None, "slow"])
async def test_a_prompt_that_comes_too_late(autojump_clock: MockClock, refused: str | None) -> None:
    """It was admitted before the last chunk and is ready, or fails, behind it: told once, though it is encoded."""
    host = WatchedHost(script=VideoScript(refused_word=refused))
    slow, last = host.hold("slow"), host.hold((2, 0))
    async with watching(host, SessionStart(prompt="red", num_frames=27)) as video:
        await video.say("a", "slow", 0)
        await video.reach(last)
        await video.told("error interaction_failed a")
        slow.open()
        await wait_all_tasks_blocked()
        last.open()
        await video.end()
    assert video.shown.count("error interaction_failed a") == 1
    assert video.done.interactions == {"a": "failed"}
    assert video.shown[-1] == "done 4"


# ------------------------------------------------------------------ figures


async def test_the_figures_are_true(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times of the thread by a clock that ticks when it is looked at; all else by what was seen."""
    ticks: Callable[[], int] = itertools.count().__next__
    monkeypatch.setattr("duplex_trio.video.rendering.perf_counter", lambda: float(ticks()))
    host = WatchedHost(script=VideoScript(refused_word="refused"))
    async with watching(host, SessionStart(prompt="red", num_frames=60)) as video:
        await video.chunk(2)
        said_s = trio.current_time()
        await video.say("a", "blue", 5)
        await video.chunk(3)
        switched_s = trio.current_time() - said_s
        await video.say("b", "refused", 0)
        await video.told("error interaction_failed b")
        await video.say("b", "green", 0)
        await video.say("c", "", 0)
        await video.say("b", "blue", 0)
        await video.end()
    figures = video.figures
    assert figures is not None
    assert figures == host.slots[0].figures[0]
    assert figures.outcome == "done"
    assert figures.chunks == 7
    assert figures.frames == sum(meta.num_frames for meta, _ in video.pairs) == 60
    assert figures.payload_bytes == sum(len(payload) for _, payload in video.pairs)
    assert figures.payload_bytes == 60 * FRAME_BYTES + len(TRAILER)
    assert len(figures.switch_s) == 2
    assert figures.switch_s[0] == pytest.approx(switched_s)
    assert figures.interactions == {"failed": 1, "interrupted": 1, "completed": 1, "refused": 2}
    # Of each chunk: one tick for each frame and one for their end; as many for the encoder, and one at its end.
    assert figures.render_s == 60 + 7
    assert figures.encode_s == 60 + 2 * 7


async def test_what_a_video_was_so_far(autojump_clock: MockClock) -> None:
    """It is asked while it goes on, and at its end has come to the figures of the end."""
    host = WatchedHost()
    async with watching(host, SessionStart(prompt="red", num_frames=27)) as video:
        await video.say("a", "blue", 0)
        await video.chunk(1)
        await wait_all_tasks_blocked()
        (slot,) = host.slots
        assert slot.so_far is not None
        now = slot.so_far()
        assert (now.chunks, now.frames, now.payload_bytes) == (2, 18, 18 * FRAME_BYTES)
        assert len(now.switch_s) == 1
        await video.end()
    assert video.figures is not None
    assert attrs.evolve(slot.so_far(), outcome="done", interactions={"completed": 1}) == video.figures


async def test_of_superseded_prompts_nothing_is_kept(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their arrival is of no use any more, and a video may have thousands of them."""
    gone: list[str] = []

    class Watched(VideoTally):
        def gone(self, event_id: str) -> None:
            gone.append(event_id)
            super().gone(event_id)

    monkeypatch.setattr("duplex_trio.video.session.VideoTally", Watched)
    host = WatchedHost()
    hold = host.hold((0, 0))
    async with watching(host, SessionStart(prompt="red", num_frames=18)) as video:
        await video.reach(hold)
        for name in "abc":
            await video.say(name, "blue", 0)
            await wait_all_tasks_blocked()
        hold.open()
        await video.end()
    assert video.done.interactions == {"a": "superseded", "b": "superseded", "c": "completed"}
    assert gone == ["a", "b"]
    assert video.figures is not None
    assert len(video.figures.switch_s) == 1


async def test_figures_of_a_video_that_is_stopped(autojump_clock: MockClock) -> None:
    host = WatchedHost()
    hold = host.hold((1, 0))
    async with watching(host, SessionStart(prompt="red")) as video:
        await video.reach(hold)
        await video.peer.send(SessionStop())
        await video.end()
    assert video.figures is not None
    assert (video.figures.chunks, video.figures.frames) == (1, 9)
