"""The one door to the protocol for everything above it: commands, events, items, errors and the codec.

Sound and its formats have their own door in `audio`, the session object has its in `session`. Nothing above
the protocol imports `protocol.realtime`.
"""

from duplex_trio.protocol.duplex import codec, commands, events, values
from duplex_trio.protocol.duplex.codec import *  # noqa: F403
from duplex_trio.protocol.duplex.commands import *  # noqa: F403
from duplex_trio.protocol.duplex.events import *  # noqa: F403
from duplex_trio.protocol.duplex.values import *  # noqa: F403

__all__ = []
__all__ += codec.__all__
__all__ += commands.__all__
__all__ += events.__all__
__all__ += values.__all__
