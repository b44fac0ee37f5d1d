"""One video as its tasks share it: the account of its prompts, how far it is played, and how it ends.

Everything here runs on the Trio thread. The account alone is also read and changed in the generator's thread, because
states are mixed there: whoever touches it holds `lock` meanwhile.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Literal

import trio
from attrs import frozen

from duplex_trio.deploy.video import VideoSessionDeploy
from duplex_trio.plugin.video.capabilities import VideoCapabilities
from duplex_trio.plugin.video.plugin import VideoModelSession
from duplex_trio.plugin.video.request import VideoRequest
from duplex_trio.protocol.video import (
    InteractionQueued,
    SessionDone,
    SessionInteraction,
    SessionPong,
    VideoChunkMetadata,
    VideoErrorEvent,
    VideoRefused,
)
from duplex_trio.video.egress import Egress, Goodbye, Item
from duplex_trio.video.encoders.encoder import VideoEncoder
from duplex_trio.video.host import VideoFigures
from duplex_trio.video.rendering import MadeChunk
from duplex_trio.video.state.floods import ErrorBudget, StallClock
from duplex_trio.video.state.pacing import PlaybackPace
from duplex_trio.video.state.pairs import PairBook
from duplex_trio.video.state.request import frames_max
from duplex_trio.video.state.steering import TOO_LATE, VideoSteering
from duplex_trio.video.state.timeline import ResolvedChunk
from duplex_trio.video.tally import VideoTally
from duplex_trio.video.transport import VideoTransport

Ending = Literal["done", "stopped", "server_shutdown"]
"""Why a video that has not failed generates no more: its last chunk was made, the client or the server wanted so."""

SHORTEST_WAIT_S = 0.001
"""A shorter wait may end before the clock has moved."""
NORMAL_CLOSE, GOING_AWAY, POLICY_VIOLATION, INTERNAL_ERROR, TRY_AGAIN_LATER = 1000, 1001, 1008, 1011, 1013
"""Close codes of WebSockets, as video.md 3.3 gives them to ends."""
FORGIVEN = frozenset({"input_backpressure", "resource_exhausted", "interaction_failed"})
"""Refusals that are no fault of the client's: they may be many."""


@frozen(kw_only=True)
class Opened:
    """What a video has once its model has begun it.

    Attributes:
        request: what was asked for.
        lead_s: how far generation may run ahead of what is played; None as far as it likes.
        capabilities: the model's.
        model: the model's part.
        state: of the prompt that it begins with.
        encoder: makes the payloads.
    """

    request: VideoRequest
    lead_s: float | None
    capabilities: VideoCapabilities
    model: VideoModelSession
    state: Any
    encoder: VideoEncoder


class VideoSession:
    """One video that has been opened.

    Attributes:
        opened: what it was opened with.
        frames_max: frames in all.
        lock: held by whoever touches `steering`.
        steering: the account of prompts.
        egress: what leaves.
        tally: what is counted.
        cut: set when the chunk that is being rendered is wanted no more; polled by the generator's thread.
        preparing: prompts that wait to be encoded, as id and event.
        stall: how long nothing has moved.
        outcome: how it ended, for its figures; None as long as it has not.
        ending: why it generates no more, if it has not failed; None as long as it does.
    """

    def __init__(self, opened: Opened, transport: VideoTransport, limits: VideoSessionDeploy) -> None:
        request, capabilities = opened.request, opened.capabilities
        self.opened = opened
        self.request_id = request.request_id
        self.frames_max = frames_max(request, limits)
        self.lock = trio.Lock()
        self.steering: VideoSteering[Any] = VideoSteering(
            lambda source, target, alpha: opened.model.blend(source, target, float(alpha)),
            default_transition_chunks=capabilities.default_transition_chunks,
            supports_updates=capabilities.supports_prompt_updates,
            limits=limits,
        )
        self.steering.begin(opened.state)
        self.tally = VideoTally()
        self.egress = Egress(
            transport, send_timeout_s=limits.send_timeout_s, describe=self._describe, sent=self._sent
        )
        self.cut = threading.Event()
        self.outcome: str | None = None
        self.ending: Ending | None = None
        self.preparing_in, self.preparing = trio.open_memory_channel[tuple[str, Mapping[str, Any]]](
            limits.preparing_max
        )
        self.stall = StallClock(limits.stall_timeout_s, trio.current_time())
        self._book = PairBook(self.request_id)
        self._pace = PlaybackPace(fps=request.fps, lead_s=opened.lead_s)
        self._errors = ErrorBudget()
        self._in_making = False

    # ------------------------------------------------------------------ what clients ask

    async def interact(self, interaction: SessionInteraction) -> None:
        """Admit an interaction and have its prompt encoded.

        Raises:
            VideoRefused: it is not admitted.
        """
        arrived_s = trio.current_time()
        async with self.lock:
            admission = self.steering.admit(interaction, now_s=arrived_s, new_id=lambda: str(uuid.uuid4()))
            # Before anybody else can touch the account: the answer precedes all that names the id.
            self.egress.say(InteractionQueued(request_id=self.request_id, event_id=admission.event_id))
            if admission.prepare:
                self.tally.arrived(admission.event_id, arrived_s)
                self.preparing_in.send_nowait((admission.event_id, interaction.event))
        if admission.failure is not None:
            self.egress.say(admission.failure.as_event(self.request_id))

    def ping(self) -> None:
        """The client is there, though nothing may move."""
        self.stall.touch(trio.current_time())
        self.egress.say(SessionPong())

    def playback(self, position_s: float) -> None:
        """The client has played so far."""
        self._pace.playback(position_s, trio.current_time())
        self.egress.wake()

    def refused(self, refusal: VideoRefused) -> None:
        """Answer a message that is not taken; too many of them end the video."""
        self.egress.say(refusal.as_event(self.request_id))
        if refusal.code not in FORGIVEN and self._errors.spend(trio.current_time()):
            self.fail("too_many_errors", "There were too many errors.", POLICY_VIOLATION)

    # ------------------------------------------------------------------ what becomes of interactions

    def prepared(self, event_id: str, target: Any) -> None:
        """The prompt of an interaction is encoded. The caller holds the lock."""
        superseded = self.steering.pending
        if self.steering.prepared(event_id, target) and superseded is not None:
            self.tally.gone(superseded)

    def interactions_failed(self, event_ids: Iterable[str], message: str = TOO_LATE) -> None:
        """Tell of interactions that had been admitted and will not take effect."""
        for event_id in event_ids:
            self.tally.gone(event_id)
            refusal = VideoRefused("interaction_failed", message, event_id=event_id)
            self.egress.say(refusal.as_event(self.request_id))

    # ------------------------------------------------------------------ chunks

    async def wait_to_begin(self, first_frame: int) -> None:
        """Wait until a chunk may be made: there is room for it, and playback has come near enough."""
        await self.egress.pair_room(unless=lambda: self.over)
        while not self.over:
            wait_s = self._pace.wait_s(first_frame, trio.current_time())
            if wait_s <= 0:
                return
            with trio.move_on_after(max(wait_s, SHORTEST_WAIT_S)):
                await self.egress.change()

    @property
    def over(self) -> bool:
        """Whether no chunk is to be made any more."""
        return self.ending is not None or self.egress.ending

    async def next_chunk(
        self,
        *,
        last: bool,
        resolve: Callable[[Callable[[], ResolvedChunk[Any]]], Awaitable[ResolvedChunk[Any]]],
    ) -> ResolvedChunk[Any] | None:
        """Resolve what the next chunk is rendered from; None if none is to be made any more.

        Args:
            last: no chunk follows it.
            resolve: calls what it is given, in a thread; used where states are mixed, which is the model's business.
        """
        async with self.lock:
            if self.over:
                return None
            if self.steering.blends:
                chunk = await resolve(partial(self.steering.next_chunk, last=last))
            else:  # most chunks: a thread for nothing is a twentieth of a small one's time
                chunk = self.steering.next_chunk(last=last)
            self._in_making = True
            self._book.resolved(chunk)
            if last:
                self.interactions_failed(self.steering.close_boundaries())
        return chunk

    def generated(self, made: MadeChunk, frames: int) -> None:
        """A chunk has been rendered and encoded; with it there are so many frames."""
        now_s = trio.current_time()
        self._pace.generated(frames)
        self._in_making = False
        self.tally.chunks += 1
        self.tally.render_s += made.render_s
        self.tally.encode_s += made.encode_s
        self.stall.touch(now_s)
        if not made.payloads:
            # The encoder holds it back until it gets the next one, which would wait for the first to be sent.
            self._pace.first_sent(now_s)

    def _describe(self, item: Item) -> VideoChunkMetadata:
        return self._book.trailer(item) if isinstance(item, bytes) else self._book.media(item)

    def _sent(self, item: Item, metadata: VideoChunkMetadata) -> None:
        now_s = trio.current_time()
        self._pace.first_sent(now_s)
        self.tally.sent(metadata, now_s)
        self.stall.touch(now_s)

    # ------------------------------------------------------------------ ends

    async def stop(self, ending: Ending) -> None:
        """Make no more chunks. What is being rendered is dropped, what has been encoded is sent."""
        if self.over:
            return
        self.ending = ending
        self.cut.set()
        self.egress.wake()
        async with self.lock:
            self.interactions_failed(self.steering.close_boundaries())

    async def flushed(self) -> None:
        """All has been made, the trailer too: end when it is sent."""
        async with self.lock:
            self._settle()
        self.egress.finish(self._farewell)

    def fail(self, code: str, message: str, close_code: int) -> None:
        """End the video with a fault; the first one counts."""
        if self.outcome is None:
            self.outcome = code
            self.cut.set()
            fault = VideoErrorEvent(code=code, message=message, request_id=self.request_id)
            self.egress.break_off(Goodbye(close_code, code, [fault]))

    def so_far(self) -> VideoFigures:
        """What it is while it goes on."""
        return self.tally.figures("", {})

    def figures(self) -> VideoFigures:
        """What it was. Called when all of its tasks have ended."""
        self._settle()
        return self.tally.figures(self.outcome or "aborted", self.steering.counts())

    def _settle(self) -> None:
        if self._in_making:
            self._in_making = False
            self.steering.discard_chunk()
        self.steering.end(stopped=self.ending is not None)

    def _farewell(self) -> Goodbye:
        ending = self.ending or "done"
        done = SessionDone(
            request_id=self.request_id,
            chunks=self.tally.pairs,
            stopped=ending == "stopped",
            frames=self.tally.frames,
            interactions=self.steering.outcomes(),
        )
        if ending != "server_shutdown":
            return Goodbye(NORMAL_CLOSE, ending, [done])
        shutdown = VideoErrorEvent(
            code=ending, message="The server is shutting down.", request_id=self.request_id
        )
        return Goodbye(GOING_AWAY, ending, [shutdown, done])
