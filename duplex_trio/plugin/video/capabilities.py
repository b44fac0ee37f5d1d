"""What a model of video can do: what requests are held to, and what is assumed where they say nothing."""

from __future__ import annotations

from attrs import frozen


@frozen(kw_only=True)
class VideoCapabilities:
    """Abilities and defaults of one model.

    Attributes:
        native_fps: frames a second that the model is made for; the default of a request.
        chunk_frames: frames that are rendered from one state of the prompt; the last chunk may have fewer.
        default_width: pixels, where a request does not say.
        default_height: pixels, where a request does not say.
        side_min: the shortest side in pixels.
        side_max: the longest side in pixels.
        side_multiple: sides are a multiple of it; 2 at least, as the encoders halve the colours.
        default_transition_chunks: chunks that a new prompt takes to come into force where its sender does not say.
        supports_prompt_updates: whether the prompt of a video that runs can be changed; else each change is answered
            with `interaction_failed`.
        start_fields: fields of the start, beyond those that every model takes, that this one reads:
            `num_inference_steps`, `guidance_scale`, `negative_prompt`, `extra_params`, `lora`, `image_reference`.
            Others are refused with `invalid_start`.
        max_sessions: videos that the model can run at once; None leaves it to the deployment.
    """

    native_fps: float = 16.0
    chunk_frames: int = 9
    default_width: int = 256
    default_height: int = 256
    side_min: int = 64
    side_max: int = 1024
    side_multiple: int = 2
    default_transition_chunks: int = 3
    supports_prompt_updates: bool = True
    start_fields: frozenset[str] = frozenset()
    max_sessions: int | None = None
