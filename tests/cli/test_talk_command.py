from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import structlog

from duplex_trio.cli.errors import CommandError
from duplex_trio.cli.main import main
from duplex_trio.cli.talk import command
from duplex_trio.clients import DuplexConnectionError
from duplex_trio.protocol.duplex.audio import write_wav
from duplex_trio.stages.errors import StageLoadError


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    return parser.parse_args(["talk", *arguments])


def test_what_the_options_become(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUPLEX_TRIO_API_KEY", "secret")
    path = tmp_path / "hi.wav"
    write_wav(path, np.full(800, 0.5, np.float32), 8_000)
    chosen = command.talk_options(parse(str(path), "--llm", "x", "--no-barge-in", "--instructions", "i"))
    assert [one.name for one in chosen.utterances] == ["hi.wav"]
    assert len(chosen.utterances[0].pcm) == pytest.approx(1600, abs=1)
    assert chosen.models == {"llm": "x", "asr": None, "tts": None}
    assert (chosen.barge_in_after_s, chosen.instructions, chosen.api_key) == (None, "i", "secret")
    default = command.talk_options(parse())
    assert [one.name for one in default.utterances] == ["1-breakfast.wav", "2-moon.wav"]
    assert (default.barge_in_after_s, default.url) == (1.0, None)
    assert command.talk_options(parse("--mic")).utterances == []


@pytest.mark.parametrize(
    ("value", "shown"), [("one", "one"), ("old,new", "old"), (" , new\n", "new"), ("", None), (",", None)]
)
def test_of_several_keys_in_the_environment_the_first_is_shown(
    monkeypatch: pytest.MonkeyPatch, value: str, shown: str | None
) -> None:
    monkeypatch.setenv("DUPLEX_TRIO_API_KEY", value)
    assert command.talk_options(parse()).api_key == shown


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--url", "ftp://h"], "--url: 'ftp://h' is not"),
        (["--url", "ws://h", "--llm", "x"], "not of --url"),
        (["--mic", "x.wav"], "exclude each other"),
        (["--half-duplex"], "--half-duplex is about --mic"),
        (["--input-device", "3"], "--input-device is about --mic"),
        (["missing.wav"], "missing.wav: No such file"),
    ],
)
def test_what_does_not_go_together_is_said(
    arguments: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    wrong_usage = arguments != ["missing.wav"]
    assert main(["talk", *arguments, "--out", str(out)]) == (2 if wrong_usage else 1)
    captured = capsys.readouterr()
    assert complaint in captured.err
    assert captured.out == ""
    assert not out.exists()


@pytest.mark.parametrize(
    "arguments", [["--barge-in-after", "-1"], ["--barge-in-after", "nan"], ["--quiet", "--json"]]
)
def test_bad_options_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(*arguments)
    assert caught.value.code == 2


@pytest.mark.slow
def test_a_server_that_is_not_there_is_said_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], free_port: int
) -> None:
    out = tmp_path / "out"
    assert main(["talk", "--url", f"ws://127.0.0.1:{free_port}", "--out", str(out)]) == 1
    error = capsys.readouterr().err
    assert f"duplex-trio: cannot connect to ws://127.0.0.1:{free_port}" in error
    assert "Traceback" not in error
    assert "talk.log" in error


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["talk", "--out", str(tmp_path / "file" / "out")]) == 1
    assert "--out" in capsys.readouterr().err


def test_the_log_goes_to_a_file_for_the_block_alone(tmp_path: Path) -> None:
    path = tmp_path / "talk.log"
    before = structlog.get_config(), logging.getLogger().handlers[:]
    logger = structlog.get_logger("test")
    with command.logging_to(path):
        logger.info("inside", n=1)
        logging.getLogger("other").warning("foreign")
    logger.info("outside")
    text = path.read_text()
    assert "event=inside n=1" in text
    assert "event=foreign" in text
    assert "outside" not in text
    assert (structlog.get_config(), logging.getLogger().handlers[:]) == before


def _caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (DuplexConnectionError("gone"), "gone"),
        (ExceptionGroup("g", [DuplexConnectionError("gone"), CommandError("also")]), "gone; also"),
        (ExceptionGroup("g", [DuplexConnectionError("gone"), DuplexConnectionError("gone")]), "gone"),
        (
            _caused(StageLoadError("llm: no vllm"), ImportError("no vllm")),
            "llm: no vllm. Set the engine up with: duplex-trio install cpu",
        ),
        (_caused(StageLoadError("llm: bad"), ValueError("bad")), "llm: bad"),
    ],
)
def test_foreseen_errors_become_one_message(error: BaseException, expected: str) -> None:
    found = command.explained(error, log=Path("talk.log"))
    assert isinstance(found, CommandError)
    assert str(found) == expected
    assert "talk.log" in found.details


def test_other_errors_stay_what_they_are() -> None:
    bug = ZeroDivisionError()
    assert command.explained(bug, log=Path("x")) is bug
    mixed = ExceptionGroup("g", [DuplexConnectionError("gone"), bug])
    assert command.explained(mixed, log=Path("x")) is mixed
    interrupted = BaseExceptionGroup("g", [KeyboardInterrupt()])
    assert isinstance(command.explained(interrupted, log=Path("x")), KeyboardInterrupt)


@pytest.mark.models
@pytest.mark.e2e
def test_a_conversation_with_the_packaged_models(tmp_path: Path) -> None:
    """The command as people run it first: speech in, speech out, an interruption; outcome and order only."""
    command_line = [sys.executable, "-m", "duplex_trio", "talk", "--json", "--barge-in-after", "0.3"]
    command_line += ["--out", str(tmp_path)]
    done = subprocess.run(command_line, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    first, second = found["exchanges"]
    assert "breakfast" in first["transcript"].lower()
    assert "moon" in second["transcript"].lower()
    assert first["answer"]["interrupted"]
    assert len(first["answer"]["heard_text"]) < len(first["answer"]["text"])
    assert second["answer"]["status"] == "completed"
    assert second["interruption"]["to_silence_ms"] > 0
    assert sum(first["wait_parts_ms"].values()) == pytest.approx(first["wait_ms"], abs=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["talk.log", "talk.png", "talk.wav"]


def test_a_deployment_without_sessions_is_told_before_a_model_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deploy = tmp_path / "turns.yaml"
    deploy.write_text("base_config: scripted\nsession_mode: turn\n")
    assert main(["talk", "--deploy", str(deploy), "--out", str(tmp_path / "out")]) == 1
    told = capsys.readouterr()
    assert "a conversation needs sessions, and this deployment has none (session_mode: turn)" in told.err
    assert "Loading" not in told.out
