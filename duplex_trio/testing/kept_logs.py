"""Fixtures: logs of sessions under test are kept, not printed, and free of faults that no test asked for.

A `conftest.py` imports them; `logs` is then used by every test below it.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
from structlog.testing import capture_logs

Logs = list[MutableMapping[str, Any]]


@pytest.fixture
def faults_expected() -> None:
    """For tests in which something is meant to break."""


@pytest.fixture(autouse=True)
def logs(request: pytest.FixtureRequest) -> Iterator[Logs]:
    """What was logged. A logged exception fails the test unless it uses `faults_expected`."""
    with capture_logs() as entries:
        yield entries
    if "faults_expected" not in request.fixturenames:
        faults = [entry for entry in entries if entry["log_level"] in ("error", "critical")]
        assert not faults, f"logged: {faults}"
