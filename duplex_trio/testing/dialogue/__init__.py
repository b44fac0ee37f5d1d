"""A conversation as data, played on a session, and told as a timeline where it goes wrong.

`script` is how it is written, `steps` are its steps. `account` puts together what happened, `judge` holds the steps
against it, `timeline` writes it down; all three know no clock. `player` does the steps, through the user's side of
the session in `caller`, with what `person` says; `run` are its tasks.
"""

from duplex_trio.testing.dialogue.account import Account, Answer, Call
from duplex_trio.testing.dialogue.caller import CannotDropError
from duplex_trio.testing.dialogue.errors import ConversationError
from duplex_trio.testing.dialogue.script import ConversationScript, script

__all__ = [
    "Account",
    "Answer",
    "Call",
    "CannotDropError",
    "ConversationError",
    "ConversationScript",
    "script",
]
