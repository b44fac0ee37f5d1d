"""How a worker is made in the process that will carry it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from attrs import Factory, frozen

from duplex_trio.stages.worker import StageWorker


@frozen(kw_only=True)
class WorkerRecipe:
    """A worker that is made in its process, because what makes it cannot be imported by the server.

    Attributes:
        name: of the stage, in logs and metrics.
        factory: what to call, as `package.module:callable`; it returns the `StageWorker`.
        arguments: by name; they must be picklable.
    """

    name: str
    factory: str
    arguments: Mapping[str, Any] = Factory(dict)

    def make(self) -> StageWorker:
        """Import the factory and call it."""
        module, _, name = self.factory.partition(":")
        made = getattr(importlib.import_module(module), name)(**self.arguments)
        if not isinstance(made, StageWorker):
            raise TypeError(f"{self.factory} made a {type(made).__name__}, not a StageWorker")
        return made
