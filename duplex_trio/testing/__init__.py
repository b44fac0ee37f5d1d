"""Test your voice agent: sessions with a scripted model on a mock clock, conversations as data, a server in memory.

What is exported here is for everybody who builds on this package; docs/testing.md shows it at work.

- `open_session`, `open_client`: a live conversation in one line, in this process or through the whole server.
- `script`: a conversation as data (`say`, `expects_reply`, `after_hearing`, `interrupt`, `drop`, `resume`, ...) that
  is played on either, or on a `BreakableClient` of any server. A `ConversationError` tells what happened as a
  timeline, an `Account` is what happened.
- `Script`, `tool_call`, `ScriptedPipeline`: the scripted model. `scripted_omni` and `scripted_requests` run it, or a
  pipeline of yours, without threads, so that time is Trio's.
- `serve_in_memory`: the real server without a port.
- `Talker`, `ReturningTalker`, `RecordingAttachment`, `ResumableRecorder`: the user of a session by hand, and all that
  it sends; `check_stream` are the rules that every session keeps.
- `ScriptWorker` with `Hold`, `Many`, `StageRecorder`: a stage that does what its units say, for what carries stages.
- `conformance` (a package): the checks that the author of a model plugin runs.
- `pytest_plugin`: fixtures, which pytest finds by itself.

The rest is the project's own, and may change at any time: `invariants` and `snapshots` (what holds inside of sessions
and engines), `program`, `steps`, `fuzz`, `chaos` (whatever may happen, in any order), `scenarios`, `odd_models`,
`transcript`, `openai_events`, `kept_logs` (golden transcripts), `wire_reference`
(docs/wire.md), `replicas`, `process_faults`, `http_faults`,
`vllm_server`, `workers`, `gates` (parts that break or wait), `videos`, `video_*`, `watched` (steered video),
`browser`, `server_process`, `serve_command`, `wheels`, `raw_websocket`, `http2_client`, `wire_peer` (real peers).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duplex_trio.lazy import lazy_names

if TYPE_CHECKING:
    from duplex_trio.models.scripted.pipeline import ScriptedPipeline
    from duplex_trio.models.scripted.script import Script, tool_call
    from duplex_trio.testing.breakable import BreakableClient
    from duplex_trio.testing.dialogue import (
        Account,
        Answer,
        Call,
        CannotDropError,
        ConversationError,
        ConversationScript,
        script,
    )
    from duplex_trio.testing.live import open_client, open_session
    from duplex_trio.testing.memory import MemoryServer, serve_in_memory
    from duplex_trio.testing.recorder import RecordingAttachment, ResumableRecorder
    from duplex_trio.testing.returning import ReturningTalker, essence, open_returning
    from duplex_trio.testing.run import finish, scripted_omni, scripted_requests
    from duplex_trio.testing.stage_script import Hold, Many, ScriptWorker
    from duplex_trio.testing.stage_script import Recorder as StageRecorder
    from duplex_trio.testing.stream_rules import check_stream
    from duplex_trio.testing.talker import Talker, open_talker

__all__ = [
    "Account",
    "Answer",
    "BreakableClient",
    "Call",
    "CannotDropError",
    "ConversationError",
    "ConversationScript",
    "Hold",
    "Many",
    "MemoryServer",
    "RecordingAttachment",
    "ResumableRecorder",
    "ReturningTalker",
    "Script",
    "ScriptWorker",
    "ScriptedPipeline",
    "StageRecorder",
    "Talker",
    "check_stream",
    "essence",
    "finish",
    "open_client",
    "open_returning",
    "open_session",
    "open_talker",
    "script",
    "scripted_omni",
    "scripted_requests",
    "serve_in_memory",
    "tool_call",
]

_HOMES = {
    "duplex_trio.models.scripted.pipeline": ("ScriptedPipeline",),
    "duplex_trio.models.scripted.script": ("Script", "tool_call"),
    "duplex_trio.testing.breakable": ("BreakableClient",),
    "duplex_trio.testing.dialogue": (
        "Account",
        "Answer",
        "Call",
        "CannotDropError",
        "ConversationError",
        "ConversationScript",
        "script",
    ),
    "duplex_trio.testing.live": ("open_client", "open_session"),
    "duplex_trio.testing.memory": ("MemoryServer", "serve_in_memory"),
    "duplex_trio.testing.recorder": ("RecordingAttachment", "ResumableRecorder"),
    "duplex_trio.testing.returning": ("ReturningTalker", "essence", "open_returning"),
    "duplex_trio.testing.run": ("finish", "scripted_omni", "scripted_requests"),
    "duplex_trio.testing.stage_script": ("Hold", "Many", "ScriptWorker", "StageRecorder"),
    "duplex_trio.testing.stream_rules": ("check_stream",),
    "duplex_trio.testing.talker": ("Talker", "open_talker"),
}

# pytest imports the plugin in here for every project, used or not.
__getattr__, __dir__ = lazy_names(__name__, _HOMES, elsewhere={"StageRecorder": "Recorder"})
