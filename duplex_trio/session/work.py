"""What the actor of a session works through, in order of arrival."""

from __future__ import annotations

import trio
from attrs import Factory, frozen

from duplex_trio.protocol.duplex import Commit, CreateResponse, DuplexCommand
from duplex_trio.session.state.heard_input import HeardInput


@frozen(kw_only=True)
class CommandWork:
    """A client command whose turn has come. `seq` is its place among all commands of the session.

    `audio_end` is the end of the input line when a commit arrived: sound that came later is not part of it.
    `heard` is what that sound held, for a commit.
    """

    command: DuplexCommand
    seq: int
    audio_end: int
    heard: HeardInput | None = None

    @property
    def asks(self) -> bool:
        """Whether the command asks for a response."""
        command = self.command
        return isinstance(command, CreateResponse) or (
            isinstance(command, Commit) and bool(command.response_create)
        )


@frozen(kw_only=True)
class SpeechEndedWork:
    """The detector found the end of the user's turn.

    Its sound is [begin, end), its last voiced sample `speech_end`. `asks` tells whether its end asks for a
    response; `done` is set once the actor has dealt with it.
    """

    begin: int
    end: int
    speech_end: int
    seq: int
    asks: bool
    done: trio.Event = Factory(trio.Event)


@frozen(kw_only=True)
class ResponseEndedWork:
    """A response was completed; what waited for its end may begin."""

    response_id: str

    @property
    def asks(self) -> bool:
        """Whoever waits for the end has asked already."""
        return False


@frozen(kw_only=True)
class IdleWork:
    """The user has said nothing for as long as the session waits; the silence is [begin, end).

    `withdrawn` is set if something happens before the actor comes to it.
    """

    begin: int
    end: int
    seq: int
    withdrawn: trio.Event = Factory(trio.Event)

    @property
    def asks(self) -> bool:
        """It asks for a response on the user's behalf."""
        return True


Work = CommandWork | SpeechEndedWork | ResponseEndedWork | IdleWork
