"""A model of video from Python: how it starts, how its videos are watched and steered, and how they end."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from duplex_trio import VideoOmni as Exported
from duplex_trio.deploy import VideoSessionDeploy
from duplex_trio.entrypoints.video_omni import VideoOmni, WarmUpError
from duplex_trio.entrypoints.video_watch import VideoChunk, VideoFailed, WatchedVideo
from duplex_trio.models.scripted.video import ScriptedVideoPipeline
from duplex_trio.models.scripted.video_script import VideoScript
from duplex_trio.plugin.video.plugin import VideoModelPlugin
from duplex_trio.protocol.refusal import RequestRefused
from duplex_trio.protocol.video import SessionStart, VideoRefused
from duplex_trio.testing.video_frames import decode_frames
from duplex_trio.video.memory import MemoryPeer, memory_transports
from duplex_trio.video.transport import TransportClosedError

GUARD_S = 60.0


@asynccontextmanager
async def running(script: VideoScript | None = None, **limits: Any) -> AsyncIterator[VideoOmni]:
    pipeline = ScriptedVideoPipeline(script=script)
    omni = VideoOmni(pipeline, limits=VideoSessionDeploy(**limits), warm_up=False)
    with trio.fail_after(GUARD_S):
        async with omni.running():
            yield omni


async def all_of(video: WatchedVideo) -> list[VideoChunk]:
    return [chunk async for chunk in video]


def test_it_is_a_name_of_the_package() -> None:
    assert Exported is VideoOmni


async def test_a_video_is_a_file_that_is_steered_while_it_grows() -> None:
    async with running(VideoScript(frame_delay_s=0.003)) as omni, omni.video("red", num_frames=90) as video:
        assert video.started.config["prompt"] == "red"
        chunks: list[VideoChunk] = []
        async for chunk in video:
            chunks.append(chunk)
            if chunk.index == 1:
                assert await video.interact("blue", transition_chunks=2, event_id="a") == "a"
        assert video.done is not None
        assert (video.done.frames, video.done.interactions) == (90, {"a": "completed"})
        assert chunks[-1].is_trailer
        assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
        assert len(decode_frames(b"".join(chunk.data for chunk in chunks))) == 90
        with pytest.raises(VideoRefused, match="has ended"):
            await video.interact("green")
        await video.stop()  # no error where there is nothing to stop


async def test_it_is_stopped_where_it_is() -> None:
    async with running() as omni, omni.video("red") as video:
        await anext(video)
        await video.stop()
        chunks = await all_of(video)
        assert chunks[-1].is_trailer
        assert video.done is not None
        assert video.done.stopped


async def test_who_leaves_frees_the_place_at_once() -> None:
    async with running(max_sessions=1) as omni:
        for _ in range(3):
            async with omni.video("red") as video:
                await anext(video)
                assert omni.videos == 1
                with pytest.raises(RequestRefused) as refused:
                    await omni.video("blue").__aenter__()
                assert refused.value.code == "resource_exhausted"
            assert omni.videos == 0


async def test_an_error_of_the_blocks_own_comes_out_as_it_is() -> None:
    async with running() as omni:
        with pytest.raises(KeyError):
            async with omni.video("red"):
                raise KeyError("mine")
        assert omni.videos == 0


async def test_a_wrong_request_is_refused_with_its_field() -> None:
    async with running() as omni:
        with pytest.raises(VideoRefused) as refused:
            await omni.video("red", width=333).__aenter__()
        assert (refused.value.code, refused.value.param) == ("invalid_start", "width")
        with pytest.raises(TypeError, match="no_such_field"):
            omni.video("red", no_such_field=1)


async def test_interactions_that_are_not_taken_raise_and_the_video_goes_on() -> None:
    async with (
        running(VideoScript(frame_delay_s=0.003, failing_word="bad")) as omni,
        omni.video("red") as video,
    ):
        with pytest.raises(VideoRefused) as refused:
            await video.interact(" ")
        assert refused.value.param == "interaction.event.prompt"
        await video.interact("blue", event_id="a")
        with pytest.raises(VideoRefused) as refused:
            await video.interact("green", event_id="a")
        assert refused.value.code == "event_id_conflict"
        await video.interact("bad", event_id="b")  # it is queued, and fails afterwards
        while "b" not in video.failures:
            await anext(video)
        assert video.failures["b"].code == "interaction_failed"
        assert await anext(video)


async def test_many_tasks_steer_one_video_while_nobody_reads_for_them() -> None:
    async with running() as omni, omni.video("red") as video:
        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(partial(video.interact, f"prompt {number}", event_id=f"{number}"))
        seen = 0
        async for chunk in video:
            seen += chunk.metadata.num_frames
            if seen > 60:
                break


async def test_tasks_that_say_the_same_are_answered_each() -> None:
    async with running() as omni, omni.video("red") as video:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(partial(video.interact, "blue", event_id="a"))
        with pytest.raises(VideoRefused) as refused:
            await video.interact("green", event_id="a")
        assert refused.value.code == "event_id_conflict"


async def test_what_is_refused_without_an_id_is_heard_by_who_said_it() -> None:
    async with running() as omni, omni.video("red") as video:
        for event_id in ("", "a" * 129):
            with pytest.raises(VideoRefused) as refused:
                await video.interact("blue", event_id=event_id)
            assert (refused.value.code, refused.value.param) == (
                "invalid_interaction",
                "interaction.event_id",
            )
        with pytest.raises(VideoRefused) as refused:
            await video.interact("blue", event={"style": "x" * 200_000})
        assert refused.value.code == "message_too_large"
        await video.stop()
        await all_of(video)
        assert video.done is not None, "the video itself has failed"


async def test_who_does_not_wait_for_the_answer_leaves_it_to_nobody_else() -> None:
    async with running() as omni, omni.video("red") as video:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(video.interact, "blue", event_id="a"))
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        with pytest.raises(VideoRefused) as refused:
            await video.interact("green", event_id="a")
        assert refused.value.code == "event_id_conflict"
        assert await video.interact("blue", event_id="a") == "a"


async def test_a_video_that_fails_says_why() -> None:
    async with running(VideoScript(fail_at_chunk=2)) as omni, omni.video("red") as video:
        with pytest.raises(VideoFailed) as failed:
            await all_of(video)
        assert failed.value.code == "generation_failed"


async def test_a_video_ends_with_the_drain_of_its_engine() -> None:
    async with running() as omni, omni.video("red", streaming_buffer_seconds=0.1) as video:
        await anext(video)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(omni.drain, 0.0)
            with pytest.raises(VideoFailed) as failed:
                await all_of(video)
        assert failed.value.code == "server_shutdown"
        with pytest.raises(RequestRefused) as refused:
            await omni.video("blue").__aenter__()
        assert refused.value.code == "server_shutdown"


# ---------------------------------------------------------------------- the start


class Faulty(ScriptedVideoPipeline):
    """Has a plugin with a fault."""

    def __init__(self, method: str, fault: Any) -> None:
        super().__init__()
        self._method, self._fault = method, fault

    def build_video_plugin(self) -> VideoModelPlugin:
        plugin: VideoModelPlugin = super().build_video_plugin()
        if self._method in ("load", "open"):
            setattr(plugin, self._method, self._fault)
        else:
            begin = plugin.open

            def begin_faulty(*arguments: Any) -> Any:
                session = begin(*arguments)
                setattr(session, self._method, self._fault)
                return session

            plugin.open = begin_faulty  # type: ignore[method-assign]
        return plugin


def breaks(*_: Any, **__: Any) -> Any:
    raise OSError("cut off")


@pytest.mark.parametrize(
    ("method", "fault", "told"),
    [
        ("load", breaks, "the model could not be loaded: OSError: cut off"),
        ("open", breaks, "the model did not begin a video: OSError: cut off"),
        ("encode_interaction", breaks, "the prompt could not be encoded: OSError: cut off"),
        ("render_chunk", breaks, "no chunk could be rendered: OSError: cut off"),
        ("render_chunk", lambda *_, **__: (), "the model rendered 0 frames of 9"),
    ],
)
async def test_a_model_that_does_not_work_is_found_before_it_is_served(
    method: str, fault: Any, told: str
) -> None:
    omni = VideoOmni(Faulty(method, fault))
    with pytest.RaisesGroup(pytest.RaisesExc(WarmUpError, match=told), flatten_subgroups=True):
        async with omni.running():
            pytest.fail("it works")


async def test_the_warm_up_is_nobodys_video() -> None:
    """It takes no place, and is not counted."""
    pipeline = ScriptedVideoPipeline()
    async with VideoOmni(pipeline, limits=VideoSessionDeploy(max_sessions=1)).running() as omni:
        assert omni.videos == 0
        assert b"duplex_videos_started_total 0.0" in omni.render_metrics()


async def test_a_model_is_loaded_without_a_warm_up_and_closed_at_the_end() -> None:
    calls: list[str] = []
    pipeline = ScriptedVideoPipeline()
    omni = VideoOmni(pipeline, warm_up=False)
    plugin = omni.video_engine.plugin
    plugin.load = lambda: calls.append("load")  # type: ignore[method-assign]
    plugin.close = lambda: calls.append("close")  # type: ignore[method-assign]
    async with omni.running():
        assert calls == ["load"]
    assert calls == ["load", "close"]


async def test_a_model_is_closed_when_nothing_of_it_is_left() -> None:
    """A video outside of the block in which its engine runs ends with that, and before its model does."""
    calls: list[str] = []
    pipeline = Faulty("close", lambda: calls.append("end of the video"))
    omni = VideoOmni(pipeline, warm_up=False)
    omni.video_engine.plugin.close = lambda: calls.append("close")  # type: ignore[method-assign]
    transport, peer = memory_transports()
    with trio.fail_after(GUARD_S):
        async with trio.open_nursery() as nursery:
            async with omni.running():
                nursery.start_soon(omni.serve, transport)
                await peer.send(SessionStart(prompt="red", streaming_buffer_seconds=None))
                await peer.receive()
                nursery.start_soon(read_all, peer)
            assert calls == ["end of the video", "close"]


async def read_all(peer: MemoryPeer) -> None:
    with suppress(TransportClosedError):
        while True:
            await peer.receive()


async def test_a_model_that_is_given_up_in_its_warm_up_is_not_closed_below_it() -> None:
    """Its thread goes on with it for a while."""
    calls: list[str] = []
    begun, over = trio.Event(), threading.Event()
    token = trio.lowlevel.current_trio_token()

    def render(*_: Any, **__: Any) -> Any:
        token.run_sync_soon(begun.set)
        over.wait(GUARD_S)
        return ()

    omni = VideoOmni(Faulty("render_chunk", render))
    omni.video_engine.plugin.close = lambda: calls.append("close")  # type: ignore[method-assign]
    with trio.fail_after(GUARD_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(omni.run)
            await begun.wait()
            nursery.cancel_scope.cancel()
    over.set()
    assert not calls


async def test_a_deployment_bounds_videos() -> None:
    omni = VideoOmni.from_deploy("scripted_video")
    assert (omni.max_videos, omni.model_name, omni.session_mode) == (4, "scripted_video", "video")
    deploy = attrs.evolve(omni.pipeline.deploy, video_session=VideoSessionDeploy(max_sessions=3))
    assert VideoOmni.from_deploy(deploy).max_videos == 3
    await trio.lowlevel.checkpoint()
