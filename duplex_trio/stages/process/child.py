"""The process of a stage: `python -m duplex_trio.stages.process.child FD`, started by `run` and by nobody else.

It greets the server with its versions before it imports anything that may not be there, so that the server can say
what is wrong with an interpreter. It follows the server: it ends when the connection ends, and leaves signals that a
terminal or a supervisor sends to everybody to the server, which will tell it what to do.

Only the standard library, and syntax of older Pythons.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING, Any

from duplex_trio import __version__
from duplex_trio.stages.process import frames

if TYPE_CHECKING:
    from collections.abc import Iterator

EXIT_ORPHANED = 70
"""The server is gone."""


class Link:
    """The process's end of the connection; frames are sent whole, from any thread."""

    def __init__(self, fd: int) -> None:
        import threading

        self.stopping = False
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(True)
        self._socket.set_inheritable(False)
        self._sending = threading.Lock()
        self._reader = frames.FrameReader()
        self._received: Iterator[frames.Frame] = iter(())

    def send(self, frame: frames.Frame) -> None:
        """Send one frame. Waits while the server does not read; ends the process when it is gone.

        Raises:
            ValueError: the frame is too large.
        """
        pieces = frames.to_bytes(frame)
        with self._sending:
            try:
                while pieces:
                    pieces = frames.unsent(pieces, self._socket.sendmsg(pieces[: frames.PIECES_AT_ONCE_MAX]))
            except OSError:
                os._exit(EXIT_ORPHANED)

    def receive(self) -> frames.Frame:
        """Wait for the next frame; ends the process when the server is gone."""
        while True:
            for frame in self._received:
                return frame
            try:
                count = self._socket.recv_into(self._reader.target())
            except OSError:
                count = 0
            if count == 0:
                os._exit(EXIT_ORPHANED)
            self._received = self._reader.received(count)


def main() -> None:
    """Greet, and carry the worker that is sent."""
    follow_server()
    link = Link(int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number) if link.stopping else None)
    link.send(frames.Frame(frames.GREETING, head=json.dumps(greeting()).encode()))
    first = link.receive()
    if first.kind == frames.STOP:
        sys.exit(0)  # the server was told to stop meanwhile
    try:
        from duplex_trio.stages.process.worker_side import carry
    except ImportError as error:
        link.send(frames.frame_of(frames.DIED, 0, f"{sys.executable} has no {error.name or error}"))
        sys.exit(1)
    carry(link, first)


def greeting() -> dict[str, Any]:
    """What must be the same on both sides, to be compared by name."""
    return {
        "protocol": frames.PROTOCOL_VERSION,
        "duplex-trio": __version__,
        "Python": f"{sys.version_info[0]}.{sys.version_info[1]}",
    }


def follow_server() -> None:
    """Be killed when the server dies, even in the middle of a native call (Linux). The connection's end tells it too.

    The kernel minds the thread that started this process; that is the server's loop.
    """
    if sys.platform == "linux":
        import ctypes

        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


if __name__ == "__main__":
    main()
