"""The scripted model that owns its turns, with a record of what it was told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from duplex_trio.models.scripted.native import NativePipeline, NativePlugin
from duplex_trio.pipelines.requests import RequestView, StageForward
from duplex_trio.plugin.resumable import EpochInput, UnitInput

LOUD_PEAK = 0.1
"""Peak from which a unit counts as loud."""


class WatchedNativePlugin(NativePlugin):
    """Keeps what it is told.

    Attributes:
        epochs: what each request began with.
        units: the units that were planned, in order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.epochs: list[EpochInput] = []
        self.units: list[UnitInput] = []

    def begin_request(self, epoch: EpochInput) -> Mapping[str, Any]:
        """Keep how the request begins."""
        self.epochs.append(epoch)
        return super().begin_request(epoch)

    def plan_append(self, unit: UnitInput, request: RequestView) -> StageForward:
        """Keep the unit, and plan it."""
        self.units.append(unit)
        return super().plan_append(unit, request)

    @property
    def loud(self) -> int:
        """How many units with loud sound came from the user."""
        return sum(bool(np.abs(unit.pcm).max() > LOUD_PEAK) for unit in self.units if not unit.silence)

    @property
    def forced(self) -> list[bool]:
        """Which units asked the model to listen."""
        return [unit.force_listen for unit in self.units]


class WatchedNativePipeline(NativePipeline):
    """The model with `plugin` at hand.

    Args:
        answer: what it says to everything.
        **more: other arguments of `NativePipeline`.
    """

    def __init__(self, answer: str = "one two three four", **more: Any) -> None:
        super().__init__(answer=answer, **more)
        self.plugin: WatchedNativePlugin = WatchedNativePlugin()
