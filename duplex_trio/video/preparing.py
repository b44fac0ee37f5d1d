"""The task that has prompts encoded, one after the other, in the order in which they were admitted."""

from __future__ import annotations

from functools import partial
from typing import cast

import structlog
import trio

from duplex_trio.plugin.video.plugin import StageCallError
from duplex_trio.plugin.video.request import OmniInteractionEvent
from duplex_trio.video.session import VideoSession
from duplex_trio.video.threads import in_thread
from duplex_trio.video.words import words_of

log = structlog.get_logger("duplex_trio.video")

GENERAL_MESSAGE = "The prompt could not be encoded."


async def prepare_prompts(session: VideoSession, threads: trio.CapacityLimiter) -> None:
    """Turn what was admitted into states that are ready to come into force; tell of what cannot be.

    A model says what it does not know or cannot do by `NotImplementedError` and `ValueError`, and that is told to the
    client. Whatever else it raises is for the log.
    """
    async for event_id, event in session.preparing:
        if session.over:
            continue
        message: str | None = None
        target = None
        try:
            target = await in_thread(
                threads,
                partial(session.opened.model.encode_interaction, cast("OmniInteractionEvent", dict(event))),
            )
        except (NotImplementedError, ValueError) as error:
            message = words_of(error, GENERAL_MESSAGE)
        except Exception as error:
            log.warning(
                "video.prompt_failed",
                request_id=session.request_id,
                event_id=event_id,
                error=f"{type(error).__name__}: {error}",
                exc_info=None if isinstance(error, StageCallError) else error,
            )
            message = GENERAL_MESSAGE
        async with session.lock:
            if message is None:
                session.prepared(event_id, target)
            elif session.steering.failed(event_id):
                session.interactions_failed([event_id], message)
