"""The task that makes a video: chunk by chunk, then what the encoder has kept, then the trailer.

What is blocking goes into a thread. The task is what waits: for room, for playback, for the account of prompts.
"""

from __future__ import annotations

from functools import partial
from itertools import count

import structlog
import trio

from duplex_trio.video.rendering import make_chunk
from duplex_trio.video.session import INTERNAL_ERROR, VideoSession
from duplex_trio.video.threads import in_thread

log = structlog.get_logger("duplex_trio.video")


class Generator:
    """Makes one video.

    Args:
        session: the video.
        threads: where the model and the encoder work.
    """

    def __init__(self, session: VideoSession, threads: trio.CapacityLimiter) -> None:
        self._session = session
        self._call = partial(in_thread, threads)

    async def run(self) -> None:
        """Make it, until its last chunk or until it is to end. A model that breaks ends it."""
        session = self._session
        try:
            for index in count():
                if not await self._make(index):
                    break
            await self._flush()
        except Exception as error:
            log.exception("video.generation_failed", request_id=session.request_id, exc_info=error)
            session.fail("generation_failed", "The video could not be generated.", INTERNAL_ERROR)

    async def _make(self, index: int) -> bool:
        """Make one chunk and hand it over; whether another one follows."""
        session, opened = self._session, self._session.opened
        first_frame = index * opened.capabilities.chunk_frames
        n_frames = min(opened.capabilities.chunk_frames, session.frames_max - first_frame)
        last = first_frame + n_frames >= session.frames_max
        await session.wait_to_begin(first_frame)
        chunk = await session.next_chunk(last=last, resolve=self._call)
        if chunk is None:
            return False
        made = await self._call(
            partial(
                make_chunk,
                opened.model,
                opened.encoder,
                opened.request,
                chunk,
                n_frames=n_frames,
                cut=session.cut,
            )
        )
        if made is None:
            return False
        session.generated(made, first_frame + n_frames)
        for payload in made.payloads:
            await session.egress.put(payload)
        return not last

    async def _flush(self) -> None:
        """Send what the encoder has kept, and the trailer."""
        session = self._session
        if session.egress.ending:
            return
        payloads, trailer = await self._call(session.opened.encoder.close)
        for payload in payloads:
            await session.egress.put(payload)
        if trailer:
            await session.egress.put(trailer)
        await session.flushed()
