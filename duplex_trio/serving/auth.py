"""Who may connect: API keys and browser origins (decision D14). Pure; answering a refusal is `app`'s."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal
from urllib.parse import urlsplit

from attrs import field, frozen

from duplex_trio.serving.paths import (
    HEALTH_PATH,
    SHARED_PREFIX,
    TALK_PAGE_PATH,
    TALK_PREFIX,
    VIDEO_PAGE_PATH,
    VIDEO_PREFIX,
)

KEY_SUBPROTOCOL = "openai-insecure-api-key."
"""Browsers cannot set headers, so they offer the key as a subprotocol. It is never selected."""

OPEN_PATHS = frozenset({HEALTH_PATH, TALK_PAGE_PATH, VIDEO_PAGE_PATH})
"""Reachable without a key: a load balancer is to look, and the pages ask their visitor for the key."""
OPEN_PREFIXES = (TALK_PREFIX, VIDEO_PREFIX, SHARED_PREFIX)
"""Where the files of those pages are, which hold no secret either."""


@frozen
class Refusal:
    """A request that goes no further. `status` is of HTTP."""

    status: Literal[401, 403]
    code: str
    message: str


@frozen(kw_only=True)
class AccessPolicy:
    """The keys and origins that are let in.

    Attributes:
        api_keys: any of them opens the server; none means that no key is needed. allowed_origins: what
        browsers may come from, as `scheme://host[:port]`, or `*`. Without any, pages from this
            machine are let in, and pages of this server itself when it is reached by address or needs a
            key: a page elsewhere must not talk to a server on its visitor's machine.
    """

    api_keys: tuple[str, ...] = field(default=(), repr=False)
    allowed_origins: tuple[str, ...] = ()

    def check(
        self, path: str, headers: Iterable[tuple[bytes, bytes]], subprotocols: Sequence[str] = ()
    ) -> Refusal | None:
        """Decide about a request with lower-case header names; None lets it in."""
        if path in OPEN_PATHS or path.startswith(OPEN_PREFIXES):
            return None
        values = dict(headers)
        origin = values.get(b"origin", b"").decode("latin1")
        if origin and not self._origin_allowed(origin, values.get(b"host", b"").decode("latin1")):
            return Refusal(
                403, "origin_not_allowed", f"origin {origin} is not allowed; the server's --allow-origin is"
            )
        if self.api_keys and not self._key_matches(_offered_keys(values, subprotocols)):
            return Refusal(401, "invalid_api_key", "a valid API key is needed: Authorization: Bearer KEY")
        return None

    def trusts(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Whether a request has shown a key, or needs none."""
        return not self.api_keys or self._key_matches(_offered_keys(dict(headers), ()))

    def page_origin(self, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        """The origin of a page that may read answers; None when the request is of no such page."""
        values = dict(headers)
        origin = values.get(b"origin", b"").decode("latin1")
        allowed = origin and self._origin_allowed(origin, values.get(b"host", b"").decode("latin1"))
        return origin if allowed else None

    def _key_matches(self, offered: Sequence[bytes]) -> bool:
        matches = False
        for key in self.api_keys:
            for candidate in offered:
                # No early end: the time must not tell which key it was, nor how much of it was right.
                matches |= hmac.compare_digest(key.encode(), candidate)
        return matches

    def _origin_allowed(self, origin: str, host: str) -> bool:
        if "*" in self.allowed_origins or origin in self.allowed_origins:
            return True
        origin_host = urlsplit(origin).hostname or ""
        if not self.allowed_origins and is_loopback(origin_host):
            return True
        # A name can be made to point here (DNS rebinding); an address cannot, and a key cannot be guessed.
        same = urlsplit(origin).netloc.lower() == host.lower()
        return same and (bool(self.api_keys) or _is_address(origin_host) or is_loopback(origin_host))


def is_loopback(host: str) -> bool:
    """Whether `host`, a name or an address without a port, is this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _offered_keys(values: Mapping[bytes, bytes], subprotocols: Sequence[str]) -> list[bytes]:
    scheme, _, credentials = values.get(b"authorization", b"").partition(b" ")
    keys = [credentials.strip()] if scheme.lower() == b"bearer" else []
    offered = (name for name in subprotocols if name.startswith(KEY_SUBPROTOCOL))
    return [*keys, *(name.removeprefix(KEY_SUBPROTOCOL).encode() for name in offered)]
