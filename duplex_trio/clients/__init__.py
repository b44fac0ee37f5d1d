"""The client library: `DuplexClient` talks to a server, `InlineDuplexClient` to an engine in the same program,
`PlaybackCursor` says what the user has heard, `SyncDuplexClient` is for programs without Trio, `RealtimeVideoClient`
watches and steers a video.

`base` and `commands` hold what every client offers, `websocket` and `inline` the transports, `resumption` and
`outbox` what makes a session outlive its connections, `run` the tasks, `events` the views of what a server
says, `responses` the answers one by one, `playback` the play-out that `acknowledger` tells of. `presets`,
`media`, `files` and `collector` are helpers, `video` is a package of its own.
"""

from duplex_trio.clients.base import DuplexClientBase
from duplex_trio.clients.collector import EventCollector, ResponseTiming, TimingSummary
from duplex_trio.clients.config import SERVER_DEFAULT, AudioFormat, SessionConfig
from duplex_trio.clients.distribution import Distribution
from duplex_trio.clients.errors import (
    DuplexBufferFullError,
    DuplexClientError,
    DuplexConnectionError,
    DuplexLagError,
    DuplexProtocolError,
    DuplexSessionClosedError,
    DuplexSessionReplacedError,
    first_error,
)
from duplex_trio.clients.events import FunctionCall, ServerEvent
from duplex_trio.clients.fanout import EventStream
from duplex_trio.clients.files import encode_pcm, load_wav
from duplex_trio.clients.inline import InlineDuplexClient
from duplex_trio.clients.media import (
    audio_data_url,
    image_data_url,
    read_pcm16_wav,
    reference_audio_data_url,
    write_pcm16_wav,
)
from duplex_trio.clients.playback import PlaybackCursor
from duplex_trio.clients.presets import default_preset, minicpm_o_4_5, nemotron_voicechat, personaplex
from duplex_trio.clients.reconnect import ReconnectPolicy
from duplex_trio.clients.responses import ResponseHandle, ResponseStream
from duplex_trio.clients.sync import SyncDuplexClient, SyncEventStream, SyncResponse, SyncResponseStream
from duplex_trio.clients.url import build_realtime_url, build_video_url
from duplex_trio.clients.video import RealtimeVideoClient, VideoChunk
from duplex_trio.clients.websocket import DuplexClient

__all__ = [
    "SERVER_DEFAULT",
    "AudioFormat",
    "Distribution",
    "DuplexBufferFullError",
    "DuplexClient",
    "DuplexClientBase",
    "DuplexClientError",
    "DuplexConnectionError",
    "DuplexLagError",
    "DuplexProtocolError",
    "DuplexSessionClosedError",
    "DuplexSessionReplacedError",
    "EventCollector",
    "EventStream",
    "FunctionCall",
    "InlineDuplexClient",
    "PlaybackCursor",
    "RealtimeVideoClient",
    "ReconnectPolicy",
    "ResponseHandle",
    "ResponseStream",
    "ResponseTiming",
    "ServerEvent",
    "SessionConfig",
    "SyncDuplexClient",
    "SyncEventStream",
    "SyncResponse",
    "SyncResponseStream",
    "TimingSummary",
    "VideoChunk",
    "audio_data_url",
    "build_realtime_url",
    "build_video_url",
    "default_preset",
    "encode_pcm",
    "first_error",
    "image_data_url",
    "load_wav",
    "minicpm_o_4_5",
    "nemotron_voicechat",
    "personaplex",
    "read_pcm16_wav",
    "reference_audio_data_url",
    "write_pcm16_wav",
]
