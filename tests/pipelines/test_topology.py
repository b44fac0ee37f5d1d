"""What a declaration must be: a row for each rule, every fault at once, and any declaration judged rightly."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.pipelines.config import PipelineConfig, StageSpec
from duplex_trio.pipelines.registry import pipeline_config, pipeline_names
from duplex_trio.pipelines.topology import RULES, TopologyError, check_topology, topology_faults

PATH = "package.module:make"


def stage(stage_id: int, *sources: int, name: str | None = None, **more: Any) -> StageSpec:
    return StageSpec(stage_id=stage_id, name=name or f"s{stage_id}", input_sources=sources, **more)


def declared(*stages: StageSpec, **more: Any) -> PipelineConfig:
    return PipelineConfig(**{"name": "mine", "stages": stages, "processor": PATH} | more)


END: Any = {"final_output": "audio"}
WRONG: dict[str, tuple[PipelineConfig, str, str]] = {
    "no stages": (declared(), "stages", "it has no stages"),
    "a gap in the ids": (
        declared(stage(0), stage(2, 0, **END)),
        "ids",
        "the stage ids must be 0..1 in order, not [0, 2]",
    ),
    "an id twice": (
        declared(stage(0), stage(0, **END)),
        "ids",
        "the stage ids must be 0..1 in order, not [0, 0], and 0 is there more than once",
    ),
    "ids out of order": (
        declared(stage(1, 0, **END), stage(0)),
        "ids",
        "the stage ids must be 0..1 in order, not [1, 0]",
    ),
    "a name twice": (
        declared(stage(0, name="llm"), stage(1, 0, name="llm", **END)),
        "names",
        "stage 1 (llm) has the name of stage 0",
    ),
    "an empty name": (
        declared(stage(0, name=" ", **END)),
        "names",
        "stage 0 ( ) has the name ' ', which must be letters, digits, _ and -, a letter first",
    ),
    "a pipeline without a name": (
        declared(stage(0, **END), name=""),
        "names",
        "the pipeline's name '' must be letters, digits, _ and -, a letter first",
    ),
    "a source that is not there": (
        declared(stage(0), stage(1, 0, 7, **END)),
        "sources",
        "stage 1 (s1) names 7 as source, which there is not",
    ),
    "a negative source": (
        declared(stage(0), stage(1, 0, -1, **END)),
        "sources",
        "stage 1 (s1) names -1 as source, which there is not",
    ),
    "itself as source": (
        declared(stage(0), stage(1, 0, 1, **END)),
        "sources",
        "stage 1 (s1) names itself as source",
    ),
    "a later source": (
        declared(stage(0), stage(1, 0, 2), stage(2, 1, **END)),
        "sources",
        "stage 1 (s1) names 2 as source, which comes later, not earlier",
    ),
    "a source twice": (
        declared(stage(0), stage(1, 0, 0, **END)),
        "sources",
        "stage 1 (s1) names 0 as source more than once",
    ),
    "no entry": (
        declared(stage(0, 0, **END)),
        "entry",
        "there is no entry stage, one without input_sources",
    ),
    "no final output": (
        declared(stage(0), stage(1, 0)),
        "final",
        "there is no stage with a final_output",
    ),
    "another final output": (
        declared(stage(0, final_output="smell")),
        "final",
        "stage 0 (s0) has final_output 'smell', not text or audio or prompt_state",
    ),
    "a stage behind a circle": (
        declared(stage(0), stage(1, 1), stage(2, 1, **END)),
        "reachable",
        "stage 2 (s2) is reached from no entry stage",
    ),
    "a dead end": (
        declared(stage(0, **END), stage(1, 0)),
        "dead_end",
        "stage 1 (s1) leads to no stage with a final_output",
    ),
    "another execution type": (
        declared(stage(0, execution_type="magic", **END)),
        "execution",
        "stage 0 (s0) has execution_type 'magic', not autoregressive or generation",
    ),
    "a window that is closed": (
        declared(stage(0, window=0, **END)),
        "window",
        "stage 0 (s0) has a window of 0, less than 1",
    ),
    "constraints where nothing is sampled": (
        declared(stage(0, sampling_constraints={"top_p": 1.0}, **END)),
        "constraints",
        "stage 0 (s0) has sampling_constraints, but samples nothing: it is not autoregressive",
    ),
    "a constraint that is no parameter": (
        declared(stage(0, execution_type="autoregressive", sampling_constraints={"extra": {}}, **END)),
        "constraints",
        "stage 0 (s0) has a sampling constraint called 'extra', no parameter's name",
    ),
    "a constraint out of range": (
        declared(stage(0, execution_type="autoregressive", sampling_constraints={"top_p": 0}, **END)),
        "constraints",
        "stage 0 (s0) holds top_p at 0, which must be a number above 0 and at most 1",
    ),
    "sessions without a plugin": (
        declared(stage(0, **END), default_session_mode="duplex"),
        "mode",
        "default_session_mode duplex needs a duplex_plugin",
    ),
    "turns without a processor": (
        declared(stage(0, **END), processor=None, duplex_plugin=PATH),
        "mode",
        "default_session_mode turn needs a processor",
    ),
    "another mode": (
        declared(stage(0, **END), default_session_mode="half"),
        "mode",
        "default_session_mode must be turn or duplex or video, not 'half'",
    ),
    "a path without a name": (
        declared(stage(0, **END), processor="package.module"),
        "paths",
        "processor must be package.module:name, not 'package.module'",
    ),
    "a path that is no path": (
        declared(stage(0, **END), duplex_plugin="./module.py:make"),
        "paths",
        "duplex_plugin must be package.module:name, not './module.py:make'",
    ),
}


@pytest.mark.parametrize(("config", "rule", "message"), WRONG.values(), ids=WRONG)
def test_a_broken_rule_is_named(config: PipelineConfig, rule: str, message: str) -> None:
    """With the pipeline and the stage."""
    with pytest.raises(TopologyError, match="is declared wrongly") as caught:
        check_topology(config)
    assert caught.value.pipeline == config.name
    assert (rule, message) in [(fault.rule, str(fault)) for fault in caught.value.faults]
    assert message in str(caught.value)
    assert f"[{rule}]" in str(caught.value)
    stage_of = next(fault.stage for fault in caught.value.faults if str(fault) == message)
    assert stage_of is None or f"stage {stage_of} " in message


def test_every_rule_is_broken_by_some_row() -> None:
    assert {rule for _, rule, _ in WRONG.values()} == set(RULES)


def test_every_fault_is_told_at_once() -> None:
    """One look is enough to mend a declaration."""
    config = declared(
        stage(0, name="a", window=0),
        stage(1, 1, 1, name="a"),
        stage(2, 0, name="c", final_output="smell"),
        stage(3, name="d"),
        processor="nowhere",
        default_session_mode="duplex",
    )
    rules = [fault.rule for fault in topology_faults(config)]
    assert sorted(rules) == sorted(
        ["window", "names", "sources", "sources", "final", "dead_end", "dead_end", "paths", "mode"]
    )


@pytest.mark.parametrize("name", pipeline_names())
def test_the_models_of_the_package_are_declared_well(name: str) -> None:
    check_topology(pipeline_config(name))


def test_stages_may_fork_and_join() -> None:
    """Several entries, several final outputs, and a stage with two sources."""
    check_topology(
        declared(
            stage(0), stage(1), stage(2, 0, 1, final_output="text"), stage(3, 2, **END), stage(4, 1, **END)
        )
    )


CONFIGS = st.lists(
    st.builds(
        StageSpec,
        stage_id=st.integers(-1, 4),
        name=st.sampled_from(["a", "b", "c", "d", ""]),
        input_sources=st.lists(st.integers(-1, 4), max_size=3).map(tuple),
        final_output=st.sampled_from([None, "text", "audio"]),
    ),
    max_size=5,
).map(lambda stages: declared(*stages))
RENUMBERED = CONFIGS.map(
    lambda config: attrs.evolve(
        config,
        stages=tuple(
            attrs.evolve(spec, stage_id=index, name=f"s{index}") for index, spec in enumerate(config.stages)
        ),
    )
)


@given(st.one_of(CONFIGS, RENUMBERED))
def test_what_is_accepted_can_be_walked(config: PipelineConfig) -> None:
    """Whatever passes, a walk from the entries in order of the ids comes by every stage, and each ends well."""
    if topology_faults(config):
        return
    ids = [spec.stage_id for spec in config.stages]
    assert ids == list(range(len(ids)))
    fed: set[int] = set()
    for spec in config.stages:
        assert set(spec.input_sources) <= fed
        fed.add(spec.stage_id)
    ends: set[int] = set()
    for spec in reversed(config.stages):
        follows = any(spec.stage_id in config.stages[later].input_sources for later in ends)
        assert spec.final_output is not None or follows
        ends.add(spec.stage_id)


@given(RENUMBERED)
def test_what_can_be_walked_is_accepted(config: PipelineConfig) -> None:
    """A chain made of any declaration has no fault."""
    chain = tuple(
        attrs.evolve(spec, input_sources=(index - 1,) if index else (), final_output="audio")
        for index, spec in enumerate(config.stages)
    )
    assert not chain or not topology_faults(attrs.evolve(config, stages=chain))
