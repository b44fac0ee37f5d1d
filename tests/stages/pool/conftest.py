"""Pools of scripted replicas."""

from __future__ import annotations

import pytest

from duplex_trio.testing.replicas import Replicas


@pytest.fixture
def replicas() -> Replicas:
    return Replicas()
