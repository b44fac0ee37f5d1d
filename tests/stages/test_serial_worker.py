from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from duplex_trio.stages.port import StageFailed, StageOutput, StageRequest
from duplex_trio.stages.worker import SerialWorker, UnitRefused, WorkerContext


class Collector(WorkerContext):
    """Keeps what is emitted as (request, data or code, finished); windows are open unless closed by name."""

    def __init__(self) -> None:
        self.emitted: list[tuple[str, Any, bool]] = []
        self.closed: set[str] = set()

    def emit(self, output: StageOutput | StageFailed) -> None:
        if isinstance(output, StageFailed):
            self.emitted.append((output.request_id, output.code, True))
        else:
            self.emitted.append((output.request_id, output.data, output.finished))

    def window_open(self, request_id: str) -> bool:
        return request_id not in self.closed


class Speller(SerialWorker):
    """Spells words. One in capitals is urgent; `~word` is a draft that a newer unit replaces."""

    name = "speller"

    def load(self) -> None:
        return

    def new_state(self, request: StageRequest) -> list[str]:
        if request.params == "refused":
            raise UnitRefused("unsupported", "no such parameters")
        if request.params == "broken":
            raise ZeroDivisionError("the runtime fell over")
        return []

    def priority(self, unit: Any) -> int:
        return 0 if unit is not None and unit.isupper() else 1

    def supersedes(self, older: Any, newer: Any) -> bool:
        return bool(older.startswith("~"))

    def process(self, request: StageRequest, state: Any, unit: str) -> Iterator[str]:
        state.append(unit)
        if unit == "refuse":
            raise UnitRefused("invalid_value", "no such word")
        for letter in unit:
            if letter == "!":
                raise ZeroDivisionError("the runtime fell over")
            yield letter


@pytest.fixture
def context() -> Collector:
    return Collector()


@pytest.fixture
def worker() -> Speller:
    return Speller()


def open_requests(worker: Speller, context: Collector, *names: str) -> None:
    for name in names:
        worker.open(StageRequest(request_id=name), context)


def run_out(worker: Speller, context: Collector) -> list[tuple[str, Any, bool]]:
    while worker.step(context):
        pass
    return context.emitted


def test_requests_take_turns(worker: Speller, context: Collector) -> None:
    open_requests(worker, context, "a", "b")
    for unit in ("x", "y"):
        worker.submit("a", unit, False, context)
    worker.submit("b", "z", False, context)
    assert [(name, data) for name, data, _ in run_out(worker, context)] == [
        ("a", "x"),
        ("b", "z"),
        ("a", "y"),
    ]


def test_urgent_units_go_first(worker: Speller, context: Collector) -> None:
    open_requests(worker, context, "a", "b", "c")
    worker.submit("a", "low", False, context)
    worker.submit("b", "H", False, context)
    worker.submit("c", "U", False, context)
    assert [data for _, data, _ in run_out(worker, context)] == ["H", "U", "l", "o", "w"]


def test_a_newer_unit_replaces_a_draft_but_not_a_final_one(worker: Speller, context: Collector) -> None:
    open_requests(worker, context, "a", "b")
    worker.submit("a", "~1", False, context)
    worker.submit("a", "~2", False, context)
    worker.submit("a", "3", False, context)
    worker.submit("b", "~4", True, context)
    worker.submit("b", "5", False, context)
    emitted = run_out(worker, context)
    assert [data for name, data, _ in emitted if name == "a"] == ["3"]
    assert [data for name, data, _ in emitted if name == "b"] == ["~", "4"]


def test_the_last_value_of_a_final_unit_finishes_the_request(worker: Speller, context: Collector) -> None:
    open_requests(worker, context, "a")
    worker.submit("a", "hi", False, context)
    worker.submit("a", "yo", True, context)
    worker.submit("a", "no", False, context)
    assert run_out(worker, context) == [
        ("a", "h", False),
        ("a", "i", False),
        ("a", "y", False),
        ("a", "o", True),
    ]


@pytest.mark.parametrize("unit", ["", None])
def test_a_final_unit_without_values_still_finishes(
    worker: Speller, context: Collector, unit: str | None
) -> None:
    open_requests(worker, context, "a")
    worker.submit("a", unit, True, context)
    assert run_out(worker, context) == [("a", None, True)]


def test_a_refused_unit_fails_its_request_only(worker: Speller, context: Collector) -> None:
    open_requests(worker, context, "a", "b")
    worker.submit("a", "refuse", False, context)
    worker.submit("a", "x", False, context)
    worker.submit("b", "y", False, context)
    assert run_out(worker, context) == [("a", "invalid_value", True), ("b", "y", False)]


def test_a_crash_in_a_unit_fails_its_request_after_what_it_had_made(
    worker: Speller, context: Collector
) -> None:
    open_requests(worker, context, "a", "b")
    worker.submit("a", "x!y", True, context)
    worker.submit("b", "z", False, context)
    emitted = run_out(worker, context)
    assert emitted[-2:] == [("a", "engine_error", True), ("b", "z", False)]


def test_a_closed_window_is_passed_over(worker: Speller, context: Collector) -> None:
    open_requests(worker, context, "a", "b")
    context.closed = {"a"}
    worker.submit("a", "X", False, context)
    worker.submit("b", "y", False, context)
    assert run_out(worker, context) == [("b", "y", False)]
    context.closed = set()
    assert run_out(worker, context)[1:] == [("a", "X", False)]


def test_an_aborted_request_is_forgotten_and_its_id_starts_afresh(
    worker: Speller, context: Collector
) -> None:
    open_requests(worker, context, "a")
    worker.submit("a", "x", False, context)
    worker.abort(["a", "unknown"])
    assert run_out(worker, context) == []
    worker.submit("a", "late", False, context)
    open_requests(worker, context, "a")
    worker.submit("a", "y", False, context)
    assert run_out(worker, context) == [("a", "y", False)]


class Unranked(Speller):
    """One for which all words are equal."""

    priority = SerialWorker.priority


def test_without_priorities_a_step_looks_no_further_than_it_must() -> None:
    """Hundreds of requests may wait, and a step may be quicker than looking at all of them."""
    asked: list[str] = []

    class Asking(Collector):
        def window_open(self, request_id: str) -> bool:
            asked.append(request_id)
            return super().window_open(request_id)

    worker, asking = Unranked(), Asking()
    for number in range(300):
        worker.open(StageRequest(request_id=str(number)), asking)
        worker.submit(str(number), "a", True, asking)
    asking.closed = {"0"}
    assert worker.step(asking)
    assert asking.emitted == [("1", "a", True)]
    assert asked == ["0", "1", "0", "2"]


@pytest.mark.parametrize(("params", "code"), [("refused", "unsupported"), ("broken", "engine_error")])
def test_a_request_that_cannot_begin_fails_alone(context: Collector, params: str, code: str) -> None:
    worker = Speller()
    worker.open(StageRequest(request_id="a", params=params), context)
    worker.open(StageRequest(request_id="b"), context)
    for request_id in ("a", "b"):
        worker.submit(request_id, "x", True, context)
    while worker.step(context):
        pass
    assert context.emitted == [("a", code, True), ("b", "x", True)]
