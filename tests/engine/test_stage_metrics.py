"""How the figures of single outputs become those of a response."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.pipelines.results import StageSnapshot
from duplex_trio.pipelines.stage_metrics import FIRST_POSITIVE, LISTED, LISTED_MAX, SUMMED, StageMetrics


def metrics(*snapshots: dict[str, Any], stage: str = "0") -> StageMetrics:
    made = StageMetrics()
    made.add(StageSnapshot(stage, figures) for figures in snapshots)
    return made


@pytest.mark.parametrize("name", sorted(SUMMED))
def test_work_adds_up(name: str) -> None:
    """Tokens, times and sound of all outputs together."""
    assert metrics({name: 2}, {name: 3.5}, {}).totals() == {"0": {name: 5.5}}


@pytest.mark.parametrize("name", sorted(FIRST_POSITIVE))
def test_a_first_wait_stays(name: str) -> None:
    """The first that is more than 0 counts."""
    assert metrics({name: 0.0}, {name: 7.0}, {name: 3.0}).totals() == {"0": {name: 7.0}}


@pytest.mark.parametrize(("name", "mean"), LISTED.items())
def test_lists_are_joined_with_their_mean(name: str, mean: str) -> None:
    """All values in order; events that are sent often carry the mean alone."""
    made = metrics({name: (1.0, 2.0)}, {name: (6.0,)})
    assert made.totals() == {"0": {name: [1.0, 2.0, 6.0], mean: 3.0}}
    assert made.summary() == {"0": {mean: 3.0}}


def test_a_list_keeps_its_latest_values_and_the_mean_of_all() -> None:
    """A response may go on for hours."""
    (shown,) = metrics(*({"vllm_itls_ms": (float(n),)} for n in range(1000))).totals().values()
    assert shown["vllm_itls_ms"] == [float(n) for n in range(1000 - LISTED_MAX, 1000)]
    assert shown["vllm_itl_ms"] == 499.5


def test_time_per_token_is_weighted_by_tokens() -> None:
    """The first token of an output is no time between two; an output of none or one counts once."""
    made = metrics(
        {"num_tokens_out": 11, "vllm_tpot_ms": 10.0},
        {"num_tokens_out": 1, "vllm_tpot_ms": 40.0},
        {"vllm_tpot_ms": 40.0},
    )
    assert made.totals()["0"]["vllm_tpot_ms"] == 15.0
    assert made.totals()["0"]["num_tokens_out"] == 12


def test_of_anything_else_the_last_counts() -> None:
    """Such as a finish reason."""
    made = metrics({"finish_reason": "length", "x": 1}, {"finish_reason": "stop"})
    assert made.totals() == {"0": {"finish_reason": "stop", "x": 1}}


def test_stages_are_kept_apart() -> None:
    """Each stage has figures of its own, in the order of their first output."""
    made = StageMetrics()
    assert not made
    made.add([StageSnapshot("1", {"num_tokens_out": 1}), StageSnapshot("0", {"num_tokens_out": 2})])
    assert made
    assert made.totals() == {"1": {"num_tokens_out": 1}, "0": {"num_tokens_out": 2}}


def test_what_is_shown_is_a_copy() -> None:
    """An event that was made stays as it is when figures go on."""
    made = metrics({"num_tokens_out": 1, "vllm_itls_ms": (1.0,)})
    shown = made.totals()
    made.add([StageSnapshot("0", {"num_tokens_out": 1, "vllm_itls_ms": (2.0,)})])
    assert shown == {"0": {"num_tokens_out": 1, "vllm_itls_ms": [1.0], "vllm_itl_ms": 1.0}}


FIGURES = st.fixed_dictionaries(
    {},
    optional={
        "num_tokens_out": st.integers(0, 50),
        "vllm_tpot_ms": st.integers(1, 100),
        "vllm_ttft_ms": st.integers(0, 100),
        "vllm_itls_ms": st.lists(st.integers(1, 100), max_size=3),
        "finish_reason": st.sampled_from(["stop", "length"]),
    },
)
SNAPSHOTS = st.lists(st.builds(StageSnapshot, st.sampled_from("01"), FIGURES), max_size=8)


@given(SNAPSHOTS, SNAPSHOTS)
def test_held_figures_fold_as_if_they_had_come_to_the_response(
    held: list[StageSnapshot], later: list[StageSnapshot]
) -> None:
    """Merging two accumulators is adding all their snapshots to one."""
    one, first, second = StageMetrics(), StageMetrics(), StageMetrics()
    one.add([*held, *later])
    first.add(held)
    second.add(later)
    first.merge(second)
    expected, merged = one.totals(), first.totals()
    for stage, figures in expected.items():
        if "vllm_tpot_ms" in figures:  # a mean of means differs in its last digit
            assert merged[stage].pop("vllm_tpot_ms") == pytest.approx(figures.pop("vllm_tpot_ms"), abs=0.01)
    assert merged == expected
