"""The files of the page at `/video`, and the answers to requests for them. Pure, but for reading each file once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath

from attrs import frozen

from duplex_trio.serving.asgi import Headers, header
from duplex_trio.serving.channel import Header
from duplex_trio.serving.paths import VIDEO_PAGE_PATH
from duplex_trio.serving.responses import Response

_PAGE_FILE = "video.html"

_TYPES = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "media-src 'self' blob:",  # MediaSource, and the saved clip
        "connect-src 'self'",  # the WebSocket of the same server among them
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
)

_EVERY: tuple[Header, ...] = (
    (b"cache-control", b"no-cache"),  # it may be kept, but is asked for: a newer server has a newer page
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"content-security-policy", _POLICY.encode()),
)


@frozen
class _File:
    body: bytes
    content_type: bytes
    tag: bytes


def is_page_path(path: str) -> bool:
    """Whether a path is the page's or a file's of it; such a path needs no key, as nothing behind it is secret."""
    return path in _files()


def page_response(path: str, headers: Headers) -> Response:
    """Answer a GET or HEAD for a path of the page.

    Args:
        path: one that `is_page_path` knows.
        headers: of the request; a file that the browser already has is not sent again.
    """
    file = _files()[path]
    known = (tag.strip().removeprefix("W/") for tag in header(headers, b"if-none-match").split(","))
    tagged: tuple[Header, ...] = ((b"etag", file.tag), *_EVERY)
    if any(tag in ("*", file.tag.decode()) for tag in known):
        return Response(304, b"", tagged)
    return Response(200, file.body, ((b"content-type", file.content_type), *tagged))


@cache
def _files() -> Mapping[str, _File]:
    """Every file by the whole path that leads to it: what is not among them is not there, whatever a path says."""
    entries = (resources.files(__package__) / "assets").iterdir()
    read = {entry.name: _read(entry) for entry in entries if PurePosixPath(entry.name).suffix in _TYPES}
    page = read.pop(_PAGE_FILE)
    return {
        VIDEO_PAGE_PATH: page,
        **{f"{VIDEO_PAGE_PATH}/{name}": file for name, file in sorted(read.items())},
    }


def _read(entry: Traversable) -> _File:
    body = entry.read_bytes()
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    return _File(body, _TYPES[PurePosixPath(entry.name).suffix], tag.encode())
