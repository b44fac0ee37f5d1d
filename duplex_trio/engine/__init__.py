"""What runs a model: its stages, the requests over them, and the sessions of one that has them.

The names that serving, clients and entry points may use are here; the task tree is in `run`. They are loaded when they
are asked for, so that who answers requests alone loads nothing of sessions.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duplex_trio.deploy import SessionLimits
    from duplex_trio.engine.duplex_omni_engine import DuplexOmniEngine
    from duplex_trio.engine.metrics import EngineMetrics
    from duplex_trio.engine.stage_building import StageFactory
    from duplex_trio.session.attachment import Attachment, ResumableAttachment, ResumeGrant
    from duplex_trio.session.core import SessionEnd
    from duplex_trio.session.handle import DuplexSessionHandle
    from duplex_trio.session.state.journal import JournalGapError

_HOMES = {
    "SessionLimits": "duplex_trio.deploy",
    "DuplexOmniEngine": "duplex_trio.engine.duplex_omni_engine",
    "EngineMetrics": "duplex_trio.engine.metrics",
    "StageFactory": "duplex_trio.engine.stage_building",
    "Attachment": "duplex_trio.session.attachment",
    "ResumableAttachment": "duplex_trio.session.attachment",
    "ResumeGrant": "duplex_trio.session.attachment",
    "SessionEnd": "duplex_trio.session.core",
    "DuplexSessionHandle": "duplex_trio.session.handle",
    "JournalGapError": "duplex_trio.session.state.journal",
}

__all__ = [
    "Attachment",
    "DuplexOmniEngine",
    "DuplexSessionHandle",
    "EngineMetrics",
    "JournalGapError",
    "ResumableAttachment",
    "ResumeGrant",
    "SessionEnd",
    "SessionLimits",
    "StageFactory",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
