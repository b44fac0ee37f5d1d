"""The task tree of one video, from its accepted upgrade to its close.

    run_video[id]          reads the start, takes a slot, lets the model begin, releases all at the end
    `- tasks               cancelled when the writer has said goodbye, or when the client has gone
       |- reader           one message after the other; the first to know that the client has gone
       |- patience         until the model has begun: refuses the video if that takes too long, or the server ends
       |- writer           answers, then pairs, then the end
       |- maker            all that the model is asked by; ended before the client hears of the end
       |  |- generator     waits for room and playback; the chunk itself in a thread
       |  `- preparer      waits for prompts; each is encoded in a thread
       |- watch            the stall clock and the longest that a video may go on
       `- drain            waits for the server to want an end

Threads are never left behind: a cancelled task waits for its thread, which asks for every frame whether it is still
wanted. All that tasks share is in `session`. A failure in one video ends that video: `run_video` tells the client and
the log, and returns.
"""

from __future__ import annotations

import secrets
import uuid

import attrs
import structlog
import trio

from duplex_trio.plugin.video.request import VideoRequest
from duplex_trio.protocol.refusal import RequestRefused
from duplex_trio.protocol.video import VideoErrorEvent, VideoRefused, encode_event
from duplex_trio.video.commands import obey
from duplex_trio.video.egress import SendTimeoutError
from duplex_trio.video.encoders.making import make_encoder
from duplex_trio.video.generator import Generator
from duplex_trio.video.host import VideoFigures, VideoHost, VideoSlot
from duplex_trio.video.opening import EncoderFactory, Opening, close_code, read_start
from duplex_trio.video.preparing import prepare_prompts
from duplex_trio.video.session import INTERNAL_ERROR, VideoSession
from duplex_trio.video.state.request import resolve_request
from duplex_trio.video.transport import TransportClosedError, VideoTransport
from duplex_trio.video.watch import watch_clocks

log = structlog.get_logger("duplex_trio.video")

SHOWN = ("width", "height", "fps", "num_frames", "seed")
"""What the log tells of a request."""
GOODBYE_TIMEOUT_S = 5.0
"""How long a client may take for one message when the server ends."""
RELEASE_TIMEOUT_S = 1.0
"""How long the client waits to hear of the end for a model that does not come back from what it does."""
SEED_BITS = 53
"""Of a random seed: one that any client reads exactly."""


async def run_video(
    transport: VideoTransport,
    host: VideoHost,
    *,
    encoders: EncoderFactory = make_encoder,
    log_prompts: bool = False,
) -> VideoFigures:
    """Serve one video on one connection, and close that.

    Args:
        transport: the connection, whose upgrade has been accepted.
        host: the engine's side.
        encoders: makes the encoder of the video.
        log_prompts: write what the client wants to see into the log.

    Returns:
        What it was; a request that was refused has the code of the refusal for an outcome.
    """
    request_id = f"video_stream-{uuid.uuid4().hex}"
    try:
        start = await read_start(transport, host.limits.start_timeout_s)
        request = resolve_request(
            start,
            host.plugin.capabilities,
            host.limits,
            request_id=request_id,
            model_name=host.model_name,
            seed=secrets.randbits(SEED_BITS),
        )
        with host.slot(request_id) as slot:
            opening = Opening(host, slot.stages, start, request, encoders)
            return await _Video(transport, host, slot, opening, request, log_prompts=log_prompts).run()
    except RequestRefused as refusal:
        return await _refuse(transport, refusal, request_id, host.limits.send_timeout_s)
    except TransportClosedError as closed:
        log.info("video.refused", request_id=request_id, code="aborted", close_code=closed.code)
        return VideoFigures(outcome="aborted")


class _Video:
    """One video in its slot: the tasks, and what is left to do when they have ended."""

    def __init__(
        self,
        transport: VideoTransport,
        host: VideoHost,
        slot: VideoSlot,
        opening: Opening,
        request: VideoRequest,
        *,
        log_prompts: bool,
    ) -> None:
        self._transport = transport
        self._host = host
        self._slot = slot
        self._opening = opening
        self._request = request
        self._session: VideoSession | None = None
        self._opened = trio.Event()
        self._decided = False
        self._patience = trio.CancelScope()
        self._outcome = "aborted"
        self._shown = ("prompt",) if log_prompts else ()
        self._log = log.bind(request_id=request.request_id)
        self._tasks = trio.CancelScope()
        self._making = trio.CancelScope()
        self._made = trio.Event()

    async def run(self) -> VideoFigures:
        """Live through the video; see the module's tree. Raises nothing but `trio.Cancelled`."""
        try:
            with self._tasks:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._read, name="reader")
                    nursery.start_soon(self._lose_patience, name="patience")
                    session = await self._open()
                    if session is not None:
                        self._start_tasks(nursery, session)
        except* Exception as group:
            # The supervisor of the video: whatever broke in it stays in it.
            self._outcome = "internal_error"
            self._log.exception("video.crashed", exc_info=group)
        finally:
            with trio.CancelScope(shield=True):
                await self._opening.close()
            figures = self._figures()
            self._slot.ended(figures)
            self._log.info("video.ended", **attrs.asdict(figures, filter=attrs.filters.exclude("switch_s")))
        if figures.outcome == "internal_error":
            await self._close(INTERNAL_ERROR, figures.outcome)
        return figures

    def _start_tasks(self, nursery: trio.Nursery, session: VideoSession) -> None:
        host, request = self._host, self._request
        playback_s = 0.0 if request.num_frames is None else request.num_frames / request.fps
        nursery.start_soon(self._write, session, name="writer")
        nursery.start_soon(self._make, session, name="maker")
        nursery.start_soon(watch_clocks, session, host.limits.max_session_s + playback_s, name="watch")
        nursery.start_soon(self._drain, session, name="drain")

    # ------------------------------------------------------------------ tasks

    async def _open(self) -> VideoSession | None:
        """Let the model begin and tell the client; None if there is nothing to go on with."""
        try:
            opened = await self._opening.open()
        except VideoRefused as refusal:
            await self._release()
            await self._refuse(refusal)
            return None
        if not self._decide():
            return None
        self._session = session = VideoSession(opened, self._transport, self._host.limits)
        self._slot.began(session.so_far)
        request = attrs.asdict(self._request, filter=lambda field, _: field.name in (*SHOWN, *self._shown))
        self._log.info("video.started", **request)
        session.egress.say(self._opening.started(opened))
        self._opened.set()
        self._patience.cancel()
        return session

    async def _lose_patience(self) -> None:
        """Refuse a video that does not begin. The client is told at once, whatever the model's thread does."""
        with self._patience:
            stall_timeout_s = self._host.limits.stall_timeout_s
            refusal = VideoRefused("server_shutdown", "The server is shutting down.")
            with trio.move_on_after(stall_timeout_s) as waiting:
                await self._slot.draining.wait()
            if waiting.cancelled_caught:
                refusal = VideoRefused(
                    "stall_timeout", f"It has not begun within {stall_timeout_s:g} seconds."
                )
            await self._refuse(refusal)

    async def _read(self) -> None:
        """Take what the client says. Before the video has begun, one message is read ahead, to see it leave."""
        try:
            while True:
                text = await self._transport.receive()
                await self._opened.wait()
                assert self._session is not None
                await obey(self._session, text)
        except TransportClosedError as closed:
            self._log.debug("video.client_gone", close_code=closed.code)
            self._tasks.cancel()

    async def _make(self, session: VideoSession) -> None:
        """Have chunks generated and prompts encoded, until there is no need any more."""
        with self._making:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(Generator(session, self._host.threads).run, name="generator")
                nursery.start_soon(prepare_prompts, session, self._host.threads, name="preparer")
        self._made.set()

    async def _write(self, session: VideoSession) -> None:
        """Send until the end, and close."""
        try:
            goodbye = await session.egress.run()
            await self._let_go()
            await session.egress.part(goodbye)
        except trio.BrokenResourceError:
            self._log.debug("video.client_gone")
        except SendTimeoutError:
            session.fail("send_timeout", "The client does not read.", INTERNAL_ERROR)
            await self._close(INTERNAL_ERROR, "send_timeout")
        else:
            session.outcome = session.outcome or goodbye.reason
            await self._close(goodbye.code, goodbye.reason)
        self._tasks.cancel()

    async def _drain(self, session: VideoSession) -> None:
        """End the video when the server wants that; tell its thread when the tasks are cancelled."""
        try:
            await self._slot.draining.wait()
            session.egress.hurry(GOODBYE_TIMEOUT_S)
            await session.stop("server_shutdown")
            await trio.sleep_forever()
        finally:
            session.cut.set()

    # ------------------------------------------------------------------ ends

    async def _let_go(self) -> None:
        """Before the client hears of the end: whoever does may want another video at once."""
        self._making.cancel()
        with trio.move_on_after(RELEASE_TIMEOUT_S):
            await self._made.wait()
            await self._release()

    async def _release(self) -> None:
        """Release what the video has of the model, of which nothing runs any more, and its place."""
        await self._opening.close()
        self._slot.vacate()

    def _decide(self) -> bool:
        """Whether it is still open whether there is a video; it is not any more then."""
        undecided, self._decided = not self._decided, True
        return undecided

    async def _refuse(self, refusal: VideoRefused) -> None:
        """Say that there will be no video, if nobody has yet."""
        if self._decide():
            self._outcome = refusal.code
            await _refuse(
                self._transport, refusal, self._request.request_id, self._host.limits.send_timeout_s
            )
            self._tasks.cancel()

    async def _close(self, code: int, reason: str) -> None:
        with trio.move_on_after(self._host.limits.send_timeout_s):
            try:
                await self._transport.close(code, reason)
            except trio.BrokenResourceError:
                self._log.debug("video.goodbye_unheard")

    def _figures(self) -> VideoFigures:
        if self._session is None:
            return VideoFigures(outcome=self._outcome)
        if self._outcome != "aborted":
            self._session.outcome = self._outcome
        return self._session.figures()


async def _refuse(
    transport: VideoTransport, refusal: RequestRefused, request_id: str | None, timeout_s: float
) -> VideoFigures:
    """Say why there is no video, and close."""
    log.info("video.refused", request_id=request_id, code=refusal.code, param=refusal.param)
    fault = VideoErrorEvent(
        code=refusal.code, message=refusal.message, param=refusal.param, request_id=request_id
    )
    with trio.move_on_after(timeout_s):
        try:
            await transport.send_text(encode_event(fault))
            await transport.close(close_code(refusal), refusal.code)
        except trio.BrokenResourceError:
            log.debug("video.refusal_unheard", request_id=request_id)
    return VideoFigures(outcome=refusal.code)
