"""Gates and notes between processes, for tests that decide what another thread or process does when."""

from __future__ import annotations

import os
import pickle
import select
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

import trio


class Gate:
    """Opened once, from anywhere, and waited for anywhere: in this thread, in a task, in another process.

    It is a named pipe: pickled, it is the same gate in the other process.
    """

    def __init__(self) -> None:
        folder = tempfile.mkdtemp(prefix="gate-")
        path = f"{folder}/pipe"
        os.mkfifo(path)
        self._attach(path)
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def _attach(self, path: str) -> None:
        self._path = path
        # Both ends: what was written stays as long as somebody has them, and nobody waits for the other.
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        weakref.finalize(self, os.close, self._fd)

    def __getstate__(self) -> str:
        return self._path

    def __setstate__(self, path: str) -> None:
        self._attach(path)

    def set(self) -> None:
        """Open the gate."""
        os.write(self._fd, b".")

    def is_set(self) -> bool:
        """Whether it is open."""
        return self.wait(0)

    def wait(self, timeout_s: float) -> bool:
        """Block until it is open; whether it is."""
        return bool(select.select([self._fd], [], [], timeout_s)[0])

    async def wait_task(self) -> None:
        """Wait in a task until it is open."""
        await trio.lowlevel.wait_readable(self._fd)


class Notes:
    """A list that any thread and process appends to, and that is read here."""

    def __init__(self) -> None:
        fd, self._path = tempfile.mkstemp(prefix="notes-")
        os.close(fd)
        weakref.finalize(self, Path(self._path).unlink, missing_ok=True)

    def __getstate__(self) -> str:
        return self._path

    def __setstate__(self, path: str) -> None:
        self._path = path

    def append(self, value: Any) -> None:
        """Add something that can be pickled."""
        with Path(self._path).open("ab", buffering=0) as file:
            file.write(pickle.dumps(value))

    def read(self) -> list[Any]:
        """What was added so far."""
        values = []
        with Path(self._path).open("rb") as file:
            while True:
                try:
                    values.append(pickle.load(file))  # noqa: S301  written by this class
                except EOFError:
                    return values
