"""Who is let in to an engine of video, and how videos end when it does."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing
from prometheus_client.parser import text_string_to_metric_families

from duplex_trio.deploy import VideoSessionDeploy
from duplex_trio.engine.video.engine import VideoEngine
from duplex_trio.engine.video.manager import VideoManager, places
from duplex_trio.models.scripted.video import ScriptedVideoPipeline
from duplex_trio.pipelines.declared import DeclaredPathError
from duplex_trio.plugin.video.plugin import StageCallError
from duplex_trio.protocol.refusal import RequestRefused
from duplex_trio.video.host import VideoFigures


def make_engine(max_sessions: int | None = 2) -> VideoEngine:
    return VideoEngine(ScriptedVideoPipeline(), limits=VideoSessionDeploy(max_sessions=max_sessions))


@asynccontextmanager
async def running(engine: VideoEngine) -> AsyncIterator[VideoManager]:
    async with trio.open_nursery() as nursery:
        await nursery.start(engine.run)
        yield engine.videos
        nursery.cancel_scope.cancel()


def figures(engine: VideoEngine) -> dict[str, float]:
    samples = (
        sample
        for family in text_string_to_metric_families(engine.render_metrics().decode())
        for sample in family.samples
    )
    return {
        sample.name + "".join(f"{{{key}={value}}}" for key, value in sample.labels.items()): sample.value
        for sample in samples
    }


@pytest.mark.parametrize(
    ("asked", "model", "found"), [(3, None, 3), (3, 1, 1), (1, 5, 1), (None, 1, 1), (2, 2, 2)]
)
def test_the_deployment_and_the_model_bound_videos(asked: int | None, model: int | None, found: int) -> None:
    assert places(asked, model) == found


def test_there_is_a_video_for_each_core_where_nobody_says() -> None:
    assert places(None, None) == len(os.sched_getaffinity(0))
    assert make_engine(None).videos.threads.total_tokens == 2 * len(os.sched_getaffinity(0))


async def test_who_finds_no_place_is_refused_at_once() -> None:
    engine = make_engine(2)
    async with running(engine) as videos:
        with videos.slot("a"):
            with videos.slot("b"):
                assert videos.count == 2
                with pytest.raises(RequestRefused) as raised, videos.slot("c"):
                    pytest.fail("there is no place")
                assert raised.value.code == "resource_exhausted"
                assert figures(engine)["duplex_videos"] == 2
            with videos.slot("c"):
                assert videos.count == 2
        assert videos.count == 0
    told = figures(engine)
    assert told["duplex_videos"] == 0
    assert told["duplex_videos_started_total"] == 3
    assert told["duplex_videos_refused_total{code=resource_exhausted}"] == 1


async def test_a_place_is_free_as_soon_as_nothing_is_generated() -> None:
    """A drain waits for a client that is being told of the end all the same."""
    engine = make_engine(1)
    async with running(engine) as videos:
        with videos.slot("a") as ending:
            assert figures(engine)["duplex_videos"] == 1
            ending.vacate()
            assert videos.count == figures(engine)["duplex_videos"] == 0
            with videos.slot("b"):
                assert videos.count == 1
            with trio.move_on_after(0.05) as waiting:
                await videos.drain(0.0)
            assert waiting.cancelled_caught
        with trio.fail_after(5.0):
            await videos.drain(0.0)


async def test_nobody_is_let_in_where_the_engine_does_not_run() -> None:
    engine = make_engine()
    with pytest.raises(RequestRefused) as raised, engine.videos.slot("a"):
        pytest.fail("there is no engine")
    assert raised.value.code == "server_shutdown"
    async with running(engine) as videos:
        with videos.slot("a"):
            await trio.lowlevel.checkpoint()
    with pytest.raises(RequestRefused), engine.videos.slot("a"):
        pytest.fail("there is no engine any more")


async def test_a_drain_gives_live_videos_their_time_and_then_ends_them(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with running(make_engine()) as videos, trio.open_nursery() as nursery:
        quick, slow = trio.Event(), trio.Event()
        began_s = trio.current_time()

        async def watch(name: str, end: trio.Event) -> None:
            with videos.slot(name) as slot:
                async with trio.open_nursery() as inner:
                    inner.start_soon(slot.draining.wait)
                    inner.start_soon(end.wait)
                    await (end if name == "quick" else slot.draining).wait()
                    inner.cancel_scope.cancel()
            ended_s[name] = trio.current_time() - began_s

        ended_s: dict[str, float] = {}
        nursery.start_soon(watch, "quick", quick)
        nursery.start_soon(watch, "slow", slow)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(videos.drain, 10.0)
        await trio.sleep(4)
        with pytest.raises(RequestRefused) as raised, videos.slot("late"):
            pytest.fail("nobody is let in")
        assert raised.value.code == "server_shutdown"
        quick.set()
    assert ended_s == {"quick": pytest.approx(4.0), "slow": pytest.approx(10.0)}


async def test_a_video_ends_with_its_engine() -> None:
    engine = make_engine()
    with ExitStack() as held:
        async with running(engine) as videos:
            slot = held.enter_context(videos.slot("a"))
        assert slot.draining.is_set()
        with pytest.raises(StageCallError) as raised:
            await trio.to_thread.run_sync(slot.stages.call, 0, None)
        assert raised.value.code == "engine_dead"


async def test_what_videos_were_is_counted_once_and_under_labels_of_ours() -> None:
    engine = make_engine()
    async with running(engine) as videos:
        with videos.slot("a") as slot:
            told = VideoFigures(
                outcome="stopped",
                chunks=4,
                frames=27,
                payload_bytes=1000,
                interactions={"completed": 2, "refused": 3},
                render_s=0.5,
                encode_s=0.25,
                switch_s=(0.4, 4.0),
            )
            slot.ended(told)
            slot.ended(told)
        with videos.slot("b") as slot:
            slot.ended(VideoFigures(outcome="a_code_of_the_model's_own"))
        with videos.slot("c"):
            pass  # it says nothing, such as one that was cancelled
    found = figures(engine)
    assert found["duplex_videos_ended_total{outcome=stopped}"] == 1
    assert found["duplex_videos_ended_total{outcome=other}"] == 1
    assert found["duplex_videos_ended_total{outcome=aborted}"] == 1
    assert found["duplex_video_chunks_total"] == 4
    assert found["duplex_video_frames_total"] == 27
    assert found["duplex_video_bytes_total"] == 1000
    assert found["duplex_video_interactions_total{outcome=completed}"] == 2
    assert found["duplex_video_interactions_total{outcome=refused}"] == 3
    assert found["duplex_video_render_seconds_total"] == 0.5
    assert found["duplex_video_encode_seconds_total"] == 0.25
    assert found["duplex_video_switch_seconds_count"] == 2
    assert found["duplex_video_switch_seconds_sum"] == pytest.approx(4.4)
    assert found["duplex_video_switch_seconds_bucket{le=0.5}"] == 1
    assert found["duplex_video_switch_seconds_bucket{le=+Inf}"] == 2


async def test_what_a_video_makes_is_counted_while_it_goes_on() -> None:
    """And once, also where it has ended and still holds its place."""
    engine = make_engine()
    frames = {"a": 9, "b": 18}

    def so_far(name: str) -> VideoFigures:
        return VideoFigures(outcome="", frames=frames[name], interactions={"refused": 1}, switch_s=(0.1,))

    def counted() -> tuple[float, ...]:
        found = figures(engine)
        names = (
            "duplex_video_frames_total",
            "duplex_video_switch_seconds_count",
            "duplex_video_interactions_total{outcome=refused}",
        )
        return tuple(found[name] for name in names)

    async with running(engine) as videos:
        with videos.slot("a") as a, videos.slot("b") as b:
            a.began(partial(so_far, "a"))
            b.began(partial(so_far, "b"))
            assert counted() == (27, 2, 0)
            frames["a"] = 20
            assert counted() == (38, 2, 0)
            a.ended(so_far("a"))
            assert counted() == (38, 2, 1)
            b.ended(so_far("b"))
        assert counted() == (38, 2, 2)


async def test_who_has_vacated_its_place_holds_none_and_is_counted_all_the_same() -> None:
    engine = make_engine()
    async with running(engine) as videos:
        with videos.slot("a") as slot:
            slot.began(lambda: VideoFigures(outcome="", frames=9))
            assert figures(engine)["duplex_videos"] == 1
            slot.vacate()
            told = figures(engine)
            assert (told["duplex_videos"], told["duplex_video_frames_total"]) == (0, 9)


class WrongKind(ScriptedVideoPipeline):
    def build_video_plugin(self) -> object:
        return "a text"


def test_what_makes_video_is_checked() -> None:
    with pytest.raises(DeclaredPathError, match="makes a thing of type str, no VideoModelPlugin"):
        VideoEngine(WrongKind())
