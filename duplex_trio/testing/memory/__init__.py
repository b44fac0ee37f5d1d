"""A server without a port: the real application and its HTTP server over streams in memory.

`streams` is a connection that can be broken, `http` an HTTP client over it, `run` the server.
"""

from duplex_trio.testing.memory.run import MemoryServer, serve_in_memory

__all__ = ["MemoryServer", "serve_in_memory"]
