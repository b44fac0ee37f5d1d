"""One video of the scene renderer.

A state is what is shown of each thing (`reading.State`), so the way from one state to another is a straight line
between amounts: what only one of them has grows or fades, what both have stays. Within a chunk the picture goes on from
the state of the last chunk to its own, frame by frame, so that no border between chunks is seen; after a hard update it
is the new state at once. A frame is decided by the seed, its number, and the states before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from duplex_trio.models.scene.geometry import Geometry
from duplex_trio.models.scene.painter import Scene, picture
from duplex_trio.models.scene.reading import State, state_of
from duplex_trio.models.scene.readout import Readout
from duplex_trio.models.scene.scaling import Scaling
from duplex_trio.models.scene.stack import Canvas, as_pixels
from duplex_trio.models.text_encoder.pipeline import embedding_of
from duplex_trio.plugin.video.plugin import Frame, StageCaller, VideoModelSession
from duplex_trio.plugin.video.request import OmniInteractionEvent, VideoRequest, prompt_of


class SceneSession(VideoModelSession):
    """One video.

    Args:
        request: what was asked for.
        stages: the pipeline's.
        readout: fitted to their encoder.
    """

    def __init__(self, request: VideoRequest, stages: StageCaller, readout: Readout) -> None:
        self._stages = stages
        self._readout = readout
        self._fps = request.fps
        self._scaling = Scaling.of(request.width, request.height)
        self._canvas = Canvas.of(self._scaling.inner_width, self._scaling.inner_height)
        self._geometry = Geometry(self._canvas, request.seed)
        self._pictures = [picture(self._canvas) for _ in range(3)]
        self._scene: Scene | None = None
        self._frames = 0

    @property
    def parts_drawn(self) -> int:
        """How many parts the picture has by now: what a frame costs, whatever the machine is busy with."""
        return 0 if self._scene is None else self._scene.drawn

    def encode_interaction(self, event: OmniInteractionEvent) -> State:
        """What a prompt wants to be shown."""
        return state_of(self._readout.read(embedding_of(self._stages, prompt_of(event, "scene"))))

    def render_chunk(
        self,
        index: int,
        state: State,
        *,
        changed: bool,
        hard: bool,
        n_frames: int,
        cancelled: Callable[[], bool],
    ) -> Iterator[Frame]:
        """Paint a chunk."""
        before = self._scene
        if before is None or changed:
            self._scene = Scene(self._geometry, state)
        scene = self._scene
        assert scene is not None
        first = self._frames
        self._frames += n_frames
        morphs = before is not None and changed and not hard
        for number in range(n_frames):
            if cancelled():
                return
            share = (number + 1) / n_frames if morphs else 1.0
            yield self._frame(scene, before if morphs else None, share, first + number)

    def _frame(self, scene: Scene, before: Scene | None, share: float, frame: int) -> Frame:
        out, other, spare = self._pictures
        seconds = frame / self._fps
        scene.draw(out, spare, frame, seconds)
        if before is not None and share < 1.0:
            before.draw(other, spare, frame, seconds)
            out *= np.float32(share)
            other *= np.float32(1.0 - share)
            out += other
        pixels: npt.NDArray[np.uint8] = np.empty(out.shape, np.uint8)
        as_pixels(out, pixels)
        return self._scaling.grown(pixels)
