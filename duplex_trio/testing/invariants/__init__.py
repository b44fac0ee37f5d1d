"""What must hold inside a session and an engine at any moment, whatever happened before.

`stream_rules` is about what the client is sent, this is about what is behind it: sums equal their parts,
positions are in order, no response is both active and over, whoever is owed something has somebody who owes
it. `ledgers` needs no loop; `live` looks at a running session and, with a `SessionWatch` that remembers, finds
what fell that may only grow; `engines` looks at all sessions together.

Everything is checked from the outside; nothing here changes a session.
"""

from duplex_trio.testing.invariants.broken import InvariantBroken
from duplex_trio.testing.invariants.engines import check_engine, check_engine_at_rest
from duplex_trio.testing.invariants.ledgers import check_ledgers
from duplex_trio.testing.invariants.live import SessionWatch, check_session, check_settled, core_of

__all__ = [
    "InvariantBroken",
    "SessionWatch",
    "check_engine",
    "check_engine_at_rest",
    "check_ledgers",
    "check_session",
    "check_settled",
    "core_of",
]
