"""The clip on its way to a file, which plays while it grows."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import trio

from duplex_trio.cli.errors import CommandError


class ClipFile:
    """A file that payloads are appended to.

    Opening it shows whether it can be written, before anything is generated; what it held before is gone only when
    the first payload comes.

    Args:
        path: where.

    Raises:
        CommandError: it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size_bytes = 0
        self._is_new, self._replaces = not path.exists(), path.is_file()
        try:
            self._file: BinaryIO = path.open("ab", buffering=0)
        except OSError as error:
            raise CommandError(f"--out: {path}: {error.strerror or error}") from None

    async def append(self, payload: bytes) -> None:
        """Write one payload to the end of the file.

        Raises:
            CommandError: that failed: no room, for example.
        """
        try:
            await trio.to_thread.run_sync(self._append, payload)
        except OSError as error:
            raise CommandError(f"--out: {self.path}: {error.strerror or error}") from None

    def close(self) -> None:
        """Close it; a new one that nothing came into is removed."""
        self._file.close()
        if self._is_new and not self.size_bytes:
            self.path.unlink(missing_ok=True)

    def _append(self, payload: bytes) -> None:
        if not self.size_bytes and self._replaces:
            self._file.truncate(0)
        rest = memoryview(payload)
        while rest:
            rest = rest[self._file.write(rest) :]
        self.size_bytes += len(payload)
