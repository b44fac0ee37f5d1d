"""A Trio structured-concurrency server for full-duplex speech models.

The layers, each importing only what stands below it:

    cli            the `duplex-trio` command, the one place where everything is put together
    benchmarks     what `duplex-trio bench` measures
    testing        scripted models, conversations as data, a server in memory: for our tests and yours
    serving        transport: HTTP and WebSocket in front of sessions
    clients        the other end of the wire
    entrypoints    Python access to an engine: Omni, AsyncOmni, DuplexOmni, VideoOmni (docs/python.md)
    engine         all sessions, requests or videos of a model, and the stages they share
    session        one session: pure ledgers in `session.state`, tasks in `session.run`
    video          one steered video: pure accounts in `video.state`, tasks in `video.run`
    models         concrete models, each behind a plugin
    plugin         what a model brings for sessions, as ABCs
    pipelines      what a model is for requests: its stages, and what joins them; models by name
    stages         compute: replicas of a model runtime, in threads, in processes or on an engine elsewhere
    protocol       the wire: OpenAI Realtime (tier 1) and its duplex extensions (tiers 2 and 3)
    deploy         deployment files
    tracing        who is told of sessions, responses and stages; nobody by default
    lazy           names of a package that are loaded when they are asked for

Tasks are begun in files called `run.py`, and nowhere else; each has its tree at its top. docs/architecture.md puts
them together, and follows a piece of sound and an interruption through them.
"""

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from duplex_trio.lazy import lazy_names

if TYPE_CHECKING:
    from duplex_trio.entrypoints.async_omni import (
        AsyncOmni,
        CallOutput,
        EndOutput,
        Message,
        OmniAnswer,
        OmniOutput,
        OmniRequest,
        OmniResult,
        Picture,
        RequestError,
        RequestFailed,
        RequestRefused,
        Sampling,
        Sound,
        SpeechOutput,
        Text,
        TextOutput,
        TranscriptOutput,
        Usage,
    )
    from duplex_trio.entrypoints.duplex_omni import DuplexOmni
    from duplex_trio.entrypoints.omni import Omni
    from duplex_trio.entrypoints.video_omni import VideoOmni

try:
    __version__ = version("duplex-trio")
except PackageNotFoundError:  # run from a checkout that is not installed
    __version__ = "0+unknown"

__all__ = [
    "AsyncOmni",
    "CallOutput",
    "DuplexOmni",
    "EndOutput",
    "Message",
    "Omni",
    "OmniAnswer",
    "OmniOutput",
    "OmniRequest",
    "OmniResult",
    "Picture",
    "RequestError",
    "RequestFailed",
    "RequestRefused",
    "Sampling",
    "Sound",
    "SpeechOutput",
    "Text",
    "TextOutput",
    "TranscriptOutput",
    "Usage",
    "VideoOmni",
    "__version__",
]

_HOMES = {
    "duplex_trio.entrypoints.async_omni": (
        "AsyncOmni",
        "CallOutput",
        "EndOutput",
        "Message",
        "OmniAnswer",
        "OmniOutput",
        "OmniRequest",
        "OmniResult",
        "Picture",
        "RequestError",
        "RequestFailed",
        "RequestRefused",
        "Sampling",
        "Sound",
        "SpeechOutput",
        "Text",
        "TextOutput",
        "TranscriptOutput",
        "Usage",
    ),
    "duplex_trio.entrypoints.duplex_omni": ("DuplexOmni",),
    "duplex_trio.entrypoints.omni": ("Omni",),
    "duplex_trio.entrypoints.video_omni": ("VideoOmni",),
}

# The protocol needs no event loop, and requests need no sessions.
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
