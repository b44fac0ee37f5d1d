"""A network that breaks: a TCP proxy whose connections are cut, swallowed or held up after so many bytes.

`plan` decides by a seed what happens to which connection, `run` carries it out; `talk` are conversations to
be held over it, and what of them must be the same as without it.
"""

from duplex_trio.testing.chaos.plan import ChaosPlan, Fault, How
from duplex_trio.testing.chaos.run import ChaosProxy

__all__ = ["ChaosPlan", "ChaosProxy", "Fault", "How"]
