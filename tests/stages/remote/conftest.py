"""The scripted engine of this folder's tests."""

from __future__ import annotations

import pytest

from duplex_trio.testing.http_faults.answers import streamed
from duplex_trio.testing.http_faults.run import FaultEngine


@pytest.fixture
def engine() -> FaultEngine:
    """Answers every prompt with the same words until a test says otherwise."""
    return FaultEngine(answers=[streamed("All", " is", " well.")])
