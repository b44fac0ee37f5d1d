"""Starts the process of a stage, waits for its end and brings it about."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import trio

CHILD = "duplex_trio.stages.process.child"
OWN_PATHS = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
"""Variables that lead an interpreter to its packages: those of the server are not another interpreter's."""

KILLED_S = 5.0
"""Nothing but the kernel holds a process up that was killed."""


class NoInterpreterError(Exception):
    """There is no program of this name that could be started."""


class StageProcess:
    """A process in a session of its own, joined by a connection, its output by a pipe.

    Blocks for the milliseconds that starting a program takes. It must be made in the thread that outlives the process:
    the kernel ends the process with the thread that started it.

    Args:
        python: the interpreter; the server's own by default.
        environment: variables that are set (or, with None, unset) in addition to the server's.

    Raises:
        NoInterpreterError: it cannot be started.
    """

    def __init__(self, python: str | None, environment: Mapping[str, str | None]) -> None:
        self.python = python or sys.executable
        ours, theirs = socket.socketpair()
        with theirs:
            command = [self.python, "-m", CHILD, str(theirs.fileno())]
            try:
                self._popen = subprocess.Popen(  # noqa: S603  the operator chooses the interpreter
                    command,
                    env=environment_of(python, environment),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                    bufsize=0,
                )
            except OSError as error:
                ours.close()
                raise NoInterpreterError(_why_not(self.python, error)) from error
        self.pid = self._popen.pid
        self.socket = ours
        ours.setblocking(False)
        assert self._popen.stdout is not None
        self._output = self._popen.stdout
        self.output_fd = self._output.fileno()
        os.set_blocking(self.output_fd, False)

    async def wait_exit(self) -> None:
        """Wait until the process has ended. It stays a zombie until `close`, so that its number is not used again."""
        if sys.platform == "linux":
            pidfd = os.pidfd_open(self.pid)
            try:
                await trio.lowlevel.wait_readable(pidfd)
            finally:
                os.close(pidfd)
        else:
            await trio.to_thread.run_sync(
                os.waitid, os.P_PID, self.pid, os.WEXITED | os.WNOWAIT, abandon_on_cancel=True
            )

    def terminate(self) -> None:
        """Ask the process by a signal to leave."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill it and whatever it has started in its session."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def read_output(self) -> bytes | None:
        """What it has printed and was not read; empty at the end, None when there is nothing just now."""
        try:
            return os.read(self.output_fd, 1 << 16)
        except BlockingIOError:
            return None

    def close(self) -> str:
        """Let go of the process after its exit, which comes now if it has not come; how it ended, in words."""
        self.socket.close()
        self._output.close()
        if self._popen.poll() is None:
            self.kill()
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(KILLED_S)
        code = self._popen.returncode
        return "cannot be killed" if code is None else exit_in_words(code)


def exit_in_words(code: int) -> str:
    """How a process ended, after its name: `ended with exit status 1`.

    Args:
        code: as `subprocess` has it, negative for a signal.
    """
    if code >= 0:
        return f"ended with exit status {code}"
    name = signal.Signals(-code).name if -code in signal.valid_signals() else f"signal {-code}"
    return f"was ended by {name}"


def environment_of(python: str | None, environment: Mapping[str, str | None]) -> dict[str, str]:
    """The variables of the process.

    The server's own interpreter finds its packages where the server does. Another one finds its own: it is told nothing
    of where the server's are.

    Args:
        python: as for `StageProcess`.
        environment: as for `StageProcess`.
    """
    variables = dict(os.environ)
    if python is None or python == sys.executable:
        variables["PYTHONPATH"] = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    else:
        for name in OWN_PATHS:
            variables.pop(name, None)
    # The folder that the server was started in is no place to import from.
    variables["PYTHONSAFEPATH"] = "1"
    for name, value in environment.items():
        if value is None:
            variables.pop(name, None)
        else:
            variables[name] = value
    return variables


def _why_not(python: str, error: OSError) -> str:
    if not python:
        return "the server does not know its own Python interpreter"
    if isinstance(error, FileNotFoundError) and shutil.which(python) is None:
        return f"there is no Python interpreter {python}"
    return f"{python} cannot be started: {error.strerror or error}"
