"""Whatever a file holds, it makes a deployment or a `DeployError` that names the file; nothing else."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duplex_trio.deploy import (
    PLATFORMS,
    DeployConfig,
    DeployError,
    DuplexSessionDeploy,
    StageDeploy,
    load_deploy,
)
from duplex_trio.deploy.keys import file_key
from duplex_trio.deploy.stage import RemoteDeploy

KEYS = sorted(
    {
        file_key(one)
        for cls in (DeployConfig, DuplexSessionDeploy, StageDeploy, RemoteDeploy)
        for one in attrs.fields(cls)
    }
    | {"base_config", "platforms", *PLATFORMS}
)
WORDS = [
    "cascade_cpu",
    "deploy.yaml",
    "./deploy.yaml",
    "duplex",
    "turn",
    "remote",
    "process",
    "thread",
    "cpu",
    "0,1",
    "auto",
    "http://a/v1",
    "~nobody-here/x.yaml",
    "a\x00b/c.yaml",
    "${HOME}",
    "${UNSET}",
    "${UNSET:-3}",
    "${",
    "$${A}",
]
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.dates(),
    st.sampled_from(WORDS),
)
keys = st.one_of(st.sampled_from(KEYS), st.text(max_size=5), st.integers(), st.booleans())
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=6),
    max_leaves=30,
)
stages = st.lists(st.dictionaries(st.sampled_from(KEYS), values, max_size=5), max_size=4)
files = st.dictionaries(
    st.sampled_from(KEYS), values, max_size=8
).flatmap(lambda rest: stages.map(lambda made: {"pipeline": "p", "stages": made} | rest))  # fmt: skip

PIECES = """\
pipeline: p
stages:
  - stage_id: 0
&a |*a |<<: *a
? [a]
!!binary x
!!set {a}
!!int x
!!timestamp 2024-13-45
a: 2024-13-45
a: 0b_
a: 1:60
{|[|]|}|- |a: |'|"|\t|>-
!!python/object:os.system {}
!!omap [a: 1]
---
%YAML 9.9
!<x> y
!!map [a]
!!seq {a: b}
!!str [a]
<<: 3
<<: [3]
0o8
"""
pieces = [part for line in PIECES.splitlines(keepends=True) for part in line.split("|")]
broken_yaml = st.one_of(
    st.text(),
    st.binary().map(lambda data: data.decode("latin-1")),
    st.lists(st.sampled_from([*pieces, f"a: {'9' * 5000}\n"]), max_size=12).map("".join),
)


def hold(folder: Path, text: str) -> None:
    """Load it; a fault names a file and is one line."""
    path = folder / "deploy.yaml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        made = load_deploy(path, platform="cpu", environment={"HOME": "/root"})
    except DeployError as error:
        told = error.faults
    else:
        assert isinstance(made, DeployConfig)
        return
    assert told
    assert all(fault.place is not None and fault.place.source for fault in told)


@given(text=broken_yaml)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_a_deployment_or_a_deploy_error(tmp_path: Path, text: str) -> None:
    hold(tmp_path, text)


@given(data=st.one_of(files, values))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_data_is_a_deployment_or_a_deploy_error(tmp_path: Path, data: object) -> None:
    try:
        text = yaml.safe_dump(data, allow_unicode=True)
    except yaml.YAMLError:
        return
    hold(tmp_path, text)


def bomb() -> str:
    """A few lines that stand for ten million values."""
    doubling = zip("abcdef", "bcdefg", strict=True)
    lines = [f"{name}: &{name} [{', '.join(['*' + below] * 10)}]\n" for below, name in doubling]
    return "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(lines)


HARMFUL = {
    "deep": ("a: " + "[" * 1200, "nested too deeply"),
    "list in itself": ("a: &a [*a]\n", "holds itself"),
    "mapping in itself": ("a: &a {b: *a}\n", "holds itself"),
    "bomb": (bomb(), "more than 100000 values"),
    "list as key": ("? [a]\n: b\n", "a key must be text"),
    "date": ("a: 2024-13-45\n", "cannot be read"),
    "object": ("a: !!python/object/apply:os.getcwd []\n", "takes no !!python/object"),
    "pairs": ("a: !!omap [b: 1]\n", "takes no !!omap"),
    "bell": ("a: \x07\n", "not valid YAML"),
    "empty": ("", "must be a mapping of keys"),
    "two": ("--- {pipeline: a}\n--- {pipeline: b}\n", "not valid YAML"),
}


@pytest.mark.parametrize(("text", "told"), HARMFUL.values(), ids=HARMFUL)
def test_yaml_that_harms_is_refused(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "deploy.yaml").write_text(text)
    with pytest.raises(DeployError, match=told):
        load_deploy(tmp_path / "deploy.yaml")
