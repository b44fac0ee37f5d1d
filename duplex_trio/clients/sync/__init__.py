"""A client for programs without Trio: scripts, notebooks, other event loops' threads.

`thread` carries a client in a thread in which Trio runs, `client` is what its user holds, `streams` are events
and answers as plain iterators.
"""

from duplex_trio.clients.sync.client import SyncDuplexClient
from duplex_trio.clients.sync.streams import SyncEventStream, SyncResponse, SyncResponseStream

__all__ = ["SyncDuplexClient", "SyncEventStream", "SyncResponse", "SyncResponseStream"]
