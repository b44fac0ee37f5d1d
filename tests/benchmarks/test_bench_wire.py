"""`duplex-trio bench wire` as it is typed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_a_quick_run_puts_both_paths_side_by_side(tmp_path: Path) -> None:
    path = tmp_path / "wire.json"
    printed = subprocess.run(
        [sys.executable, "-m", "duplex_trio", "bench", "wire", "--quick", "--json", str(path)],
        check=True,
        capture_output=True,
        text=True,
    )
    report = json.loads(path.read_text())
    assert report["benchmark"] == "wire"
    assert [measured["ws"] for measured in report["paths"]] == ["native", "asgi"]
    for measured in report["paths"]:
        assert set(measured["append_us"]) == {"20", "100"}
        assert min(measured["turn_us"], *measured["append_us"].values()) >= 0
        assert measured["barge_in_us"]["count"] == measured["resume_us"]["count"] == 3
        assert measured["ws"] in printed.stdout
    assert str(path) in printed.stdout
