"""For the tests of this package and of people who build on it: sessions with a scripted model on a mock
clock.

`memory` is a server without a port.
`run` starts a scripted engine and holds conversations with it, `recorder` collects a session's events,
`talker` speaks to a session as a person with a microphone does, `returning` loses its connection and comes
back, `stream_rules` are what any session keeps.
`conformance` are checks that the author of a model plugin runs through pytest.
`invariants` are what holds inside of sessions and engines, `snapshots` show that something changed nothing,
`program` plays whatever may happen to a session, `steps` lets it happen between any two steps of the tasks.
`replicas` are stages that break and come back.
`chaos` is a network that breaks, and conversations to be held over it.
`scenarios` are the conversations of the golden transcripts, some with `odd_models`, `transcript` writes one down, and
`openai_events` has the classes of OpenAI's SDK to check it against. `kept_logs` are fixtures.
"""

from duplex_trio.testing.memory import MemoryServer, serve_in_memory
from duplex_trio.testing.recorder import RecordingAttachment, ResumableRecorder
from duplex_trio.testing.returning import ReturningTalker, essence, open_returning
from duplex_trio.testing.run import conversation, finish, scripted_omni, scripted_requests
from duplex_trio.testing.stream_rules import check_stream
from duplex_trio.testing.talker import Talker, open_talker

__all__ = [
    "MemoryServer",
    "RecordingAttachment",
    "ResumableRecorder",
    "ReturningTalker",
    "Talker",
    "check_stream",
    "conversation",
    "essence",
    "finish",
    "open_returning",
    "open_talker",
    "scripted_omni",
    "scripted_requests",
    "serve_in_memory",
]
