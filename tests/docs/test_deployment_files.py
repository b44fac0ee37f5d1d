"""The YAML of the pages: deployments load and each of their keys has an effect, everything else is YAML."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from duplex_trio.deploy import bundled_deployments, read_deploy
from duplex_trio.pipelines.deployment import deployment_findings
from duplex_trio.pipelines.registry import pipeline_class
from tests.docs.blocks import Block, named

DEPLOYMENT_KEYS = {"base_config", "pipeline", "stages", "duplex_session", "video_session"}
BLOCKS = named("yaml", "yml")


def _is_deployment(block: Block) -> bool:
    """What has no base is about the stages of the default deployment."""
    return bool(DEPLOYMENT_KEYS & set(yaml.safe_load(block.text)))


@pytest.mark.parametrize("block", [block for block in BLOCKS if _is_deployment(block)], ids=str)
@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_a_deployment_loads_and_each_key_has_an_effect(block: Block, platform: str, tmp_path: Path) -> None:
    text = block.text
    keys = yaml.safe_load(text)
    if not {"base_config", "pipeline"} & set(keys):
        text = f"base_config: cascade_cpu\n{text}"
    elif keys.get("base_config", "${").partition("$")[0] not in (*bundled_deployments(), ""):
        (tmp_path / f"{keys['base_config']}.yaml").write_text(_base_of(block))
        text = text.replace(f"base_config: {keys['base_config']}", f"base_config: {keys['base_config']}.yaml")
    path = tmp_path / "deploy.yaml"
    path.write_text(text)
    document = read_deploy(path, platform=platform, environment={})
    if document.config.pipeline not in OF_EXAMPLES:
        findings = deployment_findings(pipeline_class(document.config.pipeline), document.config)
        assert [finding for finding in findings if finding.own] == []


OF_EXAMPLES = {"parrot", "my_model", "echo"}
"""Pipelines of packages that are installed by tests of their own."""


def _base_of(block: Block) -> str:
    """The deployment of an example's package, which is not installed here."""
    folder = Path(__file__).parents[2] / Path(block.page).parent
    (path,) = folder.glob(f"*/deployments/{yaml.safe_load(block.text)['base_config']}.yaml")
    return path.read_text()


def test_there_are_some() -> None:
    assert sum(map(_is_deployment, BLOCKS)) > 8
