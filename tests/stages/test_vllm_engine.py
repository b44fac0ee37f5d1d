from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import trio

from duplex_trio.stages.run import StageLoadError, ThreadStage, run_stage
from duplex_trio.stages.vllm import VllmConfig, VllmWorker

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
