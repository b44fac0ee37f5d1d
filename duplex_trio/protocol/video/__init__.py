"""The protocol of steered video, `WS /v1/realtime/video`: its messages, their faults, and their form on the wire."""

from duplex_trio.protocol.video.codec import (
    VIDEO_COMMAND_CLASSES,
    VIDEO_EVENT_CLASSES,
    decode_command,
    decode_event,
    decode_start,
    encode_command,
    encode_event,
)
from duplex_trio.protocol.video.errors import VideoRefused
from duplex_trio.protocol.video.interaction import (
    EVENT_ID_CHARS_MAX,
    TRANSITION_CHUNKS_MAX,
    payload_digest,
)
from duplex_trio.protocol.video.json_text import DEPTH_MAX, MESSAGE_BYTES_MAX, START_BYTES_MAX
from duplex_trio.protocol.video.messages import (
    InteractionOutcome,
    InteractionQueued,
    PayloadKind,
    SessionDone,
    SessionInteraction,
    SessionPing,
    SessionPlayback,
    SessionPong,
    SessionStart,
    SessionStop,
    VideoChunkMetadata,
    VideoCommand,
    VideoErrorEvent,
    VideoEvent,
    VideoFormat,
    VideoMessage,
    VideoStarted,
)
from duplex_trio.protocol.video.reading import PROMPT_CHARS_MAX

__all__ = [
    "DEPTH_MAX",
    "EVENT_ID_CHARS_MAX",
    "MESSAGE_BYTES_MAX",
    "PROMPT_CHARS_MAX",
    "START_BYTES_MAX",
    "TRANSITION_CHUNKS_MAX",
    "VIDEO_COMMAND_CLASSES",
    "VIDEO_EVENT_CLASSES",
    "InteractionOutcome",
    "InteractionQueued",
    "PayloadKind",
    "SessionDone",
    "SessionInteraction",
    "SessionPing",
    "SessionPlayback",
    "SessionPong",
    "SessionStart",
    "SessionStop",
    "VideoChunkMetadata",
    "VideoCommand",
    "VideoErrorEvent",
    "VideoEvent",
    "VideoFormat",
    "VideoMessage",
    "VideoRefused",
    "VideoStarted",
    "decode_command",
    "decode_event",
    "decode_start",
    "encode_command",
    "encode_event",
    "payload_digest",
]
