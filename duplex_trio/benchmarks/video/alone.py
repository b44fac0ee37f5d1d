"""A model of video without a server: the reference for what a server adds."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from duplex_trio.benchmarks.video.report import Pace
from duplex_trio.deploy.config import DeployConfig
from duplex_trio.pipelines.registry import load_pipeline
from duplex_trio.plugin.video.plugin import Frame, StageCaller, StageCallError, VideoModelPlugin
from duplex_trio.plugin.video.request import VideoRequest
from duplex_trio.stages.worker import StageWorker
from duplex_trio.testing.workers import run_units
from duplex_trio.video.encoders.making import make_encoder

PROMPT = "a snowy street illuminated by warm lanterns"
"""What every video that is measured for its speed begins with, and stays at."""
SEED = 7
PAYLOAD_BYTES_MAX = 1024 * 1024


class OwnStages(StageCaller):
    """The stages of a model in the thread of whoever calls them, one call at a time."""

    def __init__(self, workers: Sequence[StageWorker]) -> None:
        self._workers = workers
        self._turn = threading.Lock()

    def call(self, stage_id: int, unit: Any) -> Sequence[Any]:
        """Let the stage's worker do one unit."""
        with self._turn:
            context = run_units(self._workers[stage_id], unit)
        failure = context.failure("test")
        if failure is not None:
            raise StageCallError(failure.code, failure.message)
        return context.values("test")


class ModelAlone:
    """A model of video, loaded into this process. Blocking; `watch` may run in several threads at once.

    Raises:
        ModelReferenceError: a model of the deployment is not there.
        ValueError: the deployment asks for what the model cannot do.
    """

    def __init__(self, deploy: DeployConfig) -> None:
        pipeline = load_pipeline(deploy)
        self.name = pipeline.model_name()
        workers = [pipeline.build_worker(spec.stage_id) for spec in pipeline.stages]
        for worker in workers:
            worker.load()
        self._workers = workers
        self._stages = OwnStages(workers)
        self._plugin: VideoModelPlugin = pipeline.build_video_plugin()
        self._plugin.load()
        self.capabilities = self._plugin.capabilities

    def watch(self, side: int, chunks: int, *, encoded: bool) -> Pace:
        """Make a video as fast as can be and drop it.

        Args:
            side: pixels of its sides.
            chunks: how many.
            encoded: whether it is made into payloads too.
        """
        fps = self.capabilities.native_fps
        n_frames = self.capabilities.chunk_frames
        request = VideoRequest(request_id="bench", prompt=PROMPT, width=side, height=side, fps=fps, seed=SEED)
        session = self._plugin.open(request, self._stages)
        encoder = make_encoder("m4s", width=side, height=side, fps=fps, payload_bytes_max=PAYLOAD_BYTES_MAX)
        state = session.encode_interaction({"prompt": PROMPT})
        made_s = []
        for index in range(chunks):
            frames: Iterable[Frame] = session.render_chunk(
                index, state, changed=index == 0, hard=index == 0, n_frames=n_frames, cancelled=_wanted
            )
            if encoded:
                encoder.encode(frames)
            else:
                for _ in frames:
                    pass
            made_s.append(time.perf_counter())
        session.close()
        encoder.discard()
        return Pace(made_s, n_frames)

    def close(self) -> None:
        """Let the model go."""
        self._plugin.close()
        for worker in self._workers:
            worker.close()


def _wanted() -> bool:
    return False
