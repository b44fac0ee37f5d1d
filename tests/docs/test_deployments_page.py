"""`docs/deployments.md` says what the code says, and the examples load."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from duplex_trio.cli.deploy.check import check_deployment
from duplex_trio.deploy import DeployConfig, StageDeploy, bundled_deployments, read_deploy, replica_places
from duplex_trio.deploy.stage import RemoteDeploy
from duplex_trio.deploy.table import key_table
from duplex_trio.pipelines.deployment import deployment_findings
from duplex_trio.pipelines.registry import pipeline_class

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "deployments.md").read_text()
EXAMPLES = sorted((ROOT / "examples" / "deployments").glob("*.yaml"))


@pytest.mark.parametrize("cls", [DeployConfig, StageDeploy, RemoteDeploy], ids=lambda cls: cls.__name__)
def test_the_tables_are_those_of_the_code(cls: type) -> None:
    """Made by `key_table`: put its text there when this fails."""
    assert key_table(cls) in DOCUMENT


def test_every_key_is_explained() -> None:
    for cls in (DeployConfig, StageDeploy, RemoteDeploy):
        for line in key_table(cls).splitlines()[2:]:
            assert line.rstrip(" |").endswith("."), line


def test_every_deployment_that_ships_is_named() -> None:
    assert all(f"`{name}`" in DOCUMENT for name in bundled_deployments())


def test_a_section_for_cuda_counts_on_cuda(tmp_path: Path) -> None:
    """The page's second file."""
    path = tmp_path / "deploy.yaml"
    path.write_text(re.findall(r"```yaml\n(.*?)```", DOCUMENT, flags=re.DOTALL)[1])
    stage = read_deploy(path, platform="cuda", environment={}).config.stage(1)
    assert (stage.kv_cache_memory_bytes, stage.devices) == (None, "0")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_load_and_each_key_has_an_effect(path: Path) -> None:
    document = read_deploy(path, environment={})
    assert deployment_findings(pipeline_class(document.config.pipeline), document.config) == []
    assert path.name in DOCUMENT or path.name == "remote_llm.yaml"


def test_two_gpus_are_dealt_out() -> None:
    (path,) = (path for path in EXAMPLES if path.stem == "two_gpus")
    places = replica_places(read_deploy(path, environment={}).config.stage(1), {})
    assert [place.environment for place in places] == [
        {"CUDA_VISIBLE_DEVICES": "0"},
        {"CUDA_VISIBLE_DEVICES": "1"},
    ]


@pytest.mark.models
@pytest.mark.parametrize("name", ["two_replicas", "separate_process"])
def test_the_examples_for_a_cpu_can_be_served(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert (
        check_deployment(str(ROOT / "examples" / "deployments" / f"{name}.yaml"), platform="cpu").faults == []
    )


def test_the_readmes_deployment_says_what_is_different() -> None:
    """It changes one key of one stage."""
    (text,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert re.search(r"stage_id: 1\b.*\n +model: ", text)
