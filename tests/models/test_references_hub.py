"""Hub references, resolved by the real hub library against a hub on a loopback port."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field

pytestmark = pytest.mark.models

COMMIT = "a" * 40
FILES = {
    "config.json": b"{}",
    "model.safetensors": b"w" * 300_000,
    "tokenizer.json": b"{ }",
    "pytorch_model.bin": b"b" * 10,
    "small.gguf": b"not one",
}

RESOLVE = """
import json, sys
from pathlib import Path
from duplex_trio.models.cache import ModelCache
from duplex_trio.models.references import ModelReferenceError, resolve_reference
seen = []
try:
    found = resolve_reference(sys.argv[1], "llm", progress=seen.append, cache=ModelCache(Path(sys.argv[2])))
    print(json.dumps({"path": str(found.path), "name": found.name, "done": [step.done for step in seen]}))
except ModelReferenceError as error:
    print(json.dumps({"error": type(error).__name__, "message": str(error)}))
"""


@define
class Hub:
    url: str
    paths: Counter[str] = field(factory=Counter)


@pytest.fixture
def hub() -> Iterator[Hub]:
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = self.path.split("?")[0]
            running.paths[f"{self.command} {path}"] += 1
            if path.startswith("/api/models/org/name/tree/"):
                self.answer(json.dumps([entry(name, content) for name, content in FILES.items()]).encode())
            elif path.startswith("/api/models/org/name"):
                siblings = [{"rfilename": name} for name in FILES]
                self.answer(json.dumps({"id": "org/name", "sha": COMMIT, "siblings": siblings}).encode())
            elif path.startswith(f"/org/name/resolve/{COMMIT}/"):
                content = FILES[path.rsplit("/", 1)[1]]
                self.answer(content, {"ETag": f'"{sha1(content)}"', "X-Repo-Commit": COMMIT})
            elif path.startswith("/api/models/org/gated"):
                self.answer(b"{}", {"X-Error-Code": "GatedRepo"}, 403)
            else:
                self.answer(b"{}", {"X-Error-Code": "RepoNotFound"}, 404)

        def answer(self, body: bytes, headers: dict[str, str] | None = None, status: int = 200) -> None:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running = Hub(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    server.shutdown()
    server.server_close()
    thread.join()


def sha1(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


def entry(name: str, content: bytes) -> dict[str, Any]:
    return {"type": "file", "path": name, "size": len(content), "oid": sha1(content)}


def resolve(reference: str, url: str, folder: Path, **environ: str) -> dict[str, Any]:
    """Resolve in a process of its own, because the hub library reads its settings when it is imported."""
    settings = {"HF_ENDPOINT": url, "HF_HOME": str(folder / "hub"), "HF_HUB_OFFLINE": "0", **environ}
    done = subprocess.run(
        [sys.executable, "-c", RESOLVE, reference, str(folder / "cache")],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stderr == ""
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_a_hub_model_is_downloaded_with_progress_and_only_what_is_needed(hub: Hub, tmp_path: Path) -> None:
    answer = resolve("org/name", hub.url, tmp_path)
    assert answer["name"] == "org/name"
    names = sorted(path.name for path in Path(answer["path"]).iterdir())
    assert names == ["config.json", "model.safetensors", "tokenizer.json"]
    assert answer["done"] == sorted(answer["done"])
    assert answer["done"][-1] == 300_005


def test_a_downloaded_hub_model_works_without_the_hub(hub: Hub, tmp_path: Path) -> None:
    first = resolve("org/name", hub.url, tmp_path)
    asked = hub.paths.total()
    again = resolve("org/name", hub.url, tmp_path, HF_HUB_OFFLINE="1")
    assert again["path"] == first["path"]
    assert hub.paths.total() == asked


def test_one_file_of_a_repository_can_be_named(hub: Hub, tmp_path: Path) -> None:
    answer = resolve("org/name/small.gguf", hub.url, tmp_path)
    assert answer["error"] == "ModelFormatError"  # it arrived, and is no GGUF file
    assert hub.paths[f"GET /org/name/resolve/{COMMIT}/small.gguf"] == 1
    assert hub.paths[f"GET /org/name/resolve/{COMMIT}/model.safetensors"] == 0


@pytest.mark.parametrize(
    ("reference", "environ", "error", "message"),
    [
        ("org/other", {}, "UnknownModelError", "The hub has no model org/other"),
        ("org/gated", {}, "ModelDownloadError", "accepted its terms"),
        ("org/bad--name", {}, "UnknownModelError", "no valid name"),
        ("org/name", {"HF_HUB_OFFLINE": "1"}, "ModelDownloadError", "HF_HUB_OFFLINE forbids"),
        (
            "org/name",
            {"HF_ENDPOINT": "http://127.0.0.1:9"},
            "ModelDownloadError",
            "the hub could not be reached",
        ),
        ("org/name", {"HF_HOME": "/dev/null/hub"}, "ModelDownloadError", "org/name"),
    ],
)
def test_what_the_hub_refuses_is_explained(
    hub: Hub, tmp_path: Path, reference: str, environ: dict[str, str], error: str, message: str
) -> None:
    answer = resolve(reference, hub.url, tmp_path, **environ)
    assert answer["error"] == error
    assert message in answer["message"]
