"""The programs of docs/python.md do what the page says, as they stand, with the models of their deployment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from duplex_trio.testing.video_frames import decode_frames

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "python.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def _run(program: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def _scripted(program: str) -> str:
    assert program.count('"cascade_turn"') == 1
    return program.replace('"cascade_turn"', '"scripted"')


def test_the_page_has_these_programs() -> None:
    """A program that is added is to be run by a test too."""
    assert len(PROGRAMS) == 4


def test_a_batch_is_answered() -> None:
    assert _run(_scripted(PROGRAMS[0])) == [
        "You said: What is a good breakfast?",
        "You said: Tell me about the moon.",
    ]


def test_speech_is_answered_with_speech() -> None:
    """The recording of the page is silence, which the words before it stand in for."""
    heard, sound = _run(_scripted(PROGRAMS[1]))
    assert heard == "'' You said: Listen to this:"
    assert re.fullmatch(r"[1-9]\d* samples at 24000 Hz, 5 tokens", sound)


def test_two_streams_are_read_at_once() -> None:
    printed = _run(_scripted(PROGRAMS[2]))
    assert sorted(line for line in printed if line.startswith("stop")) == ["stop after 7 tokens"] * 2
    assert " ".join(line.partition(": ")[2] for line in printed if " s: " in line).count("You said") == 2


def test_a_video_is_steered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert PROGRAMS[3].count('"scene"') == 1
    (tmp_path / "slow.yaml").write_text(  # as a model that has something to do
        "base_config: scripted_video\nstages: [{stage_id: 0, engine_args: {frame_delay_s: 0.01}}]\n"
    )
    printed = _run(PROGRAMS[3].replace('"scene"', '"slow.yaml"'))
    assert printed == ["48 frames, lanterns completed"]
    assert len(decode_frames((tmp_path / "clip.mp4").read_bytes())) == 48


@pytest.mark.models
@pytest.mark.parametrize("program", range(4))
def test_the_real_models_do_it_too(program: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert any(line.strip() for line in _run(PROGRAMS[program]))
