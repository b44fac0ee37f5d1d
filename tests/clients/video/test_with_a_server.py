"""The client and the whole of the server with the scripted model, in one process without a socket and over sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import numpy as np
import orjson
import pytest
import trio

from duplex_trio.clients import RealtimeVideoClient, VideoChunk
from duplex_trio.clients.video import (
    InteractionConflictError,
    InteractionFailedError,
    InteractionRefusedError,
    VideoBusyError,
    VideoConnectionError,
    VideoEndedError,
    VideoFailedError,
    VideoRefusedError,
)
from duplex_trio.deploy import VideoSessionDeploy
from duplex_trio.entrypoints.video_omni import VideoOmni
from duplex_trio.models.scripted.video import ScriptedVideoPipeline
from duplex_trio.models.scripted.video_picture import colour_of, read_picture
from duplex_trio.serving.options import ServeOptions
from duplex_trio.serving.run import run_server
from duplex_trio.testing.video_frames import decode_frames
from duplex_trio.testing.video_link import MemoryLink
from duplex_trio.testing.video_peer import read_all

pytestmark = [pytest.mark.e2e]
GUARD_S = 60
Make = Callable[..., RealtimeVideoClient]


def make_omni(**options: Any) -> VideoOmni:
    return VideoOmni(
        ScriptedVideoPipeline(**options), limits=VideoSessionDeploy(max_sessions=2), warm_up=False
    )


@asynccontextmanager
async def in_memory(nursery: trio.Nursery, **options: Any) -> AsyncIterator[Make]:
    async with make_omni(**options).running() as omni:
        yield lambda **fields: RealtimeVideoClient(MemoryLink(omni.serve), **{"prompt": "red", **fields})


@asynccontextmanager
async def over_a_socket(nursery: trio.Nursery, **options: Any) -> AsyncIterator[Make]:
    settings = ServeOptions(port=0, api_keys=("k",))
    async with trio.open_nursery() as serving:
        address = await serving.start(partial(run_server, partial(make_omni, **options), settings))
        yield lambda **fields: RealtimeVideoClient(
            address.ws_url, **{"prompt": "red", "api_key": "k", **fields}
        )
        serving.cancel_scope.cancel()


@pytest.fixture(params=[in_memory, over_a_socket], ids=["memory", "socket"])
def serving(request: pytest.FixtureRequest, nursery: trio.Nursery) -> Any:
    return partial(request.param, nursery)


def slow(frame_delay_s: float = 0.01, **more: Any) -> dict[str, Any]:
    return {"streaming_buffer_seconds": None, "extra_params": {"frame_delay_s": frame_delay_s, **more}}


def colour_near(chunks: list[VideoChunk], frame: int, prompt: str) -> bool:
    frames = decode_frames(b"".join(chunk.payload for chunk in chunks))
    assert len(frames) == sum(chunk.num_frames for chunk in chunks)
    return bool(np.abs(read_picture(frames[frame]).colour - colour_of(prompt)).max() < 12)


@pytest.mark.parametrize("format", ["m4s", "webm"])
async def test_a_video_is_steered_and_decodes(serving: Any, format: str) -> None:
    with trio.fail_after(GUARD_S):
        async with serving() as client, client(num_frames=60, format=format, **slow()) as video:
            assert video.started.mime_type.startswith("video/mp4" if format == "m4s" else "video/webm")
            chunks = [await video.__anext__()]
            event_id = await video.interact("blue", transition_chunks=2)
            chunks += await read_all(video)
            interaction = video.interactions[event_id]
            assert video.done is not None
    assert video.done.interactions == {event_id: "completed"}
    assert (interaction.state, video.done.frames, video.received.frames) == ("completed", 60, 60)
    assert interaction.completed_frame is not None
    assert interaction.started_frame == interaction.completed_frame - 9
    assert colour_near(chunks, 0, "red")
    assert colour_near(chunks, interaction.completed_frame, "blue")


async def test_refusals_name_what_is_wrong_and_the_video_goes_on(serving: Any) -> None:
    wrong: list[tuple[dict[str, Any], str, str | None]] = [
        ({"prompt": " "}, "invalid_interaction", "interaction.event.prompt"),
        ({"prompt": "x" * 5000}, "invalid_interaction", "interaction.event.prompt"),
        ({"prompt": "x", "transition_chunks": -1}, "invalid_interaction", "interaction.transition_chunks"),
        ({"prompt": "x", "transition_chunks": True}, "invalid_interaction", "interaction.transition_chunks"),
        ({"prompt": "x", "event_id": ""}, "invalid_interaction", "interaction.event_id"),
        ({"prompt": "x", "event_id": "x" * 129}, "invalid_interaction", "interaction.event_id"),
        ({"prompt": "x", "more": "x" * 200_000}, "message_too_large", None),
        ({"prompt": "x", "more": orjson.loads("[" * 40 + "]" * 40)}, "invalid_json", None),
    ]
    with trio.fail_after(GUARD_S):
        async with serving() as client, client(**slow()) as video:
            for fields, code, param in wrong:
                with pytest.raises(InteractionRefusedError) as caught:
                    await video.interact(**fields)
                assert (caught.value.code, caught.value.param) == (code, param), fields
            await video.interact("green", event_id="a", transition_chunks=0)
            await video.interact("green", event_id="a", transition_chunks=0)
            with pytest.raises(InteractionConflictError):
                await video.interact("green", event_id="a", transition_chunks=1)
            await video.interact("green", event_id="b", negative_prompt="people")
            failed = await video.outcome("b")
            assert (failed.state, "negative_prompt" in str(failed.error)) == ("failed", True)
            assert (await video.outcome("a")).state == "completed"
            assert await video.ping() < GUARD_S
            await video.stop()
            await read_all(video)
            with pytest.raises((InteractionFailedError, VideoEndedError)):
                await video.interact("too late")


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"prompt": ""}, "invalid_start", "prompt"),
        ({"width": 63}, "invalid_start", "width"),
        ({"height": 4096}, "invalid_start", "height"),
        ({"fps": 1000}, "invalid_start", "fps"),
        ({"format": "gif"}, "invalid_start", "format"),
        ({"seconds": 1e6}, "invalid_start", "seconds"),
        ({"model": "another"}, "model_not_found", "model"),
        ({"guidance_scale": 2.0}, "invalid_start", "guidance_scale"),
        ({"extra_params": {"colour": 1}}, "invalid_start", None),
    ],
)
async def test_a_start_that_is_refused(
    serving: Any, fields: dict[str, Any], code: str, param: str | None
) -> None:
    with trio.fail_after(GUARD_S):
        async with serving() as client:
            with pytest.raises(VideoRefusedError) as caught:
                async with client(**fields):
                    pytest.fail("it must not begin")
            assert (caught.value.code, caught.value.param) == (code, param)


async def test_a_third_video_has_to_wait_for_its_turn(serving: Any) -> None:
    with trio.fail_after(GUARD_S):
        async with serving() as client, client(), client():
            with pytest.raises(VideoBusyError):
                async with client():
                    pytest.fail("it must not begin")


async def test_a_model_that_breaks_fails_the_video(serving: Any) -> None:
    with trio.fail_after(GUARD_S):
        async with serving() as client, client(**slow(fail_at_chunk=2)) as video:
            with pytest.raises(VideoFailedError, match="generation_failed") as caught:
                await read_all(video)
            assert caught.value.received.frames == 18


async def test_a_model_whose_prompt_cannot_change(serving: Any) -> None:
    with trio.fail_after(GUARD_S):
        async with serving(supports_prompt_updates=False) as client, client(**slow()) as video:
            assert not video.started.supports_interaction
            interaction = await video.outcome(await video.interact("blue"))
            assert (interaction.state, "does not support" in str(interaction.error)) == ("failed", True)


async def test_a_flood_is_answered_one_by_one(serving: Any) -> None:
    answers: list[str] = []

    async def ask(video: RealtimeVideoClient, number: int) -> None:
        try:
            answers.append(await video.interact(f"x{number}", event_id=f"{number}"))
        except InteractionRefusedError as error:
            answers.append(error.code)

    with trio.fail_after(GUARD_S):
        async with serving() as client, client(**slow()) as video:
            async with trio.open_nursery() as asking:
                for number in range(50):
                    asking.start_soon(ask, video, number)
            refused = [answer for answer in answers if answer == "input_backpressure"]
            assert len(answers) == 50
            assert refused
            assert len(refused) < 40
            await video.stop()
            await read_all(video)
            assert {each.state for each in video.interactions.values()} <= {
                "completed",
                "interrupted",
                "superseded",
                "unfinished",
                "failed",
            }


async def test_who_does_not_read_may_still_steer(serving: Any) -> None:
    fields: dict[str, Any] = {"width": 512, "height": 512, "buffer_bytes_max": 1000, "num_frames": 200}
    with trio.fail_after(GUARD_S):
        async with serving() as client, client(streaming_buffer_seconds=None, **fields) as video:
            await video.ping(GUARD_S)  # what stood before its answer is more than the buffer holds
            await video.interact("blue", event_id="a", timeout_s=GUARD_S)
            chunks = await read_all(video)
    assert sum(chunk.num_frames for chunk in chunks) == 200
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))


async def test_a_wrong_key_is_told(nursery: trio.Nursery) -> None:
    with trio.fail_after(GUARD_S):
        async with over_a_socket(nursery) as client:
            with pytest.raises(VideoConnectionError, match="API key") as caught:
                async with client(api_key="wrong"):
                    pytest.fail("it must not begin")
            assert caught.value.status == 401
