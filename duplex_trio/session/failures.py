"""What the client is told when the stages fail: one typed error for each way in which they do."""

from __future__ import annotations

import trio

from duplex_trio.pipelines.results import ModelFailure
from duplex_trio.protocol.duplex import ERROR_CLASSES, RealtimeError
from duplex_trio.session.port import DuplexStageRequest
from duplex_trio.stages.errors import StageDeadError


def model_failed(failure: ModelFailure) -> RealtimeError:
    """A request failed at its stages; a code that the wire does not know becomes `engine_error`."""
    if failure.code in ERROR_CLASSES:
        return RealtimeError(failure.code, failure.message)
    return RealtimeError("engine_error", f"{failure.code}: {failure.message}")


def input_not_taken(error: trio.BrokenResourceError, request: DuplexStageRequest | None) -> RealtimeError:
    """A stage did not take the input: it is dead, or the request was over, perhaps because it had failed."""
    if request is not None and request.failure is not None:
        return model_failed(request.failure)
    code = "engine_dead" if isinstance(error, StageDeadError) else "runtime_append_failed"
    return RealtimeError(code, f"the model did not take the input: {error}")
