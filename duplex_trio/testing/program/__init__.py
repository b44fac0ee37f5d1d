"""What happens to one session, written down as a list of steps, and an engine in which it is played.

A *program* is plain data: it can be generated, shrunk, printed and played again. Its steps are the client's
commands with good and bad arguments, sound, time that goes by (`client`), and stages that are slow, stuck or
failing, clients that stall, leave or close (`trouble`). `play` carries a program out.
"""

from duplex_trio.testing.program.client import (
    Ack,
    AckEvents,
    Append,
    Cancel,
    Delete,
    Flush,
    Retrieve,
    Send,
    Talk,
    Truncate,
    Turn,
    Wait,
    Write,
)
from duplex_trio.testing.program.play import Program, play
from duplex_trio.testing.program.scene import Scene, Step
from duplex_trio.testing.program.trouble import (
    Break,
    Close,
    Fail,
    Heal,
    Kill,
    Leave,
    Return,
    Slow,
    Stall,
    Stick,
    Unstick,
)

__all__ = [
    "Ack",
    "AckEvents",
    "Append",
    "Break",
    "Cancel",
    "Close",
    "Delete",
    "Fail",
    "Flush",
    "Heal",
    "Kill",
    "Leave",
    "Program",
    "Retrieve",
    "Return",
    "Scene",
    "Send",
    "Slow",
    "Stall",
    "Step",
    "Stick",
    "Talk",
    "Truncate",
    "Turn",
    "Unstick",
    "Wait",
    "Write",
    "play",
]
