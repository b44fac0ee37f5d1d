"""One server with the real models for all tests that want it: it is started as a user starts it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from duplex_trio.testing.server_process import ServedPort, server_process

START_TIMEOUT_S = 240.0


@pytest.fixture(scope="session")
def real_server() -> Iterator[ServedPort]:
    with server_process("--max-sessions", "6", start_timeout_s=START_TIMEOUT_S) as server:
        yield server
