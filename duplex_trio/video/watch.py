"""The task that ends a video which does not move any more, and one that takes too long."""

from __future__ import annotations

import math

import trio

from duplex_trio.video.session import INTERNAL_ERROR, SHORTEST_WAIT_S, VideoSession


async def watch_clocks(session: VideoSession, longest_s: float) -> None:
    """Fail a video that stalls; end one that has gone on for as long as it may.

    Args:
        session: the video.
        longest_s: how long it may go on from now.
    """
    deadline_s = trio.current_time() + longest_s
    while not session.egress.ending:
        now_s = trio.current_time()
        if session.stall.stalled(now_s):
            session.fail("stall_timeout", "Nothing has moved for too long.", INTERNAL_ERROR)
            return
        if now_s >= deadline_s:
            await session.stop("done")
            deadline_s = math.inf
        left_s = min(session.stall.left_s(now_s), deadline_s - now_s)
        await trio.sleep(max(left_s, SHORTEST_WAIT_S))
