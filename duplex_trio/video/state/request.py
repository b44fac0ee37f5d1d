"""The request of a video, held against what its model can do and what the deployment allows."""

from __future__ import annotations

import math
from typing import Any

from duplex_trio.deploy.video import VideoSessionDeploy
from duplex_trio.plugin.video.capabilities import VideoCapabilities
from duplex_trio.plugin.video.request import VideoRequest
from duplex_trio.protocol.video import SessionStart, VideoRefused

_OPTIONAL = (
    "num_inference_steps", "guidance_scale", "negative_prompt", "extra_params", "lora", "image_reference",
)  # fmt: skip
"""Fields that a model has to declare (`VideoCapabilities.start_fields`)."""
_ROUNDING = 1e-6
"""Of a frame: 100 s at 4.35 frames a second are 435 frames, and 434.99999999999994 as floats."""


def resolve_request(
    start: SessionStart,
    capabilities: VideoCapabilities,
    limits: VideoSessionDeploy,
    *,
    request_id: str,
    model_name: str,
    seed: int,
) -> VideoRequest:
    """The request with all that it leaves open filled in.

    Args:
        start: as it was read.
        capabilities: of the model.
        limits: of the deployment.
        request_id: a new id.
        model_name: what the model is called here.
        seed: for a request without one. Below 2**53, any client reads exactly what it is told.

    Raises:
        VideoRefused: `model_not_found`, or `invalid_start` with the field in `param`.
    """
    if start.model is not None and start.model != model_name:
        message = f"There is no model {start.model[:64]!r} here, but {model_name!r}."
        raise VideoRefused("model_not_found", message, param="model")
    for name in _OPTIONAL:
        if getattr(start, name) not in (None, {}) and name not in capabilities.start_fields:
            raise _invalid(name, _unread(name, start))
    fps = start.fps if start.fps is not None else capabilities.native_fps
    return VideoRequest(
        request_id=request_id,
        prompt=start.prompt,
        width=_side("width", start.width, capabilities.default_width, capabilities),
        height=_side("height", start.height, capabilities.default_height, capabilities),
        fps=fps,
        num_frames=_frames(start, fps, limits),
        seed=start.seed if start.seed is not None else seed,
        num_inference_steps=start.num_inference_steps,
        guidance_scale=start.guidance_scale,
        negative_prompt=start.negative_prompt,
        extra_params=start.extra_params,
        lora=start.lora,
        image_reference=start.image_reference,
    )


def shown_config(request: VideoRequest, model_name: str, start: SessionStart) -> dict[str, Any]:
    """What `video.start` says is in force. `num_frames` is null for a video that runs until it is stopped."""
    config: dict[str, Any] = {
        "model": model_name,
        "prompt": request.prompt,
        "width": request.width,
        "height": request.height,
        "fps": request.fps,
        "num_frames": request.num_frames,
        "seed": request.seed,
        "format": start.format,
        "streaming_buffer_seconds": start.streaming_buffer_seconds,
    }
    given = {name: getattr(request, name) for name in _OPTIONAL}
    return config | {name: value for name, value in given.items() if value not in (None, {})}


def frames_max(request: VideoRequest, limits: VideoSessionDeploy) -> int:
    """How many frames are generated if nobody stops it."""
    return request.num_frames if request.num_frames is not None else _most(request.fps, limits)


def _most(fps: float, limits: VideoSessionDeploy) -> int:
    return max(1, math.floor(limits.max_session_s * fps + _ROUNDING))


def _frames(start: SessionStart, fps: float, limits: VideoSessionDeploy) -> int | None:
    """`num_frames` wins over `seconds`, as in vLLM-Omni."""
    if start.num_frames is not None:
        param, frames = "num_frames", start.num_frames
    elif start.seconds is not None:
        # More than anything allows is cut, so that it can be counted.
        seconds = min(start.seconds, 2 * limits.max_session_s)
        param, frames = "seconds", max(1, round(seconds * fps))
    else:
        return None
    if frames > _most(fps, limits):
        raise _invalid(param, f"a video lasts at most {limits.max_session_s:g} seconds here")
    return frames


def _side(param: str, asked: int | None, default: int, capabilities: VideoCapabilities) -> int:
    if asked is None:
        return default
    low, high, multiple = capabilities.side_min, capabilities.side_max, capabilities.side_multiple
    if not low <= asked <= high or asked % multiple:
        kind = "an even number" if multiple == 2 else f"a multiple of {multiple}"
        raise _invalid(param, f"expected {kind} from {low} to {high}")
    return asked


def _unread(name: str, start: SessionStart) -> str:
    if name != "extra_params":
        return "the model does not read it"
    names = ", ".join(sorted(start.extra_params)[:8])[:200]
    return f"the model reads none of its own, such as {names}"


def _invalid(param: str, message: str) -> VideoRefused:
    return VideoRefused("invalid_start", f"{param}: {message}.", param=param)
