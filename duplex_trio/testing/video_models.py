"""To try a model of video by itself: its stages asked in place, its chunks taken one by one."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from duplex_trio.pipelines.pipeline import Pipeline
from duplex_trio.plugin.video.plugin import Frame, PromptState, StageCaller, VideoModelSession
from duplex_trio.stages.port import StageRequest
from duplex_trio.stages.units import TextEmbedding, TextToEmbed
from duplex_trio.stages.worker import SerialWorker

Vector = npt.NDArray[np.float32]


class WorkerStages(StageCaller):
    """The stages of a pipeline without an engine: each call is processed by the worker in the calling thread.

    Args:
        pipeline: all of its workers are `SerialWorker`s; they are loaded here.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._workers: dict[int, SerialWorker] = {}
        for stage in pipeline.stages:
            worker = pipeline.build_worker(stage.stage_id)
            assert isinstance(worker, SerialWorker)
            worker.load()
            self._workers[stage.stage_id] = worker

    def call(self, stage_id: int, unit: Any) -> Sequence[Any]:
        """Process one unit as a request of its own."""
        worker, request = self._workers[stage_id], StageRequest(request_id="video")
        return list(worker.process(request, worker.new_state(request), unit))


class WordStages(StageCaller):
    """A sentence encoder without weights: every text has a vector of its own, which tells nothing of its meaning.

    Args:
        vectors: those of some texts, if they are to be certain ones.

    Attributes:
        asked: all texts that it was given.
    """

    def __init__(self, vectors: Mapping[str, Vector] | None = None) -> None:
        self.asked: list[str] = []
        self._vectors = dict(vectors or {})

    def call(self, stage_id: int, unit: Any) -> Sequence[Any]:
        """Encode one text."""
        assert isinstance(unit, TextToEmbed)
        self.asked.append(unit.text)
        vector = self._vectors.get(unit.text)
        return [TextEmbedding(vector=vector_of(unit.text) if vector is None else vector)]


def vector_of(text: str, size: int = 384) -> Vector:
    """A random vector of unit length, the same for the same text."""
    drawn = np.random.default_rng(zlib.crc32(text.encode())).standard_normal(size)
    vector: Vector = (drawn / np.linalg.norm(drawn)).astype(np.float32)
    return vector


def rendered(
    session: VideoModelSession,
    state: PromptState,
    *,
    index: int = 0,
    changed: bool = False,
    hard: bool = False,
    n_frames: int = 9,
    cancelled: Callable[[], bool] = lambda: False,
) -> list[Frame]:
    """One chunk, copied: a model may use its buffer again."""
    frames = session.render_chunk(
        index, state, changed=changed, hard=hard, n_frames=n_frames, cancelled=cancelled
    )
    return [frame.copy() for frame in frames]
