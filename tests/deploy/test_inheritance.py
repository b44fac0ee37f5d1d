"""What a file makes of the one that it extends: merging, taking keys away, and sections for platforms."""

from __future__ import annotations

from pathlib import Path

import pytest

from duplex_trio.deploy import DeployConfig, DeployError, load_deploy, read_deploy


@pytest.fixture
def load(tmp_path: Path):
    """Write files by name and load the last of them."""

    def load(platform: str = "cpu", **files: str) -> DeployConfig:
        for name, text in files.items():
            (tmp_path / f"{name}.yaml").write_text(text)
        return load_deploy(tmp_path / f"{name}.yaml", platform=platform, environment={})

    return load


BASE = """\
pipeline: p
dtype: float32
duplex_session: {max_sessions: 8, idle_ttl_s: 60, disconnect_grace_s: 9}
stages:
  - stage_id: 0
    model: small
    max_num_seqs: 8
    engine_args: {a: 1, b: {c: 2, d: 3}}
    execution: process
    environment: {A: "1", B: "2"}
"""


def test_mappings_merge_at_every_depth_and_lists_do_not(load) -> None:
    deploy = load(
        base=BASE, top="base_config: base.yaml\nstages: [{stage_id: 0, engine_args: {b: {c: [5], e: 4}}}]\n"
    )
    assert deploy.stage(0).engine_args == {"a": 1, "b": {"c": [5], "d": 3, "e": 4}}
    assert deploy.stage(0).model == "small"


def test_null_takes_an_inherited_key_away(load) -> None:
    """Also in mappings whose keys are free, a whole mapping, and a stage's place."""
    top = """\
base_config: base.yaml
dtype: null
duplex_session: {max_sessions: null, disconnect_grace_s: null}
stages:
  - {stage_id: 0, max_num_seqs: null, engine_args: {a: null, b: {d: null}}, environment: null, execution: null}
"""
    deploy = load(base=BASE, top=top)
    stage = deploy.stage(0)
    assert (deploy.dtype, stage.max_num_seqs, dict(stage.environment)) == (None, None, {})
    assert stage.execution == "thread"
    assert stage.engine_args == {"b": {"c": 2}}
    assert deploy.duplex_session.max_sessions == 1
    assert deploy.duplex_session.disconnect_grace_s == 30


def test_null_is_a_value_where_the_key_may_be_null(load) -> None:
    """`idle_ttl_s: null` is never, not the default."""
    deploy = load(base=BASE, top="base_config: base.yaml\nduplex_session: {idle_ttl_s: null}\n")
    assert deploy.duplex_session.idle_ttl_s is None


def test_null_takes_all_stages_away(load) -> None:
    assert load(base=BASE, top="base_config: base.yaml\nstages: null\n").stages == ()


def test_a_chain_of_bases_is_followed_to_its_end(load) -> None:
    deploy = load(
        base=BASE,
        middle="base_config: base.yaml\nduplex_session: {max_sessions: 3}\nstages: [{stage_id: 1, model: m}]\n",
        top="base_config: middle.yaml\nstages: [{stage_id: 1, max_num_seqs: 2}, {stage_id: 0, model: large}]\n",
    )
    assert deploy.duplex_session.max_sessions == 3
    assert [(s.stage_id, s.model, s.max_num_seqs) for s in deploy.stages] == [(0, "large", 8), (1, "m", 2)]


def test_a_circle_is_named_link_by_link(load, tmp_path: Path) -> None:
    with pytest.raises(DeployError) as caught:
        load(a="base_config: b.yaml\n", b="base_config: ./c.yaml\n", c="base_config: a.yaml\n")
    (fault,) = caught.value.faults
    names = " -> ".join(str(tmp_path / f"{name}.yaml") for name in "cabc")
    assert str(fault) == f"base_config goes in a circle: {names}"
    assert fault.place is not None
    assert fault.place.source == str(tmp_path / "b.yaml")


def test_a_path_is_relative_to_the_file_that_has_it(tmp_path: Path) -> None:
    (tmp_path / "in" / "deeper").mkdir(parents=True)
    (tmp_path / "in" / "base.yaml").write_text("base_config: deeper/base.yaml\n")
    (tmp_path / "in" / "deeper" / "base.yaml").write_text("pipeline: p\n")
    (tmp_path / "top.yaml").write_text("base_config: in/base.yaml\n")
    document = read_deploy(tmp_path / "top.yaml")
    assert document.config.pipeline == "p"
    assert [Path(source).name for source in document.sources] == ["base.yaml", "base.yaml", "top.yaml"]


def test_a_section_is_merged_over_its_file_alone(load) -> None:
    """What extends the file wins over both."""
    base = BASE + "platforms:\n  cuda:\n    stages: [{stage_id: 0, model: large, max_num_seqs: 64}]\n"
    top = "base_config: base.yaml\nstages: [{stage_id: 0, model: mine}]\n"
    assert load("cpu", base=base).stage(0).model == "small"
    assert load("cuda", base=base).stage(0).model == "large"
    deploy = load("cuda", base=base, top=top)
    assert (deploy.stage(0).model, deploy.stage(0).max_num_seqs) == ("mine", 64)
    assert load("cpu", base=base, top=top).stage(0).max_num_seqs == 8


def test_a_section_takes_keys_away_too(load) -> None:
    text = BASE + "platforms:\n  cuda: {dtype: null}\n  rocm: null\n"
    assert load("cuda", base=text).dtype is None
    assert load("rocm", base=text).dtype == "float32"


def test_faults_of_several_files_are_told_together(load, tmp_path: Path) -> None:
    with pytest.raises(DeployError) as caught:
        load(base="pipeline: p\ndtype: odd\n", top="base_config: base.yaml\nquantization: 3\n")
    assert {fault.place.source for fault in caught.value.faults if fault.place} == {
        str(tmp_path / "base.yaml"),
        str(tmp_path / "top.yaml"),
    }


def test_an_overridden_fault_is_none(load) -> None:
    """What is left of the base counts."""
    assert load(base="pipeline: p\ndtype: odd\n", top="base_config: base.yaml\ndtype: auto\n").dtype == "auto"


def test_the_top_level_is_the_default_of_the_stages(load) -> None:
    text = """\
pipeline: p
dtype: bfloat16
trust_remote_code: true
enable_prefix_caching: false
pipeline_parallel_size: 2
stages: [{stage_id: 0, dtype: float32, enable_prefix_caching: true}, {stage_id: 1}]
"""
    deploy = load(base=text)
    first, second, unmentioned = (deploy.stage(stage_id) for stage_id in range(3))
    assert (first.dtype, first.enable_prefix_caching, first.trust_remote_code) == ("float32", True, True)
    assert (second.dtype, second.enable_prefix_caching, second.pipeline_parallel_size) == (
        "bfloat16",
        False,
        2,
    )
    assert unmentioned.dtype == "bfloat16"


def test_anchors_and_merge_keys_are_followed(load) -> None:
    one, other = "&one {stage_id: 0, dtype: float32}", "{<<: *one, stage_id: 1, max_num_seqs: 3}"
    deploy = load(base=f"pipeline: p\nstages:\n  - {one}\n  - {other}\n")
    assert (deploy.stage(1).dtype, deploy.stage(1).max_num_seqs) == ("float32", 3)
