"""All sessions of a model, and the stages they share.

The names that serving, clients and entry points may use are here; the task tree is in `run`.
"""

from duplex_trio.deploy import SessionLimits
from duplex_trio.engine.duplex_omni_engine import DuplexOmniEngine
from duplex_trio.engine.metrics import EngineMetrics
from duplex_trio.engine.run import run_duplex_engine
from duplex_trio.engine.stage_building import StageFactory
from duplex_trio.session.attachment import Attachment, ResumableAttachment, ResumeGrant
from duplex_trio.session.core import SessionEnd
from duplex_trio.session.handle import DuplexSessionHandle
from duplex_trio.session.state.journal import JournalGapError

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
    "run_duplex_engine",
]
