"""The scene renderer as a plugin: the readout of prompts, shared by all videos."""

from __future__ import annotations

import importlib
import threading

import numpy as np

from duplex_trio.models.scene.captions import captions
from duplex_trio.models.scene.readout import PROBE, Readout, fit_readout, load_readout
from duplex_trio.models.scene.session import SceneSession
from duplex_trio.models.text_encoder.pipeline import embedding_of
from duplex_trio.plugin.video.capabilities import VideoCapabilities
from duplex_trio.plugin.video.plugin import StageCaller, VideoModelPlugin, VideoModelSession
from duplex_trio.plugin.video.request import VideoRequest

CAPTIONS_OTHERWISE = 900
"""Captions that the readout of another encoder is fitted to: some seconds, once, when the model is warmed up."""


class ScenePlugin(VideoModelPlugin):
    """The scene renderer."""

    def __init__(self) -> None:
        self._readout: Readout | None = None
        self._suits = False
        self._lock = threading.Lock()

    @property
    def capabilities(self) -> VideoCapabilities:
        """24 frames a second in chunks of 9; no field of the start beyond those that every model takes."""
        return VideoCapabilities(native_fps=24.0, chunk_frames=9)

    def load(self) -> None:
        """Read the packaged readout.

        Raises:
            ModuleNotFoundError: Pillow is missing, by which shapes are drawn.
            ValueError: the readout is not that of the vocabulary.
        """
        importlib.import_module("PIL.ImageDraw")
        self._readout = load_readout()

    def open(self, request: VideoRequest, stages: StageCaller) -> VideoModelSession:
        """Begin a video. The first one looks at the encoder, and learns what another than the packaged one says.

        Raises:
            StageCallError: the encoder failed.
        """
        return SceneSession(request, stages, self._fitting(stages))

    def close(self) -> None:
        """Release the readout."""
        self._readout = None

    def _fitting(self, stages: StageCaller) -> Readout:
        with self._lock:
            assert self._readout is not None, "open() before load()"
            if not self._suits:
                probe = embedding_of(stages, PROBE)
                if not self._readout.suits(probe):
                    texts, labels = captions(CAPTIONS_OTHERWISE)
                    vectors = np.stack([embedding_of(stages, text) for text in texts])
                    self._readout = fit_readout(vectors, labels, probe)
                self._suits = True
            return self._readout
