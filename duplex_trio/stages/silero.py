"""Voice-activity scores by the Silero network, through onnxruntime.

Owns the network and each speaker's recurrent state; what the scores mean for turns is decided by the
endpointing of the session. The state travels in and out of each call, so one call scores a frame of each of
many speakers: together 32 of them cost a third of what they cost one by one. A speaker starts from silence.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import define, field

from duplex_trio.stages.units import VAD_FRAME_SAMPLES, VAD_RATE_HZ
from duplex_trio.stages.vad import Frames, Scores, VadWorker

CONTEXT_SAMPLES = 64
"""Samples of the previous frame that precede the new ones in the network's input."""
STATE_SIZE = 128
_RATE = np.array(VAD_RATE_HZ, np.int64)


def _silence() -> npt.NDArray[np.float32]:
    return np.zeros(CONTEXT_SAMPLES, np.float32)


def _unmoved() -> npt.NDArray[np.float32]:
    return np.zeros((2, STATE_SIZE), np.float32)


@define(eq=False)
class _Recurrence:
    """What one speaker carries from frame to frame: the network's state and the end of the last frame."""

    state: npt.NDArray[np.float32] = field(factory=_unmoved)
    context: npt.NDArray[np.float32] = field(factory=_silence)


class SileroWorker(VadWorker):
    """Silero as a voice-activity runtime.

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
        self.score([self.new_speaker()], np.zeros((1, VAD_FRAME_SAMPLES), np.float32))

    def close(self) -> None:
        """Release the network."""
        self._session = None

    def new_speaker(self) -> _Recurrence:
        """A recurrence that has heard nothing."""
        return _Recurrence()

    def score(self, speakers: Sequence[_Recurrence], frames: Frames) -> Scores:
        """Score one frame of each speaker in one call."""
        windows = np.empty((len(speakers), CONTEXT_SAMPLES + VAD_FRAME_SAMPLES), np.float32)
        states = np.empty((2, len(speakers), STATE_SIZE), np.float32)
        windows[:, CONTEXT_SAMPLES:] = _sound(frames)
        for index, one in enumerate(speakers):
            windows[index, :CONTEXT_SAMPLES] = one.context
            states[:, index] = one.state
        inputs = {"input": windows, "state": states, "sr": _RATE}
        probabilities, states = self._session.run(None, inputs)
        for index, one in enumerate(speakers):
            one.context[:] = windows[index, -CONTEXT_SAMPLES:]
            one.state[:] = states[:, index]
        scores: Scores = probabilities[:, 0]
        return scores


def _sound(frames: Frames) -> Frames:
    """The frames within full scale.

    A sample that is not a number would stay in the recurrent state and deafen its speaker for good.
    """
    # A NaN anywhere makes either extreme a NaN, which compares false.
    if frames.min() >= -1.0 and frames.max() <= 1.0:
        return frames
    clipped: Frames = np.nan_to_num(frames, nan=0.0, posinf=1.0, neginf=-1.0).clip(-1.0, 1.0)
    return clipped
