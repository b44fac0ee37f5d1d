"""The files of the pages, and the answers to requests for them. Pure, but for reading each file once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import Literal

from attrs import frozen

from duplex_trio.serving.asgi import Headers, header
from duplex_trio.serving.channel import Header
from duplex_trio.serving.paths import (
    SHARED_PREFIX,
    TALK_PAGE_PATH,
    TALK_PREFIX,
    VIDEO_PAGE_PATH,
    VIDEO_PREFIX,
)
from duplex_trio.serving.responses import Response

Section = Literal["talk", "video", "shared"]
"""Whose file one is: a page's, or that of both."""

_PREFIXES: Mapping[Section, str] = {"talk": TALK_PREFIX, "video": VIDEO_PREFIX, "shared": SHARED_PREFIX}
_PAGES: Mapping[str, str] = {"talk.html": TALK_PAGE_PATH, "video.html": VIDEO_PAGE_PATH}
"""What has an address of its own, beside no other."""

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
        "media-src 'self' blob:",  # MediaSource, a stream of sound, and the saved clip
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

_PERMISSIONS: Mapping[Section, bytes] = {
    "talk": b"microphone=(self), camera=(), geolocation=()",
    "video": b"microphone=(), camera=(), geolocation=()",
    "shared": b"microphone=(), camera=(), geolocation=()",
}
"""What a page may ask its visitor for."""


@frozen
class _File:
    section: Section
    body: bytes
    content_type: bytes
    tag: bytes


def section_of(path: str) -> Section | None:
    """Whose file a path leads to; None where there is none. No file needs a key, as nothing in one is secret."""
    file = _files().get(path)
    return None if file is None else file.section


def page_response(path: str, headers: Headers) -> Response:
    """Answer a GET or HEAD for a file.

    Args:
        path: one that `section_of` knows.
        headers: of the request; a file that the browser already has is not sent again.
    """
    file = _files()[path]
    known = (tag.strip().removeprefix("W/") for tag in header(headers, b"if-none-match").split(","))
    tagged = ((b"etag", file.tag), *_EVERY, (b"permissions-policy", _PERMISSIONS[file.section]))
    if any(tag in ("*", file.tag.decode()) for tag in known):
        return Response(304, b"", tagged)
    return Response(200, file.body, ((b"content-type", file.content_type), *tagged))


@cache
def _files() -> Mapping[str, _File]:
    """Every file by the whole path that leads to it: what is not among them is not there, whatever a path says."""
    assets = resources.files(__package__) / "assets"
    return {
        _PAGES.get(entry.name, prefix + entry.name): _read(section, entry)
        for section, prefix in _PREFIXES.items()
        for entry in _entries(assets / section)
    }


def _entries(folder: Traversable) -> Iterator[Traversable]:
    found = (entry for entry in folder.iterdir() if PurePosixPath(entry.name).suffix in _TYPES)
    return iter(sorted(found, key=lambda entry: entry.name))


def _read(section: Section, entry: Traversable) -> _File:
    body = entry.read_bytes()
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    return _File(section, body, _TYPES[PurePosixPath(entry.name).suffix], tag.encode())
