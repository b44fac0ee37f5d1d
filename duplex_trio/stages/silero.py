"""Voice-activity scores by the Silero network, through onnxruntime.

Owns the network and each request's recurrent state; what the scores mean for turns is decided by the
endpointing of the session. One thread and one runtime session serve all requests, because the state travels
in and out of each call. A request starts from silence; a new request is the reset.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import define, field

from duplex_trio.stages.port import StageRequest
from duplex_trio.stages.units import Pcm, VadFrames, VadScores
from duplex_trio.stages.worker import SerialWorker

SAMPLE_RATE_HZ = 16000
FRAME_SAMPLES = 512
"""New samples of one frame: 32 ms, the only size the network was trained for at 16 kHz."""
CONTEXT_SAMPLES = 64
"""Samples of the previous frame that precede the new ones in the network's input."""


def _silent_state() -> npt.NDArray[np.float32]:
    return np.zeros((2, 1, 128), np.float32)


def _silent_window() -> npt.NDArray[np.float32]:
    return np.zeros((1, CONTEXT_SAMPLES + FRAME_SAMPLES), np.float32)


@define(eq=False)
class _Recurrence:
    """What one request carries from frame to frame: the network's state and its last input window."""

    state: npt.NDArray[np.float32] = field(factory=_silent_state)
    window: npt.NDArray[np.float32] = field(factory=_silent_window)


class SileroWorker(SerialWorker):
    """Turns `VadFrames` into `VadScores` of the same number of frames.

    Args:
        model_path: a Silero v6 file for 16 kHz (`silero_vad_16k_op15.onnx`, or one with the same inputs
            `input`, `state`, `sr`).
        name: the stage's name in logs and metrics.
    """

    def __init__(self, model_path: Path, *, name: str = "vad") -> None:
        super().__init__()
        self.name = name
        self._model_path = model_path
        self._session: Any = None

    def load(self) -> None:
        """Open the network and run it once.

        Raises:
            FileNotFoundError: there is no such file.
        """
        if not self._model_path.is_file():
            raise FileNotFoundError(f"no voice-activity model at {self._model_path}")
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(
            str(self._model_path), options, providers=["CPUExecutionProvider"]
        )
        self._score(_Recurrence(), np.zeros(FRAME_SAMPLES, np.float32))

    def close(self) -> None:
        """Release the network."""
        self._session = None

    def new_state(self, request: StageRequest) -> _Recurrence:
        """A recurrence that has heard nothing."""
        return _Recurrence()

    def process(self, request: StageRequest, state: _Recurrence, unit: VadFrames) -> Iterator[VadScores]:
        """Score the frames of one unit in order.

        Raises:
            ValueError: the sound is not one-dimensional with a multiple of 512 samples.
        """
        pcm = unit.pcm
        if pcm.ndim != 1 or pcm.size % FRAME_SAMPLES:
            raise ValueError(
                f"voice activity takes whole frames of {FRAME_SAMPLES} samples, got shape {pcm.shape}"
            )
        # A sample that is not a number would stay in the recurrent state and deafen the request for good.
        sound = np.clip(np.nan_to_num(pcm), -1.0, 1.0)
        frames = sound.reshape(-1, FRAME_SAMPLES)
        scores = np.fromiter((self._score(state, frame) for frame in frames), np.float32, len(frames))
        yield VadScores(probabilities=scores)

    def _score(self, recurrence: _Recurrence, frame: Pcm) -> float:
        window = recurrence.window
        window[0, :CONTEXT_SAMPLES] = window[0, -CONTEXT_SAMPLES:]
        window[0, CONTEXT_SAMPLES:] = frame
        rate = np.array(SAMPLE_RATE_HZ, np.int64)
        inputs = {"input": window, "state": recurrence.state, "sr": rate}
        probability, recurrence.state = self._session.run(None, inputs)
        return float(probability[0, 0])
