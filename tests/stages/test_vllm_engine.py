from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
import trio

from duplex_trio.stages.errors import StageLoadError
from duplex_trio.stages.port import StageFailed, StageOutput, StageRequest
from duplex_trio.stages.run import ThreadStage, run_stage
from duplex_trio.stages.units import ChatMessage, ChatPrompt, GenerationParams
from duplex_trio.stages.vllm import VllmConfig, VllmWorker
from duplex_trio.stages.worker import StageWorker, WorkerContext
from duplex_trio.testing.stage_script import RunStage

GUARD_S = 120


@pytest.mark.models
async def test_a_model_that_cannot_be_loaded_is_reported(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    stage = ThreadStage(VllmWorker(VllmConfig(model=str(tmp_path), name="broken")))
    with trio.fail_after(GUARD_S), pytest.raises(StageLoadError, match="'broken' could not be loaded"):
        await run_stage(stage)


def test_settings_that_cannot_be_are_refused() -> None:
    for settings in (
        {"max_model_len": 0},
        {"max_num_seqs": "8"},
        {"gpu_memory_utilization": 1.5},
        {"threads": 0},
    ):
        with pytest.raises((ValueError, TypeError)):
            VllmConfig(model="m", **settings)  # type: ignore[arg-type]


PROGRAM = """
import os, random, sys, threading
from duplex_trio.stages.vllm import VllmConfig, VllmWorker
from duplex_trio.stages.vllm_chat import ChatTokenizer
def main():
    ChatTokenizer.from_model(sys.argv[1])
    worker = VllmWorker(VllmConfig(model=sys.argv[1]))
    dice = random.getstate()
    worker.load()
    assert random.getstate() == dice
    assert os.environ.get("LD_PRELOAD") is None
    worker.close()
    worker.close()
thread = threading.Thread(target=main)
thread.start()
thread.join()
"""


@pytest.mark.models
def test_a_program_of_its_own_sees_a_clean_terminal(llm_folder: Path) -> None:
    """Loading and closing print nothing of the libraries', neither while they run nor when Python exits."""
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", PROGRAM, str(llm_folder)],
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )
    lines = (done.stdout + done.stderr).splitlines()
    assert [line for line in lines if "stage.loaded" not in line] == []
    assert done.returncode == 0


class Collected(WorkerContext):
    """Keeps what a worker emits."""

    def __init__(self) -> None:
        self.outputs: list[StageOutput | StageFailed] = []

    def emit(self, output: StageOutput | StageFailed) -> None:
        self.outputs.append(output)

    def window_open(self, request_id: str) -> bool:
        return True


@pytest.mark.models
async def test_another_thread_may_step_the_engine_after_it_loaded(
    llm_worker: StageWorker, running: RunStage
) -> None:
    async with running(llm_worker):
        pass
    context = Collected()
    prompt = ChatPrompt(messages=[ChatMessage(role="user", content="Hello.")])

    def carry() -> None:
        llm_worker.load()
        params = GenerationParams(max_tokens=3, ignore_eos=True)
        llm_worker.open(StageRequest(request_id="a", params=params), context)
        llm_worker.submit("a", prompt, True, context)
        while llm_worker.step(context):
            pass

    thread = threading.Thread(target=carry)
    thread.start()
    await trio.to_thread.run_sync(thread.join)
    last = context.outputs[-1]
    assert isinstance(last, StageOutput)
    assert last.finished
