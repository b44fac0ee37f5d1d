"""examples/video_prompt.py does what it says, with a scripted server."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import trio

from duplex_trio.entrypoints.video_omni import VideoOmni
from duplex_trio.models.scripted.video import ScriptedVideoPipeline
from duplex_trio.models.scripted.video_script import VideoScript
from duplex_trio.serving.options import ServeOptions
from duplex_trio.serving.run import run_server
from duplex_trio.testing.video_frames import decode_frames

ROOT = Path(__file__).parents[2]


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.parametrize("refuses", [False, True])
async def test_the_example_steers_a_video(nursery: trio.Nursery, tmp_path: Path, refuses: bool) -> None:
    script = VideoScript(refused_word="lanterns" if refuses else None)
    factory = partial(VideoOmni, ScriptedVideoPipeline(script=script), warm_up=False)
    address = await nursery.start(partial(run_server, factory, ServeOptions(port=0)))
    clip = tmp_path / "clip.mp4"
    with trio.fail_after(120):
        done = await trio.run_process(
            [sys.executable, str(ROOT / "examples" / "video_prompt.py"), str(clip)],
            capture_stdout=True,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "DUPLEX_TRIO_URL": address.http_url},
            check=False,
        )
    printed = done.stdout.decode()
    assert done.returncode == 0, printed
    lines = printed.splitlines()
    assert lines[0].startswith("scripted_video makes video/mp4")
    assert lines[1].startswith(
        "Lanterns: failed interaction_failed: " if refuses else "Lanterns: completed at frame "
    )
    assert lines[2] == f"96 frames in {clip}"
    assert len(decode_frames(clip.read_bytes())) == 96
    nursery.cancel_scope.cancel()
