"""What the actor of a session works through, in order of arrival."""

from __future__ import annotations

from attrs import frozen

from duplex_trio.protocol.duplex import DuplexCommand


@frozen(kw_only=True)
class CommandWork:
    """A client command whose turn has come. `seq` is its place among all commands of the session.

    `audio_end` is the end of the input line when a commit arrived: sound that came later is not part of it.
    """

    command: DuplexCommand
    seq: int
    audio_end: int


@frozen(kw_only=True)
class SpeechEndedWork:
    """The detector found the end of the user's turn.

    Its sound is [begin, end), its last voiced sample `speech_end`.
    """

    begin: int
    end: int
    speech_end: int
    seq: int


@frozen(kw_only=True)
class ResponseEndedWork:
    """A response was completed; what waited for its end may begin."""

    response_id: str


Work = CommandWork | SpeechEndedWork | ResponseEndedWork
