"""A clip while it is made: payloads to the file, prompts to the server, and what there is to show of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import trio
from attrs import define, field, frozen

from duplex_trio.cli.video.file import ClipFile
from duplex_trio.cli.video.result import ClipResult, turn_results
from duplex_trio.cli.video.steering import Steering, Turn
from duplex_trio.cli.video.view import Progressed
from duplex_trio.clients.video import (
    AnswerTimeoutError,
    InteractionBackpressureError,
    InteractionRefusedError,
    RealtimeVideoClient,
    VideoChunk,
    VideoClientError,
)

RATE_WINDOW_S = 2.0
"""Over how long the shown rate of frames is taken."""
READY_TIMEOUT_S = 30.0
"""How long generation is held for a prompt: longer than a text encoder takes."""
AGAIN_S = 0.1
"""After how long a prompt is sent again that a server could not take so fast (video.md 3.3: 20 a second)."""
UNKNOWN_KEY = "duplex_trio_is_ready"
"""Of a prompt that no model takes."""


@frozen(kw_only=True)
class ClipOptions:
    """What clip is wanted.

    Attributes:
        prompt: what it begins with.
        turns: what it is to show later.
        transition_chunks: how long each change takes; None as the model has it.
        seconds: of playback.
        size: width and height in pixels.
        fps: frames for a second of playback; None as the model has it.
        seed: None for any.
        format: `m4s` or `webm`.
        model: what to serve, or what to ask the server for.
        url: server; None starts one.
        api_key: for it.
    """

    prompt: str
    turns: tuple[Turn, ...] = ()
    transition_chunks: int | None = None
    seconds: float = 8.0
    size: tuple[int, int] = (512, 512)
    fps: float | None = None
    seed: int | None = None
    format: str = "m4s"
    model: str | None = None
    url: str | None = None
    api_key: str | None = None


@define(eq=False)
class Recording:
    """One clip.

    Args:
        client: the video, begun.
        file: where it goes.
        options: what is wanted.
        tell: is shown how far it is, with every payload.
    """

    client: RealtimeVideoClient
    file: ClipFile
    options: ClipOptions
    tell: Callable[[Progressed], None]
    stopping: bool = field(default=False, init=False)
    _begin_s: float = field(factory=trio.current_time, init=False)
    _end_s: float | None = field(default=None, init=False)
    _frames: int = field(default=0, init=False)
    _chunk: int = field(default=-1, init=False)
    _arrivals: deque[tuple[float, int]] = field(factory=deque, init=False)
    _come: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)
    _refused: dict[str, str] = field(factory=dict, init=False)
    _steering: Steering = field(init=False)

    @_steering.default
    def _plan(self) -> Steering:
        return Steering(self.options.turns, self.client.started.chunk_frames, self.fps)

    @property
    def fps(self) -> float:
        """Frames for a second of playback."""
        return float(self.client.started.config["fps"])

    async def write(self) -> None:
        """Take payloads to the file until there are none any more."""
        async for chunk in self.client:
            self._note(chunk)
            await self.file.append(chunk.payload)
            self.tell(self.progress())
        self._end_s = trio.current_time()

    async def steer(self) -> None:
        """Send each change of the prompt when all that comes before it has come, and let generation go on then."""
        for _ in self.options.turns:
            while (turn := self._steering.due(self._frames)) is None:
                await self._come.park()
            await self._send(turn)
            self._steering.ready()
            self._come.unpark_all()

    async def play(self) -> None:
        """Report playback as the steering wants it, which holds generation. Nothing is held where nothing follows."""
        while self.options.turns:
            await self.client.playback(self._steering.played_s(self._frames))
            with trio.move_on_after(self._steering.told_again_s):
                await self._come.park()

    async def stop(self) -> None:
        """End the clip; what was made before is still written."""
        self.stopping = True
        await self.client.stop()

    def progress(self) -> Progressed:
        """How far it is."""
        now_s = trio.current_time()
        while self._arrivals and self._arrivals[0][0] < now_s - RATE_WINDOW_S:
            self._arrivals.popleft()
        window_s = min(RATE_WINDOW_S, now_s - self._begin_s)
        shown, towards, step, steps, since = self.options.prompt, None, 0, 0, 0
        for turn in self.options.turns:
            interaction = self.client.interactions.get(turn.event_id)
            if interaction is None or interaction.started_chunk is None:
                continue
            if interaction.state == "started":
                towards, step = turn.prompt, self._chunk - interaction.started_chunk + 1
                since = interaction.started_frame or 0
                steps = self.options.transition_chunks or self.client.started.default_transition_chunks
            else:
                shown, since = turn.prompt, interaction.completed_frame or interaction.started_frame or 0
        return Progressed(
            seconds=self._frames / self.fps,
            total_s=self.options.seconds,
            rate=sum(frames for _, frames in self._arrivals) / window_s if window_s > 0 else 0.0,
            size_bytes=self.file.size_bytes,
            prompt=shown,
            towards=towards,
            step=step,
            steps=steps,
            stopping=self.stopping,
            since_s=since / self.fps,
        )

    def result(self) -> ClipResult:
        """What became of it, once `write` is through."""
        started = self.client.started
        end_s = trio.current_time() if self._end_s is None else self._end_s
        return ClipResult(
            file=self.file.path,
            mime_type=started.mime_type,
            model=str(started.config.get("model") or "the model"),
            prompt=self.options.prompt,
            width=int(started.config["width"]),
            height=int(started.config["height"]),
            fps=self.fps,
            seed=started.config.get("seed"),
            frames=self._frames,
            size_bytes=self.file.size_bytes,
            generated_s=end_s - self._begin_s,
            interrupted=self.stopping,
            turns=turn_results(self.options.turns, self.client.interactions, self._refused, self.fps),
        )

    async def _send(self, turn: Turn) -> None:
        try:
            await self._interact(turn, turn.event_id)
        except (InteractionRefusedError, AnswerTimeoutError) as error:
            self._refused[turn.event_id] = str(error)
        except VideoClientError:
            # It ended meanwhile; whoever writes is told how.
            return
        else:
            await self._until_ready(turn)

    async def _until_ready(self, turn: Turn) -> None:
        """Wait until what is queued is ready to begin.

        A server does not tell. It prepares prompts one after the other, though, and refuses one with an unknown key
        when it prepares it (video.md 3.2, 3.3): such a one behind the one that counts is refused when that is ready.
        """
        name = f"{turn.event_id}-is-ready"
        with suppress(VideoClientError, trio.TooSlowError):
            await self._interact(turn, name, **{UNKNOWN_KEY: True})
            await self.client.outcome(name, until="started", timeout_s=READY_TIMEOUT_S)

    async def _interact(self, turn: Turn, event_id: str, **event: Any) -> None:
        transition = self.options.transition_chunks
        while True:
            try:
                await self.client.interact(
                    turn.prompt, transition_chunks=transition, event_id=event_id, **event
                )
            except InteractionBackpressureError as error:
                if error.code != "input_backpressure":
                    raise
                await trio.sleep(AGAIN_S)
            else:
                return

    def _note(self, chunk: VideoChunk) -> None:
        self._frames += chunk.num_frames
        if chunk.generation_index is not None:
            self._chunk = chunk.generation_index
        self._arrivals.append((trio.current_time(), chunk.num_frames))
        self._come.unpark_all()
