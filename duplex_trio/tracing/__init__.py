"""What a session tells a tracer: the seam, what is told over it, and OpenTelemetry behind it where that is wanted.

The seam costs nothing while nobody listens: `NO_TRACER` keeps nothing, and no package is imported for it.
"""

from duplex_trio.tracing.port import (
    NO_SESSION_TRACE,
    NO_TRACER,
    NO_VIDEO_TRACE,
    ResponseEnding,
    SessionEnding,
    SessionOpening,
    SessionTrace,
    Tracer,
    VideoTrace,
)
from duplex_trio.tracing.spells import StageSpell, StageSpells

__all__ = [
    "NO_SESSION_TRACE",
    "NO_TRACER",
    "NO_VIDEO_TRACE",
    "ResponseEnding",
    "SessionEnding",
    "SessionOpening",
    "SessionTrace",
    "StageSpell",
    "StageSpells",
    "Tracer",
    "VideoTrace",
]
