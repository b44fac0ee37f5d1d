"""References to environment variables in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from duplex_trio.deploy import DeployConfig, DeployError, load_deploy

ENVIRONMENT = {"MODEL": "./qwen", "SESSIONS": "16", "EMPTY": "", "YES": "true", "BASE": "scripted"}


def load(tmp_path: Path, text: str, **files: str) -> DeployConfig:
    for name, other in files.items():
        (tmp_path / f"{name}.yaml").write_text(other)
    (tmp_path / "deploy.yaml").write_text(text)
    return load_deploy(tmp_path / "deploy.yaml", platform="cpu", environment=ENVIRONMENT)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("${MODEL}", "./qwen"),
        ("${MODEL:-other}", "./qwen"),
        ("${UNSET:-other}", "other"),
        ("${EMPTY:-other}", "other"),
        ("models/${UNSET:-a}/${MODEL}", "models/a/./qwen"),
        ("'${SESSIONS}'", "16"),
        ("$${MODEL}", "${MODEL}"),
        ("price $5", "price $5"),
    ],
)
def test_a_reference_is_replaced_in_text(tmp_path: Path, written: str, value: str) -> None:
    deploy = load(tmp_path, f"pipeline: p\nstages:\n  - stage_id: 0\n    model: {written}\n")
    assert deploy.stage(0).model == value


def test_a_value_without_quotes_is_read_as_yaml_reads_it(tmp_path: Path) -> None:
    text = """\
pipeline: p
trust_remote_code: ${YES}
dtype: ${UNSET:-null}
duplex_session:
  max_sessions: ${SESSIONS}
  idle_ttl_s: ${UNSET:-12.5}
"""
    deploy = load(tmp_path, text)
    assert deploy.trust_remote_code is True
    assert deploy.dtype is None
    assert (deploy.duplex_session.max_sessions, deploy.duplex_session.idle_ttl_s) == (16, 12.5)


def test_a_quoted_value_stays_text(tmp_path: Path) -> None:
    with pytest.raises(DeployError, match=r"max_sessions must be a whole number, not '16'"):
        load(tmp_path, 'pipeline: p\nduplex_session: {max_sessions: "${SESSIONS}"}\n')


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("${UNSET}", "needs the environment variable UNSET, which is not set"),
        ("${1A}", "must be ${NAME} or ${NAME:-default} ($${ for the sign itself), not '${1A}'"),
        ("${MODEL", "must be ${NAME} or ${NAME:-default} ($${ for the sign itself), not '${MODEL'"),
        ("${MODEL-x}", "must be ${NAME} or ${NAME:-default} ($${ for the sign itself), not '${MODEL-x}'"),
    ],
)
def test_a_reference_without_a_value_is_one_fault_with_its_place(
    tmp_path: Path, written: str, told: str
) -> None:
    with pytest.raises(DeployError) as caught:
        load(tmp_path, f"pipeline: p\nstages:\n  - stage_id: 0\n    num_replicas: {written}\n")
    (fault,) = caught.value.faults
    assert fault.located == f"{tmp_path}/deploy.yaml:4:5: stages[0].num_replicas {told}"


def test_what_another_file_overrides_need_not_be_set(tmp_path: Path) -> None:
    """Nor what a section for another platform says."""
    base = "pipeline: p\ndtype: ${UNSET}\nplatforms:\n  cuda: {quantization: ${UNSET}}\n".replace(
        "{quantization: ${UNSET}}", "\n    quantization: ${UNSET}"
    )
    assert load(tmp_path, "base_config: base.yaml\ndtype: auto\n", base=base).dtype == "auto"


def test_the_base_may_be_named_by_a_variable(tmp_path: Path) -> None:
    assert load(tmp_path, "base_config: ${BASE}\n").pipeline == "scripted"
    with pytest.raises(DeployError, match="base_config needs the environment variable NOBASE"):
        load(tmp_path, "base_config: ${NOBASE}\n")
