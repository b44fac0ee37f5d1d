"""Waits until an engine elsewhere is there, and picks the model."""

from __future__ import annotations

import random

import structlog
import trio

from duplex_trio.deploy.stage import RemoteDeploy
from duplex_trio.stages.errors import StageLoadError
from duplex_trio.stages.remote.client import RemoteClient, ServedModel
from duplex_trio.stages.remote.faults import RemoteFault
from duplex_trio.stages.remote.retries import Backoff

log = structlog.get_logger("duplex_trio.stages")

FIRST_WAIT_S, LONGEST_WAIT_S = 0.25, 5.0
"""Waits between questions. An engine takes minutes to start: the longest wait is a small part of that."""
NAMES_SHOWN_MAX = 20


async def wait_for_model(
    name: str, remote: RemoteDeploy, client: RemoteClient, dice: random.Random
) -> ServedModel:
    """Wait until the engine tells its models, and return the one that is meant.

    Args:
        name: the stage's.
        remote: the engine.
        client: asks it.
        dice: what the jitter of waits is drawn from.

    Raises:
        StageLoadError: it does not tell within `load_timeout_s`, refuses the server, or does not have the model.
    """
    started_s = trio.current_time()
    backoff = Backoff(FIRST_WAIT_S, LONGEST_WAIT_S, dice=dice)
    tell_at_s = 0.0
    while True:
        try:
            models = await client.models()
        except RemoteFault as fault:
            waited_s = trio.current_time() - started_s
            left_s = remote.load_timeout_s - waited_s
            if not fault.again or left_s <= 0:
                raise StageLoadError(f"stage {name!r} could not be loaded: {fault}") from None
            if waited_s >= tell_at_s:
                tell_at_s = max(2 * waited_s, 1.0)
                log.info("remote.waiting", stage=name, seconds=round(waited_s, 1), reason=str(fault))
            await trio.sleep(min(backoff.next_s(), left_s))
        else:
            break
    served = _chosen(name, remote, client.address, models)
    seconds = round(trio.current_time() - started_s, 1)
    log.info("stage.loaded", stage=name, model=served.name, engine=client.address, seconds=seconds)
    return served


def _chosen(name: str, remote: RemoteDeploy, address: str, models: list[ServedModel]) -> ServedModel:
    wanted = remote.model
    found = [model for model in models if wanted is None or model.name == wanted]
    if len(found) == 1 or (found and wanted is not None):
        return found[0]
    names = ", ".join(model.name for model in models[:NAMES_SHOWN_MAX]) or "none"
    names += ", ..." if len(models) > NAMES_SHOWN_MAX else ""
    problem = f"has no model {wanted!r}" if wanted is not None else "does not have exactly one model"
    raise StageLoadError(
        f"stage {name!r}: the remote engine at {address} {problem}; remote.model must be one of: {names}"
    )
