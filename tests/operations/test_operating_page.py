"""What the page about operating says, held against the server: its requests are made, its names are looked up."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
import trio
from prometheus_client import Metric

from duplex_trio.cli.main import build_parser
from duplex_trio.testing.serve_command import serve_command

KEY = "a-key-that-nobody-guesses"


@pytest.fixture(scope="module")
def page(operations: Path) -> str:
    return (operations.parent / "docs" / "operating.md").read_text()


def code_of(operations: Path) -> str:
    package = operations.parent / "duplex_trio"
    return "\n".join(path.read_text() for path in sorted(package.rglob("*.py")))


def test_the_lines_of_the_log_are_written_somewhere(page: str, operations: Path) -> None:
    table = page.partition("## The log")[2].partition("## ")[0]
    lines = re.findall(r"`([a-z_]+\.[a-z_]+)`", table)
    assert len(lines) > 15
    source = code_of(operations).replace('f"{self._noun}.', '"session.')
    assert not [line for line in lines if f'"{line}"' not in source]


def test_codes_and_events_are_said_somewhere(page: str, operations: Path) -> None:
    """Codes of errors, names of events of spans, attributes."""
    source = code_of(operations)
    for code in (
        "resource_exhausted", "event_too_large", "slow_reader", "server_shutdown", "invalid_resume_token",
        "session_resume_expired", "origin_not_allowed",
    ):  # fmt: skip
        assert f"`{code}`" in page
        assert f'"{code}"' in source
    events = re.findall(r"`duplex\.(\w+)`", page)
    assert {"first_audio", "barge_in", "resumed"} <= set(events)
    assert not [name for name in events if f'"{name}"' not in source]


def test_figures_that_are_named_are_served(page: str, families: list[Metric]) -> None:
    served = {family.name for family in families}
    named = {re.sub("_(total|bucket)$", "", name) for name in re.findall(r"`(duplex_\w+)`", page)} - {
        "duplex_trio"
    }
    assert len(named) >= 5
    assert named <= served


def test_options_that_are_named_are_there(page: str) -> None:
    helped = build_parser(["serve"])._subparsers
    assert helped is not None
    serve = helped._group_actions[0].choices["serve"]  # type: ignore[index, call-overload]
    known = {option for action in serve._actions for option in action.option_strings}
    foreign = {"--target", "--cache", "--rm", "--init"}
    named = set(re.findall(r"`(--[a-z-]+)", page)) - foreign
    assert len(named) >= 8
    assert named <= known


@pytest.mark.e2e
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_its_requests_are_answered(page: str, tmp_path: Path) -> None:
    """As they stand, but for the port; without the key they are not, save for the word of /health and the pages."""
    requests = re.findall(r"^curl .*$", page, re.MULTILINE)
    assert len(requests) == 2
    async with serve_command(tmp_path, DUPLEX_TRIO_API_KEY=KEY) as command:
        for request in requests:
            line = request.replace("8765", str(command.port)).replace("$DUPLEX_TRIO_API_KEY", KEY)
            done = await trio.run_process([*shlex.split(line), "-f"], capture_stdout=True)
            assert b"duplex_sessions" in done.stdout or b'"stages"' in done.stdout
        for path, status in (("/health", 200), ("/", 200), ("/metrics", 401), ("/v1/models", 401)):
            asked = [
                "curl",
                "-s",
                "-o",
                "/dev/null",
                "-w",
                "%{http_code}",
                f"http://127.0.0.1:{command.port}{path}",
            ]
            assert (await trio.run_process(asked, capture_stdout=True)).stdout == str(status).encode()
        _, health = await command.ask("GET", "/health")
        assert health == {"status": "ready"}
        assert KEY not in command.log.read_text()
