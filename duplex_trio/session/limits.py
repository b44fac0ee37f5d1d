"""The limits of a session, as sessions know them."""

from duplex_trio.deploy.limits import SessionLimits

__all__ = ["SessionLimits"]
