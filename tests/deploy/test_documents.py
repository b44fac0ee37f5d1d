"""`docs/deployments.md` says what the code says, and the examples load."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from duplex_trio.cli.deploy.check import check_deployment
from duplex_trio.cli.main import build_parser
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


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_the_documents_files_load(tmp_path: Path, number: int, platform: str) -> None:
    texts = re.findall(r"```yaml\n(.*?)```", DOCUMENT, flags=re.DOTALL)
    assert len(texts) == 4
    path = tmp_path / "deploy.yaml"
    path.write_text(texts[number])
    document = read_deploy(path, platform=platform, environment={})
    assert deployment_findings(pipeline_class(document.config.pipeline), document.config) == []
    if number == 1 and platform == "cuda":
        assert document.config.stage(1).kv_cache_memory_bytes is None
        assert document.config.stage(1).devices == "0"


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


README = (ROOT / "README.md").read_text()
COMMANDS = re.findall(r"^duplex-trio (.*?)(?:  +#.*)?$", README + DOCUMENT, flags=re.MULTILINE)


@pytest.mark.parametrize("command", sorted(set(COMMANDS)))
def test_the_commands_of_the_documents_are_understood(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the deployments that they name are there."""
    if "NAME|FILE" in command:
        return
    monkeypatch.chdir(ROOT)
    arguments = shlex.split(command)
    parsed = vars(build_parser(arguments).parse_args(arguments))
    name = parsed.get("deployment") or parsed.get("deploy")
    if name is not None:
        assert read_deploy(name, environment={}).config.pipeline in ("cascade", "scene")


def test_the_readme_shows_commands_of_deployments() -> None:
    assert {command.split()[1] for command in COMMANDS if command.startswith("deploy ")} == {
        "list",
        "check",
        "show",
    }


def test_the_readmes_files_are_there_and_its_deployment_loads(tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
    (tmp_path / "deploy.yaml").write_text(text)
    assert read_deploy(tmp_path / "deploy.yaml", environment={}).config.stage(1).max_num_seqs == 12
    for link in re.findall(r"\]\((examples/deployments/[^)]*|docs/[^)]*)\)", README):
        assert (ROOT / link).is_file(), link
