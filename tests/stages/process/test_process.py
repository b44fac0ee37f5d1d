"""What a stage in a process does that one in a thread need not: sending things, and another environment."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from duplex_trio.stages.port import StageRequest, StageStream
from duplex_trio.stages.process.heartbeat import MISSES_MAX, Heartbeat
from duplex_trio.stages.process.printed import LINE_CHARS_MAX, LINES_AT_ONCE_MAX, LINES_PER_S, Printed
from duplex_trio.stages.process.recipe import WorkerRecipe
from duplex_trio.stages.process.run import ProcessStage
from duplex_trio.stages.process.spawn import environment_of, exit_in_words
from duplex_trio.testing.process_faults import (
    ReadHereOnly,
    log_warning,
    print_lines,
    unpicklable,
    variable,
    who_am_i,
)
from duplex_trio.testing.stage_script import GUARD_S, Many, Recorder, ScriptWorker

ROOT = Path(__file__).parents[3]


async def ask(stage: ProcessStage, unit: Any) -> Any:
    """Have one unit done; its output."""
    stream = stage.open(StageRequest(request_id="ask"))
    await stream.submit(unit, final=True)
    outputs = [output.data async for output in stream.outputs]
    await stream.wait_released()
    assert stream.failure is None, stream.failure
    return outputs[0]


@pytest.mark.slow
async def test_a_worker_runs_in_another_process_with_the_environment_it_was_given() -> None:
    os.environ["DUPLEX_TEST_GONE"] = "1"
    given = {"DUPLEX_TEST": "set", "DUPLEX_TEST_GONE": None}
    with trio.fail_after(GUARD_S):
        async with trio.open_nursery() as nursery:
            stage = ProcessStage(ScriptWorker(), environment=given, name="own name")
            await nursery.start(stage.run)
            assert stage.name == "own name"
            assert await ask(stage, who_am_i) == stage.process_id != os.getpid()
            assert await ask(stage, partial(variable, "DUPLEX_TEST")) == "set"
            assert await ask(stage, partial(variable, "DUPLEX_TEST_GONE")) is None
            nursery.cancel_scope.cancel()
    del os.environ["DUPLEX_TEST_GONE"]


@pytest.mark.slow
async def test_large_units_and_outputs_arrive_whole() -> None:
    array = np.arange(10_000_000, dtype=np.float32)
    with trio.fail_after(GUARD_S):
        async with trio.open_nursery() as nursery:
            stage = ProcessStage(ScriptWorker())
            await nursery.start(stage.run)
            for _ in range(3):
                back = await ask(stage, Many([{"pcm": array, "few": array[:3]}]))
                assert np.array_equal(back["pcm"], array)
                back["pcm"][0] = back["few"][0] = 1.0
            nursery.cancel_scope.cancel()


@pytest.mark.slow
async def test_what_cannot_travel_fails_its_own_request_only() -> None:
    with trio.fail_after(GUARD_S):
        async with trio.open_nursery() as nursery:
            stage = ProcessStage(ScriptWorker())
            await nursery.start(stage.run)
            sound_sink = Recorder()
            sound = stage.open(StageRequest(request_id="sound"), sound_sink)

            stream = stage.open(StageRequest(request_id="unit"), Recorder())
            with pytest.raises(ValueError, match="cannot be sent to the process of stage 'script'"):
                await stream.submit(lambda: None)
            with pytest.raises(ValueError, match="cannot be sent"):
                stream.submit_nowait(lambda: None)
            with pytest.raises(ValueError, match="cannot be sent"):
                stage.open(StageRequest(request_id="params", params=lambda: None))
            await stream.aclose()

            for unit, why in (
                (ReadHereOnly(), "a unit cannot be read in the process of stage 'script': no module named"),
                (unpicklable, "an output cannot be sent from the process of stage 'script'"),
                (ReadThereOnly, "an output of the process of stage 'script' cannot be read: no module named"),
            ):
                sink = Recorder()
                stream = stage.open(StageRequest(request_id="odd"), sink)
                await stream.submit(unit)
                await sink.wait_for(1)
                assert sink.failure is not None
                assert sink.failure.code == "engine_error"
                assert why in sink.failure.message
                await stream.wait_released()

            sink = Recorder()
            stream = stage.open(StageRequest(request_id="odd", params=ReadHereOnly()), sink)
            stream.submit_nowait("unit")
            await stream.wait_released()
            assert "its parameters cannot be read" in sink.failure.message

            await sound.submit("unharmed", final=True)
            assert await sound_sink.wait_for(1) == ["unharmed"]
            assert stage.statistics().live_requests == stage.commands_waiting == 0
            nursery.cancel_scope.cancel()


ReadThereOnly = ReadHereOnly
"""Called in a step, it makes one there, which cannot be read here."""


@pytest.mark.slow
async def test_thousands_of_requests_leave_nothing_behind() -> None:
    count = 2000
    with trio.fail_after(GUARD_S):
        async with trio.open_nursery() as nursery:
            stage = ProcessStage(ScriptWorker())
            await nursery.start(stage.run)
            sinks = [Recorder() for _ in range(count)]

            async def converse(number: int, sink: Recorder) -> None:
                stream = stage.open(StageRequest(request_id=str(number), window=2), sink)
                await stream.submit(number)
                if number % 3 == 0:
                    await stream.aclose()
                    return
                await stream.submit(number + 1, final=True)
                await stream.wait_released()

            async with trio.open_nursery() as callers:
                for number, sink in enumerate(sinks):
                    callers.start_soon(converse, number, sink)
            for number, sink in enumerate(sinks):
                if number % 3:
                    assert sink.data == [number, number + 1]
            assert stage.statistics().live_requests == stage.commands_waiting == len(stage._by_number) == 0
            nursery.cancel_scope.cancel()


@pytest.mark.slow
async def test_what_a_process_prints_and_logs_is_in_the_servers_log() -> None:
    with capture_logs() as logs, trio.fail_after(GUARD_S):
        async with trio.open_nursery() as nursery:
            stage = ProcessStage(ScriptWorker())
            await nursery.start(stage.run)
            await ask(stage, partial(print_lines, 3))
            await ask(stage, log_warning)
            nursery.cancel_scope.cancel()
    printed = [line for line in logs if line["event"] == "stage.printed"]
    assert [(line["stage"], line["line"]) for line in printed] == [("script", f"line {n}") for n in range(3)]
    assert {"event": "weights.odd", "log_level": "warning", "layer": 3, "stage": "script"} in logs


class Commands:
    """One request for the random programs: what was asked of it, and what its sink got."""

    def __init__(self, stage: ProcessStage, request_id: str, window: int) -> None:
        self.sink = Recorder()
        self.stream: StageStream = stage.open(StageRequest(request_id=request_id, window=window), self.sink)
        self.sent: list[int] = []
        self.ended = self.aborted = False


STEP = st.tuples(
    st.sampled_from(("open", "submit", "wait", "final", "abort", "consume", "turn")),
    st.integers(0, 3),
    st.integers(1, 3),
)


@pytest.mark.slow
def test_any_order_of_commands_gives_each_request_its_outputs_in_order() -> None:
    """Against a model: a request's outputs are the units that were submitted, cut off by its abort."""

    async def check_all() -> None:
        with trio.fail_after(GUARD_S):
            async with trio.open_nursery() as nursery:
                stage = ProcessStage(ScriptWorker(), command_limit=4)
                await nursery.start(stage.run)
                portal = trio.lowlevel.current_trio_token()
                await trio.to_thread.run_sync(explore, portal, stage)
                nursery.cancel_scope.cancel()

    def explore(portal: trio.lowlevel.TrioToken, stage: ProcessStage) -> None:
        @settings(max_examples=120, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(st.lists(STEP, max_size=30))
        def check(program: list[tuple[str, int, int]]) -> None:
            trio.from_thread.run(carry_out, stage, program, trio_token=portal)

        check()

    trio.run(check_all)


async def carry_out(stage: ProcessStage, program: list[tuple[str, int, int]]) -> None:
    live: dict[int, Commands] = {}
    every: list[Commands] = []
    for number, (what, slot, amount) in enumerate(program):
        request = live.get(slot)
        if what == "open" and request is None:
            live[slot] = Commands(stage, str(slot), amount)
            every.append(live[slot])
        elif what == "turn":
            await trio.lowlevel.checkpoint()
        elif request is None:
            continue
        elif what == "abort":
            request.stream.abort()
            request.aborted = True
            del live[slot]
        elif what == "consume":
            request.stream.consumed(amount)
        else:
            request.sent.append(number)
            request.ended = what == "final"
            if what == "wait":
                await request.stream.submit(number)
            else:
                request.stream.submit_nowait(number, final=request.ended)
            if request.ended:
                request.stream.consumed(1000)
                await request.stream.wait_released()
                del live[slot]
    for request in live.values():
        request.stream.consumed(1000)
        await request.sink.wait_for(len(request.sent))
        await request.stream.aclose()
    for request in every:
        await request.stream.wait_released()
        assert request.sink.failure is None
        if request.aborted:
            assert request.sink.data == request.sent[: len(request.sink.data)]
        else:
            assert request.sink.data == request.sent
    assert stage.statistics().live_requests == 0


PEACHES = """
from duplex_trio.stages.units import TextDelta
from duplex_trio.stages.worker import SerialWorker

import peaches


class Peaches(SerialWorker):
    name = "llm"

    def load(self):
        pass

    def process(self, request, state, unit):
        yield f"{unit} {peaches.VERSION}"
"""


@pytest.mark.slow
async def test_a_stage_has_packages_that_conflict_with_the_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two versions of one package at work at once, the newer one in an environment of its own."""
    old, new = tmp_path / "old", tmp_path / "venv"
    old.mkdir()
    (old / "peaches.py").write_text("VERSION = 1\n")
    (old / "peaches_worker.py").write_text(PEACHES)
    venv.create(new, symlinks=True)
    (packages,) = (new / "lib").glob("python*/site-packages")
    (packages / "peaches.py").write_text("VERSION = 2\n")
    (packages / "peaches_worker.py").write_text(PEACHES)
    # What the worker needs besides: this package and its libraries.
    (packages / "needed.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")
    monkeypatch.syspath_prepend(str(old))
    recipe = WorkerRecipe(name="llm", factory="peaches_worker:Peaches")
    with trio.fail_after(GUARD_S):
        async with trio.open_nursery() as nursery:
            own = ProcessStage(recipe, python=str(new / "bin" / "python"))
            same = ProcessStage(recipe)
            await nursery.start(own.run)
            await nursery.start(same.run)
            assert await ask(own, "peaches") == "peaches 2"
            assert await ask(same, "peaches") == "peaches 1"
            nursery.cancel_scope.cancel()


def test_another_interpreter_is_not_told_of_the_servers_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/servers")
    monkeypatch.setenv("VIRTUAL_ENV", "/servers/venv")
    other = environment_of("/other/python", {"A": "1"})
    assert "PYTHONPATH" not in other
    assert "VIRTUAL_ENV" not in other
    assert other["A"] == "1"
    own = environment_of(None, {"PYTHONPATH": "/mine"})
    assert own["PYTHONPATH"] == "/mine"
    assert str(ROOT) in environment_of(sys.executable, {})["PYTHONPATH"].split(os.pathsep)


def test_a_worker_needs_no_trio_in_its_process() -> None:
    """Its environment may be small."""
    code = "import sys, duplex_trio.stages.process.worker_side; print({'trio', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("name", ["child", "frames"])
def test_what_runs_before_the_interpreter_is_known_keeps_to_old_python(name: str) -> None:
    import ast

    source = (ROOT / "duplex_trio" / "stages" / "process" / f"{name}.py").read_text()
    tree = ast.parse(source, feature_version=(3, 8))
    names = [
        name
        for node in tree.body
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    ]
    foreign = {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names) - {"duplex_trio"}
    assert foreign == set()


def test_a_heart_stops_after_some_beats_in_silence_and_not_after_one_long_pause() -> None:
    heartbeat = Heartbeat()
    assert [heartbeat.beat() for _ in range(MISSES_MAX + 1)] == [True] * MISSES_MAX + [False]
    heartbeat.heard()
    assert heartbeat.beat()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "ended with exit status 0"),
        (-9, "was ended by SIGKILL"),
        (-11, "was ended by SIGSEGV"),
        (-120, "was ended by signal 120"),
    ],
)
def test_an_exit_in_words(code: int, words: str) -> None:
    assert exit_in_words(code) == words


def lines_of(logs: list[Any]) -> list[str]:
    return [line["line"] for line in logs if line["event"] == "stage.printed"]


@given(text=st.text(st.sampled_from("ab\n"), max_size=60), cuts=st.lists(st.integers(1, 9), min_size=1))
def test_lines_are_the_same_however_they_are_cut(text: str, cuts: list[int]) -> None:
    data, turn = text.encode(), 0
    with capture_logs() as logs:
        printed = Printed("llm")
        while data:
            size = cuts[turn % len(cuts)]
            printed.feed(data[:size], 0.0)
            data, turn = data[size:], turn + 1
        printed.end(0.0)
    assert lines_of(logs) == [line for line in text.split("\n") if line]


def test_lines_are_bounded_in_length_and_number() -> None:
    with capture_logs() as logs:
        printed = Printed("llm")
        printed.feed(b"x" * 5 * LINE_CHARS_MAX, 0.0)
        printed.feed(b"y\n10 %\r20 %\r\n\xff\n\n", 0.0)
        assert [len(line) for line in lines_of(logs)] == [LINE_CHARS_MAX, 4, 1]
        assert lines_of(logs)[1] == "20 %"
        printed.feed(b"again\n" * 2 * LINES_AT_ONCE_MAX, 0.0)
        assert len(lines_of(logs)) == LINES_AT_ONCE_MAX
        printed.feed(b"later\n", 1.0)
    assert lines_of(logs)[-1] == "later"
    dropped = [line["count"] for line in logs if line["event"] == "stage.lines_dropped"]
    assert dropped == [LINES_AT_ONCE_MAX + 3]
    assert LINES_PER_S > 0
    assert printed.tail.endswith("\n  later")


async def test_units_that_were_withdrawn_before_they_were_sent_make_room() -> None:
    """The process answers nothing for them, so nobody may wait for it to."""
    stage = ProcessStage(ScriptWorker(), command_limit=2)
    stage.alive = True
    stream = stage.open(StageRequest(request_id="a"))
    withdrawn = trio.CancelScope()

    async def submit_in_vain() -> None:
        with withdrawn:
            await stream.submit("in vain")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(submit_in_vain)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(stream.submit, "next")
        await trio.testing.wait_all_tasks_blocked()
        withdrawn.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert stage.commands_waiting == 2
        stage._next_batch()
        assert stage.commands_waiting == 1
        await trio.testing.wait_all_tasks_blocked()
        assert stage.commands_waiting == 2, "who waited for room still waits"
        nursery.cancel_scope.cancel()
