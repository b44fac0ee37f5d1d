"""What the process of a stage prints, as lines of the server's log.

Libraries write to a process's output as they like, at any length and as often as they like, so both are bounded here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import structlog

LINE_CHARS_MAX = 1000
LINES_KEPT = 30
"""The last lines are told when the process dies while loading."""
LINES_PER_S = 50.0
LINES_AT_ONCE_MAX = 500
"""A traceback or a table of settings comes at once; more than this in a row is a loop that complains."""

log = structlog.get_logger("duplex_trio.stages")


class Printed:
    """Cuts output into lines and logs them.

    Args:
        stage: whose output it is.
    """

    def __init__(self, stage: str) -> None:
        self._stage = stage
        self._partial = b""
        self._cut = False
        self._last: deque[str] = deque(maxlen=LINES_KEPT)
        self._allowance = float(LINES_AT_ONCE_MAX)
        self._counted_s: float | None = None
        self._dropped = 0

    @property
    def tail(self) -> str:
        """The last lines, indented; empty when nothing was printed."""
        return "".join(f"\n  {line}" for line in self._last)

    def feed(self, data: bytes, now_s: float) -> None:
        """Take some output.

        Args:
            data: the next bytes.
            now_s: the time, on any clock.
        """
        for line in self._lines(data):
            self._note(line, now_s)

    def end(self, now_s: float) -> None:
        """No more output follows."""
        self.feed(b"\n", now_s)

    def _lines(self, data: bytes) -> Iterator[str]:
        *whole, rest = data.split(b"\n")
        for piece in whole:
            line = self._partial + piece
            if not self._cut and line.strip():
                yield _text(line)
            self._partial, self._cut = b"", False
        self._partial += rest
        if len(self._partial) > LINE_CHARS_MAX:
            # The rest of an endless line (a bar of progress) is not kept.
            if not self._cut:
                yield _text(self._partial)
            self._partial, self._cut = b"", True

    def _note(self, line: str, now_s: float) -> None:
        self._last.append(line)
        if self._counted_s is not None:
            passed_s = now_s - self._counted_s
            self._allowance = min(LINES_AT_ONCE_MAX, self._allowance + passed_s * LINES_PER_S)
        self._counted_s = now_s
        if self._allowance < 1:
            self._dropped += 1
            return
        self._allowance -= 1
        if self._dropped:
            log.warning("stage.lines_dropped", stage=self._stage, count=self._dropped)
            self._dropped = 0
        log.info("stage.printed", stage=self._stage, line=line)


def _text(line: bytes) -> str:
    # Of a line that was written over itself (a bar of progress), the last state.
    text = line.decode(errors="replace").rstrip("\r").rpartition("\r")[2]
    return text[:LINE_CHARS_MAX]
