"""`duplex-trio bench engine` as it is typed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from duplex_trio.cli.main import main

_SPREAD = {"count", "mean", "p50", "p90", "p99", "max"}


@pytest.mark.slow
def test_a_quick_run_measures_everything(tmp_path: Path) -> None:
    path = tmp_path / "engine.json"
    # A process of its own: it sets up the log and the interpreter, and measures the memory of the process.
    printed = subprocess.run(
        [sys.executable, "-m", "duplex_trio", "bench", "engine", "--quick", "--json", str(path)],
        check=True,
        capture_output=True,
        text=True,
    )

    report = json.loads(path.read_text())
    assert report["leaks"] == {
        "sessions": 0,
        "live_requests": 0,
        "leaked_requests": 0,
        "stage_requests": {"asr": 0, "llm": 0, "tts": 0, "vad": 0, "lockstep": 0},
        "total": 0,
    }
    assert report["machine"]["cpus"] >= 1
    assert report["machine"]["python"].startswith("CPython 3.11")
    _check_appends(report["appends"], report["settings"])
    _check_barge_ins(report["barge_ins"], report["settings"])
    _check_talking(report["talking"], report["settings"])
    _check_units(report["units"], report["settings"])
    memory = report["memory"]
    assert memory["before_bytes"] < memory["listening_bytes"] < memory["active_bytes"]
    assert {"idle_session_bytes", "listening_session_bytes", "active_session_bytes"} < set(memory)
    assert {"growth_bytes", "growth_objects"} < set(memory)

    for shown in (
        "Appends",
        "Barge-in",
        "Sessions talking",
        "in lockstep",
        "Memory",
        "Left behind: 0 sessions",
    ):
        assert shown in printed.stdout
    assert str(path) in printed.stdout
    assert "barge-in, idle" in printed.stderr


def _check_appends(costs: list[dict[str, Any]], settings: dict[str, Any]) -> None:
    assert [(cost["append_ms"], cost["vad"], cost["pace"]) for cost in costs] == [
        (append_ms, *way)
        for append_ms in (20, 100)
        for way in (
            (False, "in_a_row"),
            (False, "flat_out"),
            (True, "flat_out"),
            (False, "real_time"),
            (True, "real_time"),
        )
    ]
    for cost in costs:
        assert cost["sessions"] == (1 if cost["pace"] == "in_a_row" else settings["append_sessions"])
        for name in ("cpu_s", "cpu_us_per_append", "appends_per_s_per_core", "sessions_per_core"):
            assert isinstance(cost[name], float)
            assert cost[name] > 0


def _check_barge_ins(measured: list[dict[str, Any]], settings: dict[str, Any]) -> None:
    assert [load["load"] for load in measured] == [
        "idle",
        f"{settings['outputs']} stage outputs queued",
        f"{settings['outputs']} stage outputs arriving",
        f"{settings['queued_appends']} appends of 1 s before it",
        "a submit stuck for 2 s",
        "1 other session talking",
        "4 other sessions talking",
    ]
    for load in measured:
        cancels = load["cancels"]
        assert isinstance(cancels, list)
        assert len(cancels) == settings["cancels"]
        for cancel in cancels:
            assert 0 < cancel["decide_us"] < cancel["terminal_us"]
            assert cancel["arrival_us"] is None or cancel["arrival_us"] >= cancel["decide_us"]
            assert cancel["stale_deltas"] <= 1, "media of the old epoch was sent after the barge-in"
            assert cancel["silence_us"] is not None, "the server does not say when it was silent"
        # A stage that is stuck has not let go of the request when its figures are read.
        assert (load["abort_us"] is None) == load["load"].startswith("a submit stuck")
        for name in ("decide_us", "terminal_us", "silence_us"):
            assert isinstance(load[name], dict)
            assert set(load[name]) == _SPREAD
    assert [load["load"] for load in measured if load["arrival_us"] is not None] == [
        measured[2]["load"],
        measured[3]["load"],
    ]


def _check_talking(measured: list[dict[str, Any]], settings: dict[str, Any]) -> None:
    assert [loop["sessions"] for loop in measured] == [0, *settings["sessions"]]
    for loop in measured:
        assert isinstance(loop["lateness_us"], list)
        assert loop["lateness_us"]
        assert isinstance(loop["lateness"], dict)
        assert set(loop["lateness"]) == _SPREAD
    assert measured[1]["first_audio_ms"], "nobody was answered"
    assert measured[1]["first_audio_over_parts"] is not None


def _check_units(measured: list[dict[str, Any]], settings: dict[str, Any]) -> None:
    assert [run["sessions"] for run in measured] == settings["sessions"]
    for run in measured:
        assert run["units"] >= 4 * run["sessions"]
        assert run["misses"] <= run["units"]
        assert run["latency_ms"] > 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sessions", "1,x"], "not whole numbers with commas between: '1,x'"),
        (["--sessions", "4,0"], "must be 1 or more each, not 4,0"),
        (["--seconds", "soon"], "not a number: 'soon'"),
        (["--seconds", "0"], "must be more than 0, not 0"),
        (["--seconds", "nan"], "must be more than 0, not nan"),
    ],
)
def test_a_wrong_size_is_refused(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        main(["bench", "engine", *arguments])
    assert error.value.code == 2
    assert said in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_said_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "missing" / "engine.json"
    assert main(["bench", "engine", "--json", str(path)]) == 1
    assert f"{path} cannot be written: No such file or directory" in capsys.readouterr().err
