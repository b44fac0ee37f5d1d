"""Fuzzing that is led by coverage, of all that reads a client's bytes without I/O.

What is found is printed by libFuzzer and left in a file `crash-...`. Needs atheris (`pip install atheris`), no
server and no model.
"""

from __future__ import annotations

import contextlib
import gc
import json
import random
import tempfile
from pathlib import Path
from types import FunctionType
from typing import Any

from duplex_trio.protocol.duplex import RealtimeError, decode_command
from duplex_trio.serving.envelope import Handshake, Unavailable, read_first_message, read_handshake
from duplex_trio.serving.native.head import HeadReader
from duplex_trio.testing.fuzz.wire.frames import native_reading
from duplex_trio.testing.fuzz.wire.recorded import some_message, websocket_stream

SEEDS = 100
"""Valid messages and streams that it begins with, each."""
_INSTRUMENTED = ("duplex_trio.protocol", "duplex_trio.serving.envelope", "duplex_trio.serving.native", "h11")


def read_everything(data: bytes) -> None:
    """Give bytes to every reader; none may raise anything but an error to answer with.

    Raises:
        Exception: one did.
        AssertionError: frames are not read alike whole and in two pieces.
    """
    with contextlib.suppress(RealtimeError):
        decode_command(data)
    asked = read_handshake("/v1/realtime", data[:100], [(b"openai-beta", data[100:120])])
    if isinstance(asked, Handshake):
        read_first_message(asked, data)
    else:
        assert isinstance(asked, Unavailable)
    HeadReader().feed(data)
    half = len(data) // 2
    assert native_reading([data]) == native_reading([data[:half], data[half:]])


def _functions() -> list[FunctionType]:
    """All functions of the modules that are led by coverage, methods included."""
    return [
        found
        for found in gc.get_objects()
        if isinstance(found, FunctionType) and (found.__module__ or "").startswith(_INSTRUMENTED)
    ]


def fuzz(seconds: float, seed: int) -> None:
    """Fuzz for so long; ends the process, with 0 if nothing broke.

    Args:
        seconds: how long, 0 for ever.
        seed: of libFuzzer and of what it begins with, at least 1.

    Raises:
        ImportError: atheris is not installed.
    """
    atheris: Any = __import__("atheris")
    for function in _functions():
        atheris.instrument_func(function)
    settings = [f"-max_total_time={seconds:.0f}", f"-seed={seed}", "-max_len=4096"]
    with tempfile.TemporaryDirectory() as corpus:
        _write_seeds(Path(corpus), random.Random(seed))  # noqa: S311  not for secrets
        atheris.Setup(["fuzz", *settings, corpus], read_everything)
        atheris.Fuzz()


def _write_seeds(corpus: Path, rng: random.Random) -> None:
    for number in range(SEEDS):
        (corpus / f"message-{number}").write_text(json.dumps(some_message(rng)))
        for part, data in enumerate(websocket_stream(rng)):
            (corpus / f"stream-{number}-{part}").write_bytes(data)
