"""Which platform a process is on, told without importing torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from duplex_trio.deploy import DeployError, detect_platform, load_deploy, platforms
from duplex_trio.deploy.platforms import installed_gpus, torch_build, visible_gpus


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine whose driver and torch can be told."""
    return monkeypatch


def has(machine: pytest.MonkeyPatch, *, torch: str | None, gpus: int) -> None:
    machine.setattr(platforms, "torch_build", lambda: torch)
    machine.setattr(platforms, "installed_gpus", lambda: gpus)


@pytest.mark.parametrize(
    ("torch", "gpus", "environment", "platform"),
    [
        ("cuda", 1, {}, "cuda"),
        ("cuda", 0, {}, "cpu"),
        ("cpu", 1, {}, "cpu"),
        (None, 1, {}, "cpu"),
        ("cuda", 2, {"CUDA_VISIBLE_DEVICES": "1"}, "cuda"),
        ("cuda", 2, {"CUDA_VISIBLE_DEVICES": ""}, "cpu"),
        ("cuda", 2, {"CUDA_VISIBLE_DEVICES": "-1"}, "cpu"),
    ],
)
def test_a_gpu_counts_when_it_is_shown_and_torch_is_built_for_it(
    machine: pytest.MonkeyPatch, torch: str | None, gpus: int, environment: dict[str, str], platform: str
) -> None:
    has(machine, torch=torch, gpus=gpus)
    assert detect_platform(environment) == platform


def test_devices_behind_one_that_is_not_there_are_not_seen(machine: pytest.MonkeyPatch) -> None:
    """That is how CUDA reads the variable."""
    has(machine, torch="cuda", gpus=2)
    assert [
        visible_gpus({"CUDA_VISIBLE_DEVICES": seen}) for seen in ("0,1", "1,7,0", "GPU-5a", "7", "0, 1")
    ] == [
        2,
        1,
        1,
        0,
        2,
    ]


@pytest.mark.parametrize(
    ("text", "build"),
    [
        ("cuda: Optional[str] = None\nhip: Optional[str] = None\n", "cpu"),
        ("cuda: Optional[str] = '12.9'\nhip: Optional[str] = None\n", "cuda"),
        ("cuda: Optional[str] = None\nhip: Optional[str] = '6.4'\n", "rocm"),
    ],
)
def test_the_build_of_torch_is_read_from_its_version_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, build: str
) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise RuntimeError('imported')")
    (tmp_path / "torch" / "version.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    torch_build.cache_clear()
    try:
        assert torch_build() == build
    finally:
        torch_build.cache_clear()


def test_nothing_heavy_is_imported_to_read_a_deployment() -> None:
    """Neither torch nor an engine: what reads a file is quick."""
    program = (
        "import sys; from duplex_trio.deploy import load_deploy; load_deploy('cascade_cpu');"
        "print([name for name in ('torch', 'vllm', 'numpy', 'trio') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_count_of_gpus_never_raises() -> None:
    assert installed_gpus() >= 0


def test_the_platform_of_the_machine_is_the_default(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "deploy.yaml"
    path.write_text("pipeline: p\nplatforms:\n  cuda: {dtype: float16}\n  cpu: {dtype: float32}\n")
    has(machine, torch="cuda", gpus=1)
    assert load_deploy(path, environment={}).dtype == "float16"
    has(machine, torch="cuda", gpus=0)
    assert load_deploy(path, environment={}).dtype == "float32"
    with pytest.raises(DeployError, match=r"platform must be one of cpu, .*not 'gpu'"):
        load_deploy(path, platform="gpu")
