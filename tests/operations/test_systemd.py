"""The service as systemd takes it: its own verdict where it is installed, and that what it starts is what we serve."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from duplex_trio.cli.main import build_parser
from duplex_trio.cli.serve import API_KEY_VARIABLE
from duplex_trio.models.cache import CACHE_VARIABLE
from duplex_trio.serving.run import LAST_WAIT_S, TRACES_WAIT_S
from tests.operations.units import Setting, settings

COMMAND = "/opt/duplex-trio/bin/duplex-trio"
EXPOSURE_MAX = 2.0
"""What `systemd-analyze security` may find; a unit without any hardening has 9.6."""
GOODBYE_S = 5.0 + 5.0
"""How long sessions and videos have for their last words (`goodbye_timeout_s`, `GOODBYE_TIMEOUT_S`)."""
systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")


@pytest.fixture(scope="module")
def unit(operations: Path) -> list[Setting]:
    return settings(operations / "systemd" / "duplex-trio.service")


@pytest.fixture
def installed(operations: Path, tmp_path: Path) -> Path:
    """The unit with a command that is there, which is all that systemd looks at."""
    text = (operations / "systemd" / "duplex-trio.service").read_text()
    path = tmp_path / "duplex-trio.service"
    path.write_text(text.replace(COMMAND, shutil.which("true") or "/bin/true"))
    return path


def value(unit: list[Setting], name: str) -> str:
    (found,) = [one.value for one in unit if one.name == name]
    return found


def seconds(text: str) -> float:
    number, unit = re.fullmatch(r"(\d+)(min|s|)", text).groups()  # type: ignore[union-attr]
    return float(number) * (60 if unit == "min" else 1)


@systemd
def test_systemd_finds_nothing_to_say(installed: Path) -> None:
    """It reports unknown names and values, and exits with 0 for many of them."""
    verdict = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(installed)], capture_output=True, text=True, check=False
    )
    ours = [line for line in verdict.stderr.splitlines() if "duplex-trio" in line]
    assert (verdict.returncode, ours) == (0, [])


@systemd
def test_little_is_exposed(installed: Path) -> None:
    """Told without a running systemd by version 250 and later."""
    verdict = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", str(installed)],
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"exposure level for duplex-trio\.service: ([\d.]+)", verdict.stdout)
    if found is None:
        pytest.skip("systemd does not tell it offline")
    assert float(found[1]) <= EXPOSURE_MAX


def test_the_command_is_one_of_ours(unit: list[Setting], operations: Path) -> None:
    """Also with the further options that the example names, and before it the models."""
    example = (operations / "systemd" / "environment").read_text()
    options = re.search(r"^#DUPLEX_TRIO_OPTIONS=(.*)$", example, re.MULTILINE)
    assert options is not None
    for name in ("ExecStart", "ExecStartPre"):
        line = value(unit, name).replace("$DUPLEX_TRIO_OPTIONS", options[1])
        command, *arguments = shlex.split(line)
        assert command == COMMAND
        assert build_parser(arguments).parse_args(arguments).run


def test_the_drain_has_the_time_that_it_is_given(unit: list[Setting]) -> None:
    """systemd kills nobody who still says goodbye."""
    arguments = [word for word in shlex.split(value(unit, "ExecStart"))[1:] if not word.startswith("$")]
    drain_s = build_parser(arguments).parse_args(arguments).drain_timeout
    assert seconds(value(unit, "TimeoutStopSec")) >= drain_s + GOODBYE_S + TRACES_WAIT_S + LAST_WAIT_S
    assert (value(unit, "KillSignal"), value(unit, "KillMode")) == ("SIGTERM", "mixed")


def test_systemd_is_told_by_the_server(unit: list[Setting]) -> None:
    """What it waits for is what `service_manager` says, and the sign of life comes in time."""
    assert (value(unit, "Type"), value(unit, "NotifyAccess")) == ("notify", "main")
    assert seconds(value(unit, "WatchdogSec")) >= 10


def test_the_models_are_where_the_service_may_write(unit: list[Setting]) -> None:
    folder = "/var/lib/" + value(unit, "StateDirectory")
    assert value(unit, "WorkingDirectory") == folder
    environment = " ".join(one.value for one in unit if one.name == "Environment").split()
    assert f"{CACHE_VARIABLE}={folder}" in environment
    assert value(unit, "ProtectSystem") == "strict"


def test_secrets_come_from_a_file_of_their_own(unit: list[Setting], operations: Path) -> None:
    """No key is on a command line, where any user of the machine reads it."""
    assert value(unit, "EnvironmentFile") == "-/etc/duplex-trio/environment"
    assert "--api-key" not in value(unit, "ExecStart")
    example = (operations / "systemd" / "environment").read_text()
    names = set(re.findall(r"^#([A-Z_]+)=", example, re.MULTILINE))
    assert {API_KEY_VARIABLE, "DUPLEX_TRIO_OPTIONS", "OTEL_EXPORTER_OTLP_ENDPOINT"} <= names
    assert not re.search(r"^[A-Z_]+=", example, re.MULTILINE), "nothing is set unless somebody sets it"
