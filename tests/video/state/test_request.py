"""A request against what its model can do and what the deployment allows."""

from __future__ import annotations

from typing import Any

import pytest

from duplex_trio.deploy.video import VideoSessionDeploy
from duplex_trio.plugin.video.capabilities import VideoCapabilities
from duplex_trio.plugin.video.request import VideoRequest
from duplex_trio.protocol.video import SessionStart, VideoRefused
from duplex_trio.video.state.request import frames_max, resolve_request, shown_config

OPTIONAL: dict[str, Any] = {
    "num_inference_steps": 8,
    "guidance_scale": 0.0,
    "negative_prompt": "",
    "extra_params": {"k": [1]},
    "lora": {"name": "l"},
    "image_reference": {"image_url": "data:"},
}
LIMITS = VideoSessionDeploy()


def resolve(
    capabilities: VideoCapabilities | None = None,
    limits: VideoSessionDeploy = LIMITS,
    **fields: Any,
) -> VideoRequest:
    return resolve_request(
        SessionStart(prompt="a street", **fields),
        capabilities if capabilities is not None else VideoCapabilities(),
        limits,
        request_id="video_stream-0",
        model_name="scene",
        seed=7,
    )


def fault(
    capabilities: VideoCapabilities | None = None,
    limits: VideoSessionDeploy = LIMITS,
    **fields: Any,
) -> tuple[str, str | None]:
    with pytest.raises(VideoRefused) as caught:
        resolve(capabilities, limits, **fields)
    return caught.value.code, caught.value.param


def test_what_is_left_open_is_the_models_own() -> None:
    model = VideoCapabilities(native_fps=24.0, default_width=512, default_height=320)
    assert resolve(model) == VideoRequest(
        request_id="video_stream-0",
        prompt="a street",
        width=512,
        height=320,
        fps=24.0,
        num_frames=None,
        seed=7,
    )


def test_what_is_asked_for_is_taken() -> None:
    request = resolve(model="scene", width=64, height=1024, fps=1.0, num_frames=600, seed=2**63 - 1)
    assert (request.width, request.height, request.fps) == (64, 1024, 1.0)
    assert (request.num_frames, request.seed) == (600, 2**63 - 1)
    assert resolve(seed=0).seed == 0


@pytest.mark.parametrize("param", ["width", "height"])
@pytest.mark.parametrize("side", [1, 62, 63, 65, 1025, 1026, 2**53])
def test_a_side_is_even_and_between_the_models_bounds(param: str, side: int) -> None:
    assert fault(**{param: side}) == ("invalid_start", param)


@pytest.mark.parametrize("side", [64, 66, 1022, 1024])
def test_a_side_at_a_bound_is_taken(side: int) -> None:
    request = resolve(width=side, height=side)
    assert (request.width, request.height) == (side, side)


def test_the_bounds_are_the_models() -> None:
    model = VideoCapabilities(side_min=128, side_max=512, side_multiple=32)
    assert resolve(model, width=128, height=512).width == 128
    for side in (64, 96, 130, 544):
        assert fault(model, width=side) == ("invalid_start", "width")


def test_another_model_is_not_found() -> None:
    """Whatever else is wrong, for that is the other model's to judge."""
    assert fault(model="other", width=1) == ("model_not_found", "model")
    assert fault(model="") == ("model_not_found", "model")


@pytest.mark.parametrize("name", OPTIONAL)
def test_a_field_that_the_model_does_not_read_is_refused(name: str) -> None:
    """And taken where the model declares it, whatever its value."""
    others = VideoCapabilities(start_fields=frozenset(OPTIONAL) - {name})
    assert fault(others, **{name: OPTIONAL[name]}) == ("invalid_start", name)
    model = VideoCapabilities(start_fields=frozenset({name}))
    assert getattr(resolve(model, **{name: OPTIONAL[name]}), name) == OPTIONAL[name]


def test_parameters_of_nobodys_are_named() -> None:
    with pytest.raises(VideoRefused, match="flow_shift"):
        resolve(extra_params={"flow_shift": 3})


@pytest.mark.parametrize(
    ("fps", "seconds", "frames"), [(16.0, 4.0, 64), (29.97, 1.0, 30), (1.0, 0.1, 1), (24.0, 0.5, 12)]
)
def test_seconds_become_frames(fps: float, seconds: float, frames: int) -> None:
    request = resolve(fps=fps, seconds=seconds)
    assert request.num_frames == frames == frames_max(request, LIMITS)


def test_a_number_of_frames_wins_over_seconds() -> None:
    assert resolve(num_frames=5, seconds=4.0).num_frames == 5
    assert resolve(num_frames=5, seconds=1e300).num_frames == 5


def test_a_video_is_no_longer_than_the_deployment_allows() -> None:
    """At its native rate of 16 as at any other."""
    assert resolve(num_frames=9600).num_frames == 9600
    assert fault(num_frames=9601) == ("invalid_start", "num_frames")
    assert resolve(seconds=600.0).num_frames == 9600
    assert fault(seconds=600.1) == ("invalid_start", "seconds")
    assert fault(seconds=1e300) == ("invalid_start", "seconds")
    assert fault(limits=VideoSessionDeploy(max_session_s=2.0), num_frames=33) == (
        "invalid_start",
        "num_frames",
    )


@pytest.mark.parametrize(
    ("fps", "max_session_s", "frames"),
    [(16.0, 600.0, 9600), (29.97, 600.0, 17982), (4.35, 100.0, 435), (1.0, 0.5, 1)],
)
def test_a_video_without_an_end_has_one(fps: float, max_session_s: float, frames: int) -> None:
    assert frames_max(resolve(fps=fps), VideoSessionDeploy(max_session_s=max_session_s)) == frames


def test_the_configuration_is_told() -> None:
    """All that is in force, and of what only some models read, what was asked for."""
    start = SessionStart(prompt="a street", format="webm", streaming_buffer_seconds=None)
    assert shown_config(resolve(), "scene", start) == {
        "model": "scene",
        "prompt": "a street",
        "width": 256,
        "height": 256,
        "fps": 16.0,
        "num_frames": None,
        "seed": 7,
        "format": "webm",
        "streaming_buffer_seconds": None,
    }
    model = VideoCapabilities(start_fields=frozenset(OPTIONAL))
    told = shown_config(resolve(model, **OPTIONAL), "scene", start)
    assert {name: told[name] for name in OPTIONAL} == OPTIONAL
