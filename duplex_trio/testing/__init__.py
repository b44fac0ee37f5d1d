"""For the tests of this package and of people who build on it: sessions with a scripted model on a mock
clock.

`run` starts a scripted engine, `recorder` collects a session's events, `talker` speaks to a session as a
person with a microphone does.
"""

from duplex_trio.testing.recorder import RecordingAttachment
from duplex_trio.testing.run import scripted_omni
from duplex_trio.testing.talker import Talker, open_talker

__all__ = ["RecordingAttachment", "Talker", "open_talker", "scripted_omni"]
