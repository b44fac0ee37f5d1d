"""A relay between a client and a server that reads along: what foreign clients say, and what we answer.

It passes every byte on unchanged, so client and server meet as they would without it. `run.py` relays,
`reading.py` makes messages of the bytes that passed.
"""

from duplex_trio.testing.tap.reading import TappedConnection, TappedMessage
from duplex_trio.testing.tap.run import WireTap, open_tap

__all__ = ["TappedConnection", "TappedMessage", "WireTap", "open_tap"]
