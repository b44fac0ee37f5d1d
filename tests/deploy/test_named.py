"""Deployments that other packages bring."""

from __future__ import annotations

from pathlib import Path

import pytest

from duplex_trio.deploy import DeployError, bundled_deployments, load_deploy, named_deployments
from duplex_trio.deploy.named import GROUP
from duplex_trio.testing.distributions import install

DEPLOYMENT = "base_config: scripted\nduplex_session:\n  max_sessions: 3\n"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def bring(site: Path, name: str, files: dict[str, str]) -> None:
    package = name.replace("-", "_") + "_files"
    inside = {f"{package}/{path}": text for path, text in files.items()}
    install(site, name, files=inside, announces={GROUP: {"files": package}})


def test_a_package_brings_deployments(site: Path) -> None:
    """Each file is one by its name, and may inherit from ours."""
    bring(site, "named-one", {"__init__.py": "", "quiet.yaml": DEPLOYMENT, "read.me": ""})
    assert load_deploy("quiet").duplex_session.max_sessions == 3
    origins = {deployment.name: deployment.origin for deployment in named_deployments()}
    assert origins["quiet"] == "named-one 1.0"
    assert origins["scripted"] == "duplex_trio"
    assert "quiet" not in bundled_deployments()


def test_a_folder_without_an_init_is_enough(site: Path) -> None:
    bring(site, "named-two", {"still.yaml": DEPLOYMENT})
    assert load_deploy("still").pipeline == "scripted"


def test_two_packages_with_one_name_are_told_apart(site: Path) -> None:
    """Also when one of them is this package."""
    bring(site, "named-three", {"twice.yaml": DEPLOYMENT, "scripted.yaml": DEPLOYMENT})
    bring(site, "named-four", {"twice.yaml": DEPLOYMENT})
    told = "several packages have a deployment of that name: named-four 1.0 and named-three 1.0"
    with pytest.raises(DeployError, match=told):
        load_deploy("twice")
    with pytest.raises(DeployError, match=r"duplex_trio and named-three 1\.0"):
        load_deploy("scripted")


def test_a_package_that_fails_to_import_harms_no_other(site: Path) -> None:
    """Whoever asks for a name that is not found is told that there might be more."""
    bring(site, "named-five", {"__init__.py": "raise OSError('no libsound')", "loud.yaml": DEPLOYMENT})
    bring(site, "named-six", {"soft.yaml": DEPLOYMENT})
    assert load_deploy("soft").pipeline == "scripted"
    with pytest.raises(DeployError) as caught:
        load_deploy("loud")
    assert (
        "the deployments of named-five 1.0 (named_five_files) cannot be looked into: OSError: no libsound"
        in str(caught.value)
    )


def test_a_file_that_is_no_text_is_named_with_its_package(site: Path) -> None:
    bring(site, "named-seven", {"odd.yaml": ""})
    (site / "named_seven_files" / "odd.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(
        DeployError, match=r"cannot read the deployment file of named-seven 1.0: it is not UTF-8"
    ):
        load_deploy("odd")


def test_a_close_name_is_hinted_at() -> None:
    with pytest.raises(DeployError, match=r"did you mean cascade_cpu\?"):
        load_deploy("cascade_cpus")
