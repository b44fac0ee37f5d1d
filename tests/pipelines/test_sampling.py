"""Who is heard when several say how a stage samples."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.pipelines.config import StageSpec
from duplex_trio.pipelines.sampling import PARAMETERS, StageSampling, sampling_faults, stage_sampling
from duplex_trio.stages.units import GenerationParams

SPEC = StageSpec(stage_id=1, name="llm", execution_type="autoregressive")
VALUES: dict[str, tuple[Any, Any, Any]] = {
    "temperature": (0.1, 0.2, 0.3),
    "top_p": (0.1, 0.2, 0.3),
    "top_k": (1, 2, 3),
    "min_p": (0.1, 0.2, 0.3),
    "repetition_penalty": (1.1, 1.2, 1.3),
    "presence_penalty": (0.1, 0.2, 0.3),
    "frequency_penalty": (0.1, 0.2, 0.3),
    "max_tokens": (1, 2, 3),
    "min_tokens": (1, 2, 3),
    "seed": (1, 2, 3),
    "stop": (("a",), ("b",), ("c",)),
    "stop_token_ids": ([1], [2], [3]),
    "bad_words": (["a"], ["b"], ["c"]),
    "ignore_eos": (True, True, True),
}


def asked(name: str, value: Any) -> GenerationParams:
    if hasattr(GenerationParams(), name):
        return GenerationParams(**{name: value})
    return GenerationParams(extra={name: value})


def got(params: Any, name: str) -> Any:
    assert isinstance(params, GenerationParams)
    return getattr(params, name) if hasattr(params, name) else params.extra.get(name)


def test_every_parameter_has_an_example() -> None:
    assert VALUES.keys() == PARAMETERS.keys()


@pytest.mark.parametrize("name", VALUES)
def test_a_constraint_beats_a_request_and_a_request_the_deployment(name: str) -> None:
    """For each parameter, whether `GenerationParams` has it or only the engine."""
    deployed, requested, held = VALUES[name]
    defaults, constraints = {name: deployed}, {name: held}
    assert got(StageSampling(stage="s", defaults=defaults).apply(None), name) == deployed
    assert got(StageSampling(stage="s", defaults=defaults).apply(GenerationParams()), name) == deployed
    assert got(StageSampling(stage="s", defaults=defaults).apply(asked(name, requested)), name) == requested
    both = StageSampling(stage="s", defaults=defaults, constraints=constraints)
    for params in (None, GenerationParams(), asked(name, requested)):
        assert got(both.apply(params), name) == held


def test_what_nobody_speaks_of_stays() -> None:
    """And a stage of which nothing is said passes on what it was given, of whatever kind."""
    sampling = StageSampling(stage="s", defaults={"top_k": 5}, constraints={"seed": 1})
    request = GenerationParams(temperature=0.5, stop=("x",), extra={"min_p": 0.1})
    assert sampling.apply(request) == GenerationParams(
        temperature=0.5, stop=("x",), top_k=5, seed=1, extra={"min_p": 0.1}
    )
    thing = object()
    assert StageSampling(stage="s").apply(thing) is thing


def test_params_of_another_kind_cannot_be_held() -> None:
    with pytest.raises(TypeError, match=r"stage 1 \(llm\).*must be GenerationParams, not dict"):
        StageSampling(stage="1 (llm)", constraints={"seed": 1}).apply({"seed": 2})


def test_one_text_stops_as_a_list_of_one() -> None:
    assert got(stage_sampling(SPEC, {"stop": "END"}).apply(None), "stop") == ("END",)


WRONG = {
    "temperature": [-0.1, "hot", True, float("nan"), float("inf")],
    "top_p": [0, 1.1, None],
    "top_k": [0, -2, 1.5, True],
    "min_p": [-0.1, 1.1],
    "repetition_penalty": [0, float("inf")],
    "presence_penalty": [2.1, "a"],
    "frequency_penalty": [-2.1],
    "max_tokens": [0, 1.5],
    "min_tokens": [-1],
    "seed": [1.5, "a"],
    "stop": ["", [""], [1], 3],
    "stop_token_ids": [[-1], 3, ["a"]],
    "bad_words": ["a", [""]],
    "ignore_eos": [1, "yes"],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, bad in WRONG.items() for value in bad])
def test_a_value_out_of_range_is_named_with_what_is_allowed(name: str, value: Any) -> None:
    message = f"must be {PARAMETERS[name].allowed}, not {value!r}"
    assert [*sampling_faults(SPEC, {name: value})] == [(name, message)]
    with pytest.raises(ValueError, match=rf"default_sampling_params of stage 1 \(llm\): {name} must be"):
        stage_sampling(SPEC, {name: value})


def test_every_fault_is_told_at_once() -> None:
    """A parameter that does not exist, one out of range, and one that the model holds already."""
    spec = StageSpec(
        stage_id=1, name="llm", execution_type="autoregressive", sampling_constraints={"seed": 1, "top_k": 9}
    )
    faults = dict(sampling_faults(spec, {"temprature": 1.0, "top_p": 7, "seed": 2, "top_k": 9}))
    assert faults.keys() == {"temprature", "top_p", "seed"}
    assert faults["temprature"].startswith("is no sampling parameter; there are bad_words, ")
    assert faults["seed"] == "must be left out: the model holds it at 1"


def test_a_stage_that_samples_nothing_takes_no_parameters() -> None:
    spec = StageSpec(stage_id=0, name="asr")
    assert [*sampling_faults(spec, {"seed": 1})] == [("", "must be left out: the stage samples nothing")]
    assert not [*sampling_faults(spec, {})]


@given(
    st.dictionaries(
        st.text() | st.sampled_from(sorted(PARAMETERS)),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=3
        ),
    )
)
def test_any_mapping_is_judged_or_used(defaults: dict[str, Any]) -> None:
    """What is not refused can be applied, and holds."""
    if [*sampling_faults(SPEC, defaults)]:
        return
    applied = stage_sampling(SPEC, defaults).apply(GenerationParams())
    for name, value in defaults.items():
        assert name == "stop" or got(applied, name) == value
