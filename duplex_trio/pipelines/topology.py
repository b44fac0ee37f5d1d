"""What a declaration must be before anything is built of it.

A pure look at values: no path is imported, no model looked for. Every fault is told at once, each with the rule
that it breaks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import get_args

from attrs import frozen

from duplex_trio.deploy.config import SessionMode
from duplex_trio.pipelines.config import ExecutionType, FinalOutput, PipelineConfig, StageSpec
from duplex_trio.pipelines.declared import DeclaredKey, needed_path
from duplex_trio.pipelines.sampling import PARAMETERS

_NAME = re.compile(r"[A-Za-z][\w-]*", re.ASCII)
_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


RULES = (
    "stages",
    "ids",
    "names",
    "execution",
    "sources",
    "entry",
    "final",
    "reachable",
    "dead_end",
    "window",
    "constraints",
    "mode",
    "paths",
)
"""The rules by name; docs/plugins.md says what each demands."""


@frozen(kw_only=True)
class TopologyFault:
    """One thing that a declaration gets wrong.

    Attributes:
        rule: the rule, of `RULES`.
        stage: the stage as people call it, `1 (llm)`; None where the fault is the pipeline's.
        message: what is wrong, in a sentence that names the stage.
    """

    rule: str
    stage: str | None = None
    message: str

    def __str__(self) -> str:
        return self.message


class TopologyError(ValueError):
    """A pipeline is not declared as one must be. `pipeline` names it; `faults` has at least one entry."""

    def __init__(self, pipeline: str, faults: Sequence[TopologyFault]) -> None:
        told = "; ".join(f"{fault} [{fault.rule}]" for fault in faults)
        super().__init__(f"pipeline {pipeline!r} is declared wrongly: {told}")
        self.pipeline = pipeline
        self.faults = tuple(faults)


def check_topology(config: PipelineConfig) -> None:
    """Check a declaration.

    Raises:
        TopologyError: naming the pipeline and, of every fault, the stage and the rule.
    """
    faults = topology_faults(config)
    if faults:
        raise TopologyError(config.name, faults)


def topology_faults(config: PipelineConfig) -> list[TopologyFault]:
    """What is wrong with a declaration; nothing for one that may be used."""
    faults = [*_name_faults(config), *_stage_faults(config.stages), *_path_faults(config)]
    if not config.stages:
        return [TopologyFault(rule="stages", message="it has no stages"), *faults]
    faults += _id_faults(config.stages)
    if not any(fault.rule == "ids" for fault in faults):  # else no source can be told from another
        faults += _source_faults(config.stages)
        faults += _way_faults(config.stages, {fault.stage for fault in faults if fault.rule == "sources"})
    return faults


def _called(stage: StageSpec) -> str:
    return f"{stage.stage_id} ({stage.name})"


def _of(stage: StageSpec, rule: str, what: str) -> TopologyFault:
    return TopologyFault(rule=rule, stage=_called(stage), message=f"stage {_called(stage)} {what}")


def _name_faults(config: PipelineConfig) -> Iterator[TopologyFault]:
    allowed = "must be letters, digits, _ and -, a letter first"
    if not _NAME.fullmatch(config.name):
        yield TopologyFault(rule="names", message=f"the pipeline's name {config.name!r} {allowed}")
    first: dict[str, StageSpec] = {}
    for stage in config.stages:
        if not _NAME.fullmatch(stage.name):
            yield _of(stage, "names", f"has the name {stage.name!r}, which {allowed}")
        elif (other := first.setdefault(stage.name, stage)) is not stage:
            yield _of(stage, "names", f"has the name of stage {other.stage_id}")


def _id_faults(stages: Sequence[StageSpec]) -> Iterator[TopologyFault]:
    ids = [stage.stage_id for stage in stages]
    if ids != list(range(len(ids))):
        repeated = sorted({stage_id for stage_id in ids if ids.count(stage_id) > 1})
        also = f", and {', '.join(map(str, repeated))} is there more than once" if repeated else ""
        yield TopologyFault(
            rule="ids", message=f"the stage ids must be 0..{len(ids) - 1} in order, not {ids}{also}"
        )


def _stage_faults(stages: Sequence[StageSpec]) -> Iterator[TopologyFault]:
    for stage in stages:
        if stage.execution_type not in get_args(ExecutionType):
            allowed = " or ".join(get_args(ExecutionType))
            yield _of(stage, "execution", f"has execution_type {stage.execution_type!r}, not {allowed}")
        if stage.final_output not in (None, *get_args(FinalOutput)):
            allowed = " or ".join(get_args(FinalOutput))
            yield _of(stage, "final", f"has final_output {stage.final_output!r}, not {allowed}")
        if stage.window < 1:
            yield _of(stage, "window", f"has a window of {stage.window}, less than 1")
        yield from _constraint_faults(stage)


def _constraint_faults(stage: StageSpec) -> Iterator[TopologyFault]:
    if stage.sampling_constraints and stage.execution_type != "autoregressive":
        yield _of(
            stage, "constraints", "has sampling_constraints, but samples nothing: it is not autoregressive"
        )
    for key, value in stage.sampling_constraints.items():
        if not isinstance(key, str) or not key.isidentifier() or key == "extra":
            yield _of(stage, "constraints", f"has a sampling constraint called {key!r}, no parameter's name")
        elif (rule := PARAMETERS.get(key)) is not None and not rule.holds(value):
            yield _of(stage, "constraints", f"holds {key} at {value!r}, which must be {rule.allowed}")


def _source_faults(stages: Sequence[StageSpec]) -> Iterator[TopologyFault]:
    for stage in stages:
        for source in dict.fromkeys(stage.input_sources):
            if source == stage.stage_id:
                yield _of(stage, "sources", "names itself as source")
            elif not 0 <= source < len(stages):
                yield _of(stage, "sources", f"names {source} as source, which there is not")
            elif source > stage.stage_id:
                yield _of(stage, "sources", f"names {source} as source, which comes later, not earlier")
            if stage.input_sources.count(source) > 1:
                yield _of(stage, "sources", f"names {source} as source more than once")


def _way_faults(stages: Sequence[StageSpec], mistaken: set[str | None]) -> Iterator[TopologyFault]:
    """Every stage is on a way from an entry to a final output, by those of its sources that can be."""
    if not any(not stage.input_sources for stage in stages):
        yield TopologyFault(rule="entry", message="there is no entry stage, one without input_sources")
    if all(stage.final_output is None for stage in stages):
        yield TopologyFault(rule="final", message="there is no stage with a final_output")
    edges = [(source, stage.stage_id) for stage in stages for source in _earlier(stage)]
    reached = _closure((stage.stage_id for stage in stages if not stage.input_sources), edges)
    useful = _closure(
        (stage.stage_id for stage in stages if stage.final_output is not None), [(b, a) for a, b in edges]
    )
    for stage in stages:
        if stage.stage_id not in reached and _called(stage) not in mistaken:
            yield _of(stage, "reachable", "is reached from no entry stage")
        if stage.stage_id not in useful:
            yield _of(stage, "dead_end", "leads to no stage with a final_output")


def _earlier(stage: StageSpec) -> Iterator[int]:
    return (source for source in stage.input_sources if 0 <= source < stage.stage_id)


def _closure(begin: Iterable[int], edges: Sequence[tuple[int, int]]) -> set[int]:
    found = set(begin)
    while more := {b for a, b in edges if a in found} - found:
        found |= more
    return found


def _path_faults(config: PipelineConfig) -> Iterator[TopologyFault]:
    for key in get_args(DeclaredKey):
        path = getattr(config, key)
        if path is not None and not _PATH.fullmatch(path):
            yield TopologyFault(rule="paths", message=f"{key} must be package.module:name, not {path!r}")
    mode = config.default_session_mode
    if mode not in get_args(SessionMode):
        allowed = " or ".join(get_args(SessionMode))
        yield TopologyFault(rule="mode", message=f"default_session_mode must be {allowed}, not {mode!r}")
    elif getattr(config, needed_path(mode)) is None:
        yield TopologyFault(rule="mode", message=f"default_session_mode {mode} needs a {needed_path(mode)}")
