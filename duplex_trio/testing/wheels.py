"""Tiny wheels and a package index for them, so that tests run the real package client without a network.

A wheel is a zip file with a little metadata. The index speaks as much of the simple repository API (PEP 503)
as pip needs, counts the downloads and can hold them up half-way.
"""

from __future__ import annotations

import base64
import hashlib
import threading
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from attrs import define, field
from packaging.utils import canonicalize_name

from duplex_trio.models.cache import sha256_file
from duplex_trio.models.catalog import Member, ModelFormat, ModelKind, PackagedModel

_FIRST_BYTES = 1024


def build_wheel(
    folder: Path, name: str, version: str, files: Mapping[str, bytes], requires: tuple[str, ...] = ()
) -> Path:
    """Write a pure Python wheel with these files and requirements below `folder` and return its path."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    metadata += [f"Requires-Dist: {line}" for line in requires]
    contents = {
        **files,
        f"{info}/METADATA": ("\n".join(metadata) + "\n").encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{path},sha256={_digest(content)},{len(content)}\n" for path, content in contents.items()
    )
    contents[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in contents.items():
            archive.writestr(zipfile.ZipInfo(path), content)
    return wheel


def packaged_model(
    wheel: Path, kind: ModelKind, format: ModelFormat, files: Mapping[str, bytes], name: str = "tiny"
) -> PackagedModel:
    """The catalog entry that describes `wheel`, of which `files` are the members of the model."""
    package, version = wheel.name.split("-")[:2]
    return PackagedModel(
        name=name,
        kind=kind,
        description="a model for tests",
        licence="MIT",
        format=format,
        source="data",
        package=package.replace("_", "-"),
        version=version,
        wheel_size=wheel.stat().st_size,
        wheel_sha256=sha256_file(wheel),
        stored_size=sum(map(len, files.values())),
        members=tuple(
            Member(path, len(content), hashlib.sha256(content).hexdigest()) for path, content in files.items()
        ),
    )


@define
class PackageIndex:
    """A running index.

    `downloads` counts requests per file name. While `hold` is set, a download stops after its first bytes;
    `started` is set once one has come that far.
    """

    url: str
    folder: Path
    downloads: Counter[str] = field(factory=Counter)
    hold: threading.Event = field(factory=threading.Event)
    started: threading.Event = field(factory=threading.Event)


@contextmanager
def serve_index(folder: Path) -> Iterator[PackageIndex]:
    """Serve the wheels in `folder` on a loopback port; `url` ends in /simple. Stops at exit."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = unquote(self.path).strip("/").split("/")
            if parts[0] == "simple" and len(parts) == 2:
                self._list(parts[1])
            elif parts[0] == "files" and (folder / parts[1]).is_file():
                self._send(folder / parts[1])
            else:
                self.send_error(404)

        def _list(self, project: str) -> None:
            names = [
                path.name
                for path in folder.glob("*.whl")
                if canonicalize_name(path.name.split("-")[0]) == project
            ]
            page = "".join(f'<a href="/files/{name}">{name}</a>' for name in names).encode()
            self._begin(page)
            self.wfile.write(page)

        def _send(self, wheel: Path) -> None:
            index.downloads[wheel.name] += 1
            content = wheel.read_bytes()
            self._begin(content, "application/octet-stream")
            try:
                self.wfile.write(content[:_FIRST_BYTES])
                self.wfile.flush()
                index.started.set()
                while index.hold.is_set() and not stopped.wait(0.01):
                    continue
                self.wfile.write(content[_FIRST_BYTES:])
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def _begin(self, content: bytes, content_type: str = "text/html") -> None:
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            return

    stopped = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    index = PackageIndex(f"http://127.0.0.1:{server.server_port}/simple", folder)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield index
    finally:
        stopped.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
