"""The URL that a client connects to, made from what a person types."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

VIDEO_PATH = "/v1/realtime/video"
_SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}


def build_realtime_url(
    url: str,
    *,
    model: str | None = None,
    autostart: bool = False,
    extra_query: Mapping[str, str] | None = None,
) -> str:
    """Complete a server URL to that of its duplex socket.

    `http` becomes `ws`; an empty path becomes `/v1/realtime`; `duplex=1` is added; `model` is added unless it
    is `None`; `autostart=0` is added unless `autostart`, so that nothing happens before the first
    `session.update`. What these rules set replaces the same keys of the URL's own query; other keys stay as
    they are.

    Raises:
        ValueError: the URL has no host, or a scheme other than ws, wss, http and https.
    """
    parts = _socket_parts(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    query.update(extra_query or {})
    query["duplex"] = "1"
    if model is not None:
        query["model"] = model
    if autostart:
        query.pop("autostart", None)
    else:
        query["autostart"] = "0"
    path = parts.path if parts.path not in ("", "/") else "/v1/realtime"
    return urlunsplit((parts.scheme, parts.netloc, path, urlencode(query), ""))


def build_video_url(url: str) -> str:
    """Complete a server URL to that of its socket for steered video.

    `http` becomes `ws`; no path, `/v1` and `/v1/realtime`, as a server prints its addresses, become
    `/v1/realtime/video`; another path and the query stay as they are.

    Raises:
        ValueError: the URL has no host, or a scheme other than ws, wss, http and https.
    """
    parts = _socket_parts(url)
    path = VIDEO_PATH if parts.path.rstrip("/") in ("", "/v1", "/v1/realtime") else parts.path
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def _socket_parts(url: str) -> SplitResult:
    text = url if "://" in url else f"ws://{url}"
    parts = urlsplit(text)
    scheme = _SCHEMES.get(parts.scheme.lower())
    if scheme is None:
        raise ValueError(f"{url!r} is not a ws, wss, http or https URL")
    try:
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{url!r} has no valid port: {error}") from None
    if not parts.hostname or port == 0:
        raise ValueError(f"{url!r} names no host and port to connect to")
    return parts._replace(scheme=scheme)
