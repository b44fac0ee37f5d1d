"""The messages of `WS /v1/realtime/video`: what clients send, and what they get. How they are read is `codec`'s."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from attrs import Factory, frozen

PayloadKind = Literal["media", "trailer"]
VideoFormat = Literal["m4s", "webm"]
InteractionOutcome = Literal["completed", "superseded", "interrupted", "unfinished", "failed", "queued"]


@frozen(kw_only=True)
class VideoMessage:
    """Any message, by its `type`."""

    type: ClassVar[str]


# ---------------------------------------------------------------------- from clients


@frozen(kw_only=True)
class SessionStart(VideoMessage):
    """The one request of a connection, its first message. None is what the client left open.

    `width` and `height` may have come as `size` or in `video_params`; `seconds` is not yet turned into frames.
    `streaming_buffer_seconds` is how far generation may run ahead of what is played: None is no bound at all.
    Fields of `sampling_params` are as if they stood at the top; what no field knows is in `extra_params`.
    """

    type: ClassVar[str] = "session.start"

    prompt: str
    model: str | None = None
    width: int | None = None
    height: int | None = None
    num_frames: int | None = None
    seconds: float | None = None
    fps: float | None = None
    seed: int | None = None
    num_inference_steps: int | None = None
    guidance_scale: float | None = None
    negative_prompt: str | None = None
    extra_params: Mapping[str, Any] = Factory(dict)
    lora: Mapping[str, Any] | None = None
    image_reference: Any = None
    format: VideoFormat = "m4s"
    streaming_buffer_seconds: float | None = 0.5


@frozen(kw_only=True)
class SessionInteraction(VideoMessage):
    """A change of the video that runs.

    Attributes:
        event_id: the client's name for it; None lets the server choose one.
        event: `prompt`, and whatever else the client put there, for the model to take or to refuse.
        transition_chunks: chunks until it is in force: 0 at once; None as the model's default.
    """

    type: ClassVar[str] = "session.interaction"

    event_id: str | None
    event: Mapping[str, Any]
    transition_chunks: int | None


@frozen(kw_only=True)
class SessionPing(VideoMessage):
    """A sign of life that is answered with another one."""

    type: ClassVar[str] = "session.ping"


@frozen(kw_only=True)
class SessionStop(VideoMessage):
    """The end of generation, as the client wants it."""

    type: ClassVar[str] = "session.stop"


@frozen(kw_only=True)
class SessionPlayback(VideoMessage):
    """How far the client has played, in seconds from the start: finite and not negative."""

    type: ClassVar[str] = "session.playback"

    position_seconds: float


VideoCommand = SessionStart | SessionInteraction | SessionPing | SessionStop | SessionPlayback


# ---------------------------------------------------------------------- to clients


@frozen(kw_only=True)
class VideoStarted(VideoMessage):
    """The request was taken.

    Attributes:
        request_id: `video_stream-` and 32 hexadecimal digits.
        format: as asked.
        mime_type: what MediaSource needs to hear.
        config: the values that are in force: prompt, model, width, height, fps, num_frames, seed, ...
        chunk_frames: frames of one chunk.
        default_transition_chunks: chunks of a transition where an interaction does not say.
        supports_interaction: whether the prompt can be changed.
    """

    type: ClassVar[str] = "video.start"

    request_id: str
    format: VideoFormat
    mime_type: str
    config: Mapping[str, Any]
    chunk_frames: int
    default_transition_chunks: int
    supports_interaction: bool


@frozen(kw_only=True)
class VideoChunkMetadata(VideoMessage):
    """What the binary message right behind it holds.

    Attributes:
        request_id: the video's.
        kind: frames, or what an encoder writes at its end.
        transport_chunk_index: counts these messages from 0, the trailer's among them.
        generation_chunk_index: the chunk as it was generated; None for the trailer.
        num_frames: frames that can be decoded from it.
        byte_length: of the binary message.
        started_event_ids: interactions that began to have an effect with this chunk.
        active_event_ids: interactions that have an effect on it.
        completed_event_ids: interactions that are fully in force with it.
    """

    type: ClassVar[str] = "video.chunk_metadata"

    request_id: str
    kind: PayloadKind
    transport_chunk_index: int
    generation_chunk_index: int | None
    num_frames: int
    byte_length: int
    started_event_ids: tuple[str, ...] = ()
    active_event_ids: tuple[str, ...] = ()
    completed_event_ids: tuple[str, ...] = ()


@frozen(kw_only=True)
class InteractionQueued(VideoMessage):
    """An interaction was admitted; it, or an `error` with its id, is heard of again."""

    type: ClassVar[str] = "session.interaction.queued"

    request_id: str
    event_id: str


@frozen(kw_only=True)
class SessionPong(VideoMessage):
    """The answer to a ping."""

    type: ClassVar[str] = "session.pong"


@frozen(kw_only=True)
class SessionDone(VideoMessage):
    """The end of a video that did not fail.

    Attributes:
        request_id: the video's.
        chunks: `video.chunk_metadata` messages that were sent, the trailer's among them.
        stopped: the client asked for it.
        frames: frames that were sent.
        interactions: what became of each interaction by its id, as far as it is remembered.
    """

    type: ClassVar[str] = "session.done"

    request_id: str
    chunks: int
    stopped: bool
    frames: int
    interactions: Mapping[str, InteractionOutcome]


@frozen(kw_only=True)
class VideoErrorEvent(VideoMessage):
    """Something was refused, or failed. None is left out on the wire."""

    type: ClassVar[str] = "error"

    code: str
    message: str
    param: str | None = None
    request_id: str | None = None
    event_id: str | None = None


VideoEvent = (
    VideoStarted | VideoChunkMetadata | InteractionQueued | SessionPong | SessionDone | VideoErrorEvent
)
