"""What a real `/metrics` prints, in every session mode."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import Metric

from duplex_trio.engine.video.engine import VideoEngine
from duplex_trio.entrypoints.async_omni import AsyncOmni
from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.native import NativePipeline
from duplex_trio.models.scripted.turns import TurnsPipeline
from duplex_trio.models.scripted.video import ScriptedVideoPipeline


@pytest.fixture(scope="session")
def operations() -> Path:
    """The folder of what operators take."""
    return Path(__file__).parents[2] / "operations"


@pytest.fixture(scope="session")
def families() -> list[Metric]:
    """Every family that a server prints, of sessions, of turns and of video."""
    found: dict[str, Metric] = {}
    for registry in (
        DuplexOmni(NativePipeline()).duplex_engine.metrics.registry,
        AsyncOmni(TurnsPipeline()).turn_engine.registry,
        VideoEngine(ScriptedVideoPipeline()).registry,
    ):
        for family in registry.collect():
            found.setdefault(family.name, family)
    return list(found.values())
