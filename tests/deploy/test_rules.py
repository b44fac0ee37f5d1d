"""One row for each rule of a deployment file, in `rules.txt`: what breaks it, and the line that says so."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from duplex_trio.deploy import DeployConfig, DeployError, StageDeploy, load_deploy
from duplex_trio.deploy.checks import Check
from duplex_trio.deploy.stage import RemoteDeploy, stage_rules

TABLE = Path(__file__).with_name("rules.txt").read_text()
RULES = [tuple(row.split("\n=> ")) for row in TABLE.strip().split("\n\n")[1:]]


def faults(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "deploy.yaml"
    path.write_text(text if text.startswith("pipeline") else f"pipeline: p\n{text}\n")
    with pytest.raises(DeployError) as caught:
        load_deploy(path, platform="cpu", environment={})
    return [str(fault) for fault in caught.value.faults]


@pytest.mark.parametrize(("text", "message"), RULES, ids=[text for text, _ in RULES])
def test_whoever_breaks_a_rule_is_told_the_key_what_is_allowed_and_what_is_there(
    tmp_path: Path, text: str, message: str
) -> None:
    (fault,) = faults(tmp_path, text)
    assert message in fault


def test_every_fault_is_told_at_once_with_its_place(tmp_path: Path) -> None:
    """Kinds, ranges, rules between keys, unknown and missing keys, repeated keys, in the order of the file."""
    text = """\
sesion_mode: duplex
duplex_session:
  max_sessions: 0
  idle_ttl_s: soon
  max_sessions: many
stages:
  - stage_id: 0
    max_model_len: 0
    gpu_memory_utilization: 2
    python: python3
    colour: red
  - model: m
  - stage_id: 0
platforms:
  cuba: {}
"""
    path = tmp_path / "deploy.yaml"
    path.write_text(text)
    with pytest.raises(DeployError) as caught:
        load_deploy(path, platform="cpu")
    found = [(fault.place and fault.place.line, str(fault)) for fault in caught.value.faults]
    assert [(line, told[:64]) for line, told in found] == [
        (1, "required key pipeline is missing"),
        (1, "unknown key 'sesion_mode' at top level (did you mean session_mod"),
        (4, "duplex_session.idle_ttl_s must be a number, not 'soon'"),
        (5, "the key 'max_sessions' is there twice"),
        (5, "duplex_session.max_sessions must be a whole number, not 'many'"),
        (7, "stages[0].execution must be process for a stage with the key pyt"),
        (8, "stages[0].max_model_len must be at least 1, not 0"),
        (9, "stages[0].gpu_memory_utilization must be greater than 0 and at m"),
        (11, "unknown key 'colour' at stages[0]; allowed there: stage_id, mode"),
        (12, "required key stages[1].stage_id is missing"),
        (13, "stages[2].stage_id must be another one than that of stages[0], n"),
        (15, "platforms.cuba must be one of cpu, cuda, rocm, xpu, npu, musa, t"),
    ]
    assert f"{path}:8:5: stages[0].max_model_len" in str(caught.value)


def test_a_fault_is_said_of_the_file_that_holds_it(tmp_path: Path) -> None:
    """Not of the one that was named, and by the path that the key has there."""
    (tmp_path / "base.yaml").write_text("pipeline: p\nstages:\n  - stage_id: 4\n    max_num_seqs: 0\n")
    (tmp_path / "deploy.yaml").write_text(
        "base_config: base.yaml\nstages:\n  - {stage_id: 1, max_num_seqs: 0}\n  - {stage_id: 4, dtype: odd}\n"
    )
    with pytest.raises(DeployError) as caught:
        load_deploy(tmp_path / "deploy.yaml", platform="cpu")
    told = sorted(fault.located.split(" must")[0] for fault in caught.value.faults)
    assert told == [
        f"{tmp_path}/base.yaml:4:5: stages[0].max_num_seqs",
        f"{tmp_path}/deploy.yaml:3:19: stages[0].max_num_seqs",
        f"{tmp_path}/deploy.yaml:4:19: stages[1].dtype",
    ]


def test_a_long_value_is_cut_in_messages(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, f"dtype: {'x' * 5000}")
    assert len(fault) < 400
    assert fault.endswith("...")


@pytest.mark.parametrize("cls", [DeployConfig, StageDeploy, RemoteDeploy], ids=lambda cls: cls.__name__)
def test_every_check_is_in_the_table(cls: type) -> None:
    """Or in the one of `test_loader`: no check goes untold."""
    rows = " ".join(message for _, message in RULES) + Path(__file__).with_name("test_loader.py").read_text()
    for attribute in attrs.fields(cls):
        if isinstance(attribute.validator, Check):
            assert attribute.validator.rule.split(",")[0] in rows


def test_the_rules_between_keys_hold_for_a_stage_made_in_python() -> None:
    """The class tells the first, `stage_rules` all."""
    with pytest.raises(ValueError, match="execution must be process for a stage with the key python"):
        StageDeploy(stage_id=0, python="python3")
    told = [fault.key for fault in stage_rules({"python": "python3", "devices": "0,1,2", "num_replicas": 2})]
    assert told == ["execution", "devices"]


def test_spellings_of_devices_are_one(tmp_path: Path) -> None:
    path = tmp_path / "deploy.yaml"
    for written in ("0,1", "'0, 1'", "[0, 1]"):
        path.write_text(
            f"pipeline: p\nstages: [{{stage_id: 0, devices: {written}}}]\n".replace("0,1}", "'0,1'}")
        )
        assert load_deploy(path).stage(0).devices == "0,1"
    assert StageDeploy(stage_id=0, devices=0).devices == "0"  # type: ignore[arg-type]


def test_numbers_of_the_environment_are_text(tmp_path: Path) -> None:
    path = tmp_path / "deploy.yaml"
    path.write_text("pipeline: p\nstages: [{stage_id: 0, execution: process, environment: {N: 1, F: 0.5}}]\n")
    assert load_deploy(path).stage(0).environment == {"N": "1", "F": "0.5"}
