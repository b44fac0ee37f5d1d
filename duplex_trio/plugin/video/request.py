"""A video as a model is asked for it: every value is there and within what the model declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from attrs import Factory, frozen


class OmniInteractionEvent(TypedDict, total=False):
    """What a client sends to steer a video. Keys other than `prompt` come through unread: the model decides.

    A model that does not know a key raises `NotImplementedError` for it.
    """

    prompt: str
    negative_prompt: Any
    multi_modal_data: Any


def prompt_of(event: OmniInteractionEvent, model: str) -> str:
    """The prompt, for a model that reads nothing else.

    Args:
        event: what its client wants.
        model: how the model is called in what the client is told.

    Raises:
        NotImplementedError: there is something else in it.
    """
    for key in event:
        if key != "prompt":
            raise NotImplementedError(f"{model} does not support {key!r}")
    return event["prompt"]


@frozen(kw_only=True)
class VideoRequest:
    """One video.

    Attributes:
        request_id: its id, on the wire and in logs.
        prompt: what it begins with.
        width: pixels.
        height: pixels.
        fps: frames for a second of playback.
        num_frames: frames in all; None runs until it is stopped.
        seed: decides everything that is random in it, -2**63..2**63 - 1.
        num_inference_steps: 1..200; None leaves it to the model, as every None below.
        guidance_scale: 0..20.
        negative_prompt: what is to be kept out of it.
        extra_params: parameters that only the model knows.
        lora: adapter weights, as the model reads them.
        image_reference: a picture to begin with, as the model reads it.
    """

    request_id: str
    prompt: str
    width: int
    height: int
    fps: float
    num_frames: int | None = None
    seed: int = 0
    num_inference_steps: int | None = None
    guidance_scale: float | None = None
    negative_prompt: str | None = None
    extra_params: Mapping[str, Any] = Factory(dict)
    lora: Mapping[str, Any] | None = None
    image_reference: Any = None
