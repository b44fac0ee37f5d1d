"""How a stage in a process ends: every death of the process, and every way to stop it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from duplex_trio import __version__
from duplex_trio.stages.errors import StageDeadError, StageLoadError
from duplex_trio.stages.port import StageRequest
from duplex_trio.stages.process import frames
from duplex_trio.stages.process.child import greeting
from duplex_trio.stages.process.recipe import WorkerRecipe
from duplex_trio.stages.process.run import ProcessStage, ProcessTimes
from duplex_trio.stages.process.spawn import CHILD
from duplex_trio.testing.gates import Gate
from duplex_trio.testing.process_faults import (
    after,
    complain_and_exit,
    die_by,
    hold_interpreter,
    shut_connection,
    write_garbage,
)
from duplex_trio.testing.stage_script import GUARD_S, Hold, Recorder, ScriptWorker

pytestmark = pytest.mark.slow

QUICK = ProcessTimes(stop_s=0.2, terminate_s=0.2, exit_s=1.0)
IMPATIENT = ProcessTimes(silence_s=4.0)
"""With room for a busy machine, on which a sound process is slow to answer too."""


def assert_gone(pid: int) -> None:
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (partial(die_by, signal.SIGKILL), "was ended by SIGKILL"),
        (partial(die_by, signal.SIGSEGV), "was ended by SIGSEGV"),
        (partial(os._exit, 3), "ended with exit status 3"),
        (partial(os._exit, 0), "ended with exit status 0"),
        (shut_connection, "closed the connection"),
        (write_garbage, "sent something else than messages"),
        (partial(time.sleep, 10_000), "has not answered for 4 s"),
        (hold_interpreter, "has not answered for 4 s"),
        (partial(die_by, signal.SIGSTOP), "has not answered for 4 s"),
    ],
    ids=["SIGKILL", "SIGSEGV", "exit", "exit 0", "closed", "garbage", "stuck", "stuck natively", "SIGSTOP"],
)
async def test_a_process_that_fails_fails_each_of_its_requests_once(
    fault: Callable[[], Any], cause: str
) -> None:
    times = IMPATIENT if "answered" in cause else QUICK
    stage, sink, other = ProcessStage(ScriptWorker(), times=times), Recorder(), Recorder()
    with trio.fail_after(GUARD_S):
        async with trio.open_nursery() as nursery:
            ended = trio.Event()

            async def carry(task_status: trio.TaskStatus[Any]) -> None:
                await stage.run(task_status)
                ended.set()

            await nursery.start(carry)
            bystander = stage.open(StageRequest(request_id="b"), other)
            channel = stage.open(StageRequest(request_id="c"))
            aborted = stage.open(StageRequest(request_id="d"), Recorder())
            await bystander.submit("one")
            await other.wait_for(1)
            failing = stage.open(StageRequest(request_id="a"), sink)
            failing.submit_nowait(fault)
            aborted.abort()
            await sink.wait_for(1)
            await ended.wait()
    assert [output.code for output in (sink.failure, other.failure, channel.failure)] == ["engine_dead"] * 3
    assert cause in sink.failure.message
    assert len(sink.received) == 1
    assert len(other.received) == 2
    assert [output async for output in channel.outputs] == []
    for stream in (bystander, channel, failing, aborted):
        await stream.wait_released()
    assert not stage.alive
    assert cause in stage.last_error
    assert stage.statistics().live_requests == 0
    assert_gone(stage.process_id)
    with pytest.raises(StageDeadError):
        await bystander.submit("late")
    with pytest.raises(StageDeadError):
        stage.open(StageRequest(request_id="e"))


async def test_submits_that_wait_are_told_when_the_process_dies() -> None:
    stage, told = ProcessStage(ScriptWorker(), command_limit=3), 0

    async def submit(stream: Any) -> None:
        nonlocal told
        with pytest.raises(StageDeadError):
            await stream.submit("unit")
        told += 1

    with trio.fail_after(GUARD_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(stage.run)
            hold = Hold()
            stream = stage.open(StageRequest(request_id="a"), Recorder())
            await stream.submit(hold)
            await hold.wait_entered()
            for _ in range(6):
                nursery.start_soon(submit, stream)
            await trio.testing.wait_all_tasks_blocked()
            assert stage.statistics().queued_commands == 3
            os.kill(stage.process_id, signal.SIGKILL)
    assert told == 6


async def test_an_abort_is_released_though_the_process_is_stopped() -> None:
    stage = ProcessStage(ScriptWorker(), times=IMPATIENT)
    with trio.fail_after(GUARD_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(stage.run)
            stream = stage.open(StageRequest(request_id="a"), Recorder())
            await stream.submit("one")
            os.kill(stage.process_id, signal.SIGSTOP)
            await stream.aclose()


async def test_a_process_that_reads_nothing_makes_submit_wait_and_holds_no_aborted_unit() -> None:
    stage = ProcessStage(ScriptWorker(), command_limit=8, times=ProcessTimes(silence_s=None, stop_s=0.1))
    big = np.zeros(1 << 20, np.float32)
    with trio.fail_after(GUARD_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(stage.run)
            os.kill(stage.process_id, signal.SIGSTOP)
            streams = [stage.open(StageRequest(request_id=str(n)), Recorder()) for n in range(4)]
            async with trio.open_nursery() as submitters:
                for stream in streams:
                    for _ in range(10):
                        submitters.start_soon(stream.submit, big)
                await trio.testing.wait_all_tasks_blocked()
                assert stage.commands_waiting == 8
                submitters.cancel_scope.cancel()
            late = stage.open(StageRequest(request_id="late"), Recorder())
            late.submit_nowait(big)
            await late.aclose()  # it was never told of it
            os.kill(stage.process_id, signal.SIGCONT)
            sink = Recorder()
            await stage.open(StageRequest(request_id="again"), sink).submit("on it goes", final=True)
            assert await sink.wait_for(1) == ["on it goes"]
            nursery.cancel_scope.cancel()
    assert_gone(stage.process_id)


@pytest.mark.parametrize(
    "unit", [partial(time.sleep, 10_000), hold_interpreter], ids=["stuck", "stuck natively"]
)
async def test_a_stage_that_is_cancelled_ends_a_process_that_does_not_stop(unit: Callable[[], None]) -> None:
    stage, sink = ProcessStage(ScriptWorker(), times=QUICK), Recorder()
    with trio.fail_after(GUARD_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(stage.run)
            await stage.open(StageRequest(request_id="a"), sink).submit(unit)
            nursery.cancel_scope.cancel()
    assert_gone(stage.process_id)
    assert sink.failure.message == "stage 'script' has stopped"
    assert stage.last_error is None


@pytest.mark.parametrize(
    "on_load", [partial(time.sleep, 10_000), hold_interpreter], ids=["stuck", "natively"]
)
async def test_a_stage_that_is_cancelled_while_it_loads_ends_its_process(on_load: Callable[[], None]) -> None:
    worker, begun = ScriptWorker(), Gate()
    worker.on_load = partial(after, begun, on_load)
    stage = ProcessStage(worker, times=QUICK)
    with trio.fail_after(GUARD_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.run)
            await begun.wait_task()
            nursery.cancel_scope.cancel()
    assert_gone(stage.process_id)


@pytest.mark.parametrize("count", range(12))
async def test_a_stage_can_be_cancelled_at_every_point_of_its_start(count: int) -> None:
    """After so many turns of the loop, whatever it waits for then."""
    stage = ProcessStage(ScriptWorker(), times=QUICK)
    with trio.fail_after(GUARD_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.run)
            for _ in range(count):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    if stage.process_id is not None:
        assert_gone(stage.process_id)


async def test_a_process_that_is_to_stop_before_it_has_greeted_leaves_without_a_word() -> None:
    stage = ProcessStage(ScriptWorker())
    with capture_logs() as logs, trio.fail_after(GUARD_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.run)
            while stage.process_id is None:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    assert_gone(stage.process_id)
    assert logs == []


async def test_signals_of_a_terminal_do_not_end_a_process() -> None:
    stage, sink = ProcessStage(ScriptWorker()), Recorder()
    with trio.fail_after(GUARD_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(stage.run)
            assert os.getsid(stage.process_id) == stage.process_id, "nor do they reach it"
            for number in (signal.SIGINT, signal.SIGTERM):
                os.kill(stage.process_id, number)
            await stage.open(StageRequest(request_id="a"), sink).submit("alive", final=True)
            assert await sink.wait_for(1) == ["alive"]
            nursery.cancel_scope.cancel()


SERVER = """
import sys, time, trio
from functools import partial
from duplex_trio.stages.process.run import ProcessStage
from duplex_trio.testing.process_faults import hold_interpreter
from duplex_trio.testing.stage_script import ScriptWorker

worker = ScriptWorker()
if sys.argv[1] == "loading":
    worker.on_load = hold_interpreter

async def main():
    async with trio.open_nursery() as nursery:
        stage = ProcessStage(worker)
        nursery.start_soon(stage.run)
        while ("load",) not in worker.calls or (sys.argv[1] == "loaded" and not stage.alive):
            await trio.sleep(0.02)
        print(stage.process_id, flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


@pytest.mark.parametrize("when", ["loading", "loaded"])
def test_a_process_does_not_outlive_its_server(when: str) -> None:
    server = subprocess.Popen([sys.executable, "-c", SERVER, when], stdout=subprocess.PIPE, text=True)
    try:
        pidfd = os.pidfd_open(int(server.stdout.readline()))
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
    assert select.select([pidfd], [], [], GUARD_S)[0], "it is still there"
    os.close(pidfd)


async def load(worker: ScriptWorker | WorkerRecipe, **options: Any) -> str:
    """Try to load a stage; what the error says."""
    stage = ProcessStage(worker, **options)
    with trio.fail_after(GUARD_S), pytest.raises(StageLoadError) as caught:
        await stage.run()
    if stage.process_id is not None:
        assert_gone(stage.process_id)
    return str(caught.value)


def program(folder: Path, text: str) -> str:
    path = folder / "python"
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


async def test_an_interpreter_that_is_not_there_is_named(tmp_path: Path) -> None:
    said = await load(ScriptWorker(), python=str(tmp_path / "python"))
    assert said == f"stage 'script' could not be loaded: there is no Python interpreter {tmp_path}/python"
    (tmp_path / "python").write_text("")
    said = await load(ScriptWorker(), python=str(tmp_path / "python"))
    assert said.endswith(f"{tmp_path}/python cannot be started: Permission denied")


async def test_an_interpreter_without_the_package_is_told_so(tmp_path: Path) -> None:
    python = program(tmp_path, f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    said = await load(ScriptWorker(), python=python)
    assert f"{python} has no duplex-trio: install duplex-trio" in said.splitlines()[0]


async def test_an_interpreter_without_a_library_is_told_so(tmp_path: Path) -> None:
    root = Path(frames.__file__).parents[3]
    # Without its packages this interpreter is one that has nothing but the standard library and this package.
    info = tmp_path / "duplex_trio-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: duplex-trio\nVersion: {__version__}\n")
    path = f"import sys; sys.path[:0] = [{str(root)!r}, {str(tmp_path)!r}]"
    run = f"import runpy; sys.argv[1:] = sys.argv[3:]; runpy.run_module({CHILD!r}, run_name='__main__')"
    python = program(tmp_path, f'#!/bin/sh\nexec {sys.executable} -I -S -c "{path}; {run}" "$@"\n')
    said = await load(ScriptWorker(), python=python)
    assert said.startswith(f"stage 'script' could not be loaded: {sys.executable} has no ")
    assert said.split()[-1] in ("attrs", "attr", "structlog")


async def test_a_program_that_is_no_interpreter_is_told_so() -> None:
    said = await load(ScriptWorker(), python="/bin/false")
    assert said == "stage 'script' could not be loaded: its process (/bin/false) ended with exit status 1"
    said = await load(
        ScriptWorker(), python="/bin/sh", times=ProcessTimes(greeting_s=5), environment={"PATH": "/nowhere"}
    )
    assert "its process (/bin/sh) ended with exit status" in said


@pytest.mark.parametrize(("what", "value"), [("Python", "3.10"), ("duplex-trio", "0.0.9"), ("protocol", 0)])
async def test_another_version_is_refused(tmp_path: Path, what: str, value: Any) -> None:
    head = json.dumps(greeting() | {what: value}).encode()
    sent = b"".join(frames.to_bytes(frames.Frame(frames.GREETING, head=head)))
    python = program(
        tmp_path,
        f"#!{sys.executable}\nimport os, sys, time\nos.write(int(sys.argv[3]), {sent!r})\ntime.sleep(1000)\n",
    )
    said = await load(ScriptWorker(), python=python)
    assert f"{what} {value} where the server has {greeting()[what]}" in said


async def test_a_program_that_says_nothing_is_given_up(tmp_path: Path) -> None:
    python = program(tmp_path, "#!/bin/sh\nexec sleep 1000\n")
    said = await load(ScriptWorker(), python=python, times=ProcessTimes(greeting_s=0.3))
    assert said.endswith("its process has not said what it is within 0.3 s")


async def test_a_process_that_dies_while_it_loads_leaves_what_it_printed() -> None:
    worker = ScriptWorker()
    worker.on_load = partial(complain_and_exit, 4)
    first, *rest = (await load(worker)).splitlines()
    assert first.endswith("ended with exit status 4; it printed last:")
    assert rest == ["  the weights are torn"]


async def test_a_worker_that_cannot_be_sent_or_made_is_told_so() -> None:
    worker = ScriptWorker()
    worker.on_load = lambda: None
    assert "its worker cannot be sent to a process" in await load(worker)
    said = await load(WorkerRecipe(name="llm", factory="no_such_package:Worker"))
    assert "stage 'llm' could not be loaded: its worker cannot be made by" in said
    assert "No module named 'no_such_package'" in said
    said = await load(WorkerRecipe(name="llm", factory="builtins:dict"))
    assert "builtins:dict made a dict, not a StageWorker" in said


async def test_how_a_process_ended_is_logged() -> None:
    stage = ProcessStage(ScriptWorker())
    with capture_logs() as logs, trio.fail_after(GUARD_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(stage.run)
            os.kill(stage.process_id, signal.SIGKILL)
    died = [line for line in logs if line["event"] == "stage.died"]
    assert [(line["stage"], line["process"], line["log_level"]) for line in died] == [
        ("script", stage.process_id, "error")
    ]
    assert died[0]["ending"] == "was ended by SIGKILL"
    assert "memory" in died[0]["cause"]
