"""Run the package client (`python -m pip`) and say in plain words why it failed.

pip is the one program that knows which indexes, mirrors, proxies and certificates the user has set up, so
every download of a package goes through it. Its output is kept in a file and shown only after a failure.
Which packages are wanted is the business of the callers.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attrs import field, frozen

_POLL_S = 0.1
_GRACE_S = 5.0
_TAIL_LINES = 15
_TAIL_BYTES = 8192

_DISK_FULL = ("[Errno 28]", "No space left on device", "[Errno 122]")
_NO_NETWORK = (
    "NewConnectionError",
    "ConnectTimeoutError",
    "NameResolutionError",
    "Failed to establish a new connection",
    "Temporary failure in name resolution",
    "Name or service not known",
    "Max retries exceeded",
    "Connection reset by peer",
    "ReadTimeoutError",
    "ProxyError",
    "Network is unreachable",
)
NO_PIP = (
    "This Python environment has no pip. Add it with `python -m ensurepip` (or `uv pip install pip` in an "
    "environment that uv made) and run the command again."
)
_NOT_FOUND = ("No matching distribution found", "Could not find a version that satisfies")
_ACTIVITIES = {"Collecting": "looking for", "Downloading": "downloading", "Processing": "reading"}
_DAMAGED = ("DO NOT MATCH THE HASHES", "is invalid", "BadZipFile")


class PackageClientError(Exception):
    """pip could not do what it was asked. `output` holds the last lines it printed."""

    def __init__(self, message: str, output: str) -> None:
        super().__init__(message)
        self.output = output


class NetworkUnreachableError(PackageClientError):
    """No package index answered."""


class PackageNotFoundError(PackageClientError):
    """The indexes that answered do not offer the package for this Python and platform."""


class PackageDamagedError(PackageClientError):
    """What arrived is not what the index announced."""


class PackageDiskFullError(PackageClientError):
    """The disk filled up while pip downloaded or unpacked."""


@frozen
class PipActivity:
    """What a running pip does, in a few words, and the bytes in its work folder, most of them downloads."""

    downloaded: int
    doing: str


def _ignore_activity(_: PipActivity) -> None:
    return None


@frozen
class PackageClient:
    """pip of the Python at `python`, run with the environment variables `environ`."""

    python: Path = field(factory=lambda: Path(sys.executable))
    environ: Mapping[str, str] = field(factory=lambda: dict(os.environ))

    def run(
        self,
        arguments: Sequence[str],
        work: Path,
        on_activity: Callable[[PipActivity], None] = _ignore_activity,
    ) -> None:
        """Run `pip <arguments>`; temporary files go below `work`, an existing empty folder of the caller's.

        `on_activity` is called about ten times a second. Raises PackageClientError or a subclass; a
        KeyboardInterrupt first lets pip clean up after itself.
        """
        log = work / "pip.log"
        temporary = work / "pip-tmp"
        temporary.mkdir(exist_ok=True)
        command = [str(self.python), "-m", "pip", *arguments]
        environ = {
            **self.environ,
            "TMPDIR": str(temporary),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_INPUT": "1",
            "PIP_PROGRESS_BAR": "off",
            "NO_COLOR": "1",
        }
        with log.open("wb") as output, _running(command, environ, output) as process:
            while not _ended(process):
                on_activity(PipActivity(_folder_size(temporary), _activity(log)))
        if process.returncode:
            raise explain_failure(log.read_text(encoding="utf-8", errors="replace"))

    def report(self, requirement: str, work: Path, options: Sequence[str] = ()) -> dict[str, Any]:
        """pip's installation report for one requirement without its dependencies; nothing is installed."""
        path = work / "report.json"
        self.run(
            [
                "install",
                "--dry-run",
                "--ignore-installed",
                "--no-deps",
                "--only-binary=:all:",
                "--report",
                str(path),
                *options,
                requirement,
            ],
            work,
        )
        report: dict[str, Any] = json.loads(path.read_bytes())
        return report


def explain_failure(output: str) -> PackageClientError:
    """The error that a failed pip run's output stands for.

    An index that does not answer is only the reason when no other index offered any version of the package:
    pip warns about the silent one and goes on.
    """
    tail = _tail(output)
    if "No module named pip" in output:
        return PackageClientError(NO_PIP, tail)
    if any(sign in output for sign in _DISK_FULL):
        return PackageDiskFullError("The disk filled up.", tail)
    not_found = any(sign in output for sign in _NOT_FOUND)
    some_index_answered = not_found and "(from versions: none)" not in output
    if any(sign in output for sign in _NO_NETWORK) and not some_index_answered:
        return NetworkUnreachableError(
            "The package index could not be reached, or the connection broke. Check the network (and pip's "
            "proxy and index settings: `python -m pip config list`), then run the command again.",
            tail,
        )
    if not_found:
        return PackageNotFoundError(
            "No package index that pip is set up to use offers it for this machine (or none of them answers).",
            tail,
        )
    if any(sign in output for sign in _DAMAGED):
        return PackageDamagedError(
            "A downloaded package is damaged. Run the command again; if it happens again, clear pip's cache "
            "first: `python -m pip cache purge`.",
            tail,
        )
    return PackageClientError("pip failed.", tail)


def _tail(output: str) -> str:
    """The last lines that say something; of pip's repeated attempts only the last is kept."""
    lines = [line for line in output.splitlines() if line.strip()]
    attempts = [line for line in lines if "Retrying (Retry" in line]
    return "\n".join([line for line in lines if line not in attempts[:-1]][-_TAIL_LINES:])


def describe_activity(lines: Sequence[str]) -> str:
    """What pip is doing, from the last line of its output that says so; warnings and notes are skipped."""
    for line in reversed(lines):
        words = line.split()
        if line.startswith("Installing collected packages"):
            return "unpacking"
        if len(words) >= 2 and words[0] in _ACTIVITIES:
            name = re.split(r"[-=<>!~\[(;]\d|[=<>!~\[(;]", words[1].rsplit("/", 1)[-1])[0]
            return f"{_ACTIVITIES[words[0]]} {name.removesuffix('.whl')}"
    return ""


@contextmanager
def _running(
    command: Sequence[str], environ: Mapping[str, str], output: Any
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(  # noqa: S603 (a fixed program with our own arguments, no shell)
        command, env=environ, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
    )
    try:
        yield process
    except BaseException:
        _stop(process)
        raise


def _ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_POLL_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End pip, which after a Ctrl-C in a terminal has had its own signal and may be cleaning up already."""
    for insist, patience_s in ((None, 1.0), (signal.SIGTERM, _GRACE_S), (signal.SIGKILL, _GRACE_S)):
        if insist is not None:
            process.send_signal(insist)
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            continue
        return


def _folder_size(folder: Path) -> int:
    """Bytes below a folder while another process is changing it: what vanishes meanwhile counts nothing."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.stat(os.path.join(place, name)).st_size
    return total


def _activity(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        lines = file.read().decode("utf-8", errors="replace").splitlines()
    return describe_activity(lines)
