"""The synchronous Python entry to a model, for scripts and notebooks.

    with Omni.from_deploy("cascade_turn") as omni:
        for result in omni.generate(["What is a good breakfast?", "And a good dinner?"]):
            print(result.text)

The model lives in a thread of its own, in which Trio runs; whoever asks waits in theirs, be it a script's or one that
has an event loop of another kind.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, TypeVar

from duplex_trio.deploy import DeployConfig
from duplex_trio.engine.async_omni_engine import DEFAULT_MAX_REQUESTS
from duplex_trio.engine.stage_building import StageFactory
from duplex_trio.engine.turn.outputs import OmniResult
from duplex_trio.engine.turn.request import OmniRequest, request_of
from duplex_trio.entrypoints.async_omni import AsyncOmni
from duplex_trio.entrypoints.batch import Batch
from duplex_trio.entrypoints.omni_base import OmniBase
from duplex_trio.entrypoints.omni_thread import OmniThread
from duplex_trio.entrypoints.progress import ProgressMaker, make_bar
from duplex_trio.entrypoints.quiet import quiet_log
from duplex_trio.pipelines.pipeline import Pipeline

Self = TypeVar("Self", bound="Omni")


class Omni(OmniBase):
    """One model, asked by batches.

    It is loaded by `load`, by `with`, or by the first batch, and stays until `close`, the end of the `with` block, or
    that of the program. Several threads may ask at once. Where structlog is not set up, loading shows warnings alone.

    Args:
        pipeline: the model.
        max_requests: requests at once; the others of a batch wait for their turn.
        stage_commands_max: opened requests and units that may wait for one stage; two for each request by default.
        warm_up: let the model answer once while it is loaded.
        stage_factory: what carries each runtime; a thread by default.

    Raises:
        ValueError: the pipeline is declared wrongly, or declares nothing that answers requests.
        ModelReferenceError: a model of the deployment cannot be found.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        max_requests: int = DEFAULT_MAX_REQUESTS,
        stage_commands_max: int | None = None,
        warm_up: bool = True,
        stage_factory: StageFactory | None = None,
    ) -> None:
        super().__init__(pipeline)
        self._max_requests = max_requests
        self._stage_commands_max = stage_commands_max
        self._warm_up = warm_up
        self._stage_factory = stage_factory
        self._thread = OmniThread(self._create_engine(), at_once=max_requests)

    def _create_engine(self) -> AsyncOmni:
        """Make the collaborator that runs the model."""
        return AsyncOmni(
            self.pipeline,
            max_requests=self._max_requests,
            stage_commands_max=self._stage_commands_max,
            warm_up=self._warm_up,
            stage_factory=self._stage_factory,
        )

    def load(self) -> None:
        """Load the model, and wait until it has answered once. Nothing happens if it is loaded.

        Raises:
            StageLoadError: a stage could not be loaded; several of them come in an `ExceptionGroup`.
            WarmUpError: the model does not answer.
            RuntimeError: it was closed.
        """
        quiet_log()
        self._thread.start()
        atexit.register(self.close)

    def close(self) -> None:
        """End what is live and let go of the model. Idempotent; it cannot be loaded again."""
        atexit.unregister(self.close)
        self._thread.stop()

    def __enter__(self: Self) -> Self:
        self.load()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def generate(
        self,
        requests: str | OmniRequest | Iterable[str | OmniRequest],
        *,
        progress: bool | ProgressMaker = True,
    ) -> list[OmniResult]:
        """Ask everything at once and wait for all answers.

        One that fails, or is refused, costs no other its answer: its result has the `error`, and what came before it.
        Ctrl-C ends the batch, and the model may be asked again.

        >>> bad = [result for result in omni.generate(prompts) if result.error]

        Args:
            requests: what is asked; a text is a message of the user's.
            progress: whether a bar is shown, on standard error where that is a terminal or a notebook; or what makes
                one, such as `tqdm`: it is called with `total` and `desc`, and what it makes has `update` and `close`.

        Returns:
            One result for each request, in their order.

        Raises:
            TypeError: what is given, or one of the requests, is none; nothing has been asked then.
            RuntimeError: the model was closed.
            StageLoadError, WarmUpError: as `load`, where this is what loads the model.
        """
        batch = Batch(_listed(requests))
        self.load()
        bar = make_bar(progress, len(batch))
        try:
            self._thread.begin(batch)
            for _ in batch.wait():
                bar.update(1)
        except BaseException:
            self._thread.abort(batch)
            raise
        finally:
            bar.close()
        return batch.results()

    @classmethod
    def _options_of(cls, deploy: DeployConfig) -> dict[str, Any]:
        return AsyncOmni._options_of(deploy)


def _listed(given: object) -> list[OmniRequest]:
    if isinstance(given, str | OmniRequest):
        return [request_of(given)]
    # Bytes would be numbers, and a mapping its keys.
    if isinstance(given, bytes | bytearray | Mapping) or not isinstance(given, Iterable):
        raise TypeError(
            f"requests is a {type(given).__name__}, not a text, an OmniRequest or several of them"
        )
    return [request_of(one, f"requests[{index}]") for index, one in enumerate(given)]
