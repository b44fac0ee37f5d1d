"""The video model plugin: one object per engine, one session per video."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from duplex_trio.plugin.video.capabilities import VideoCapabilities
from duplex_trio.plugin.video.request import OmniInteractionEvent, VideoRequest

Frame = npt.NDArray[np.uint8]
"""One picture: shape (height, width, 3), red, green and blue in 0..255."""

PromptState = Any
"""What a prompt is to its model, never changed once made: an array or a tensor, or what the session's `blend` mixes."""


class StageCallError(Exception):
    """A stage did not do what it was asked for. `code` is the wire error code of the failure."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class StageCaller(ABC):
    """The stages of the model's pipeline, as a plugin asks them from a thread of a video."""

    @abstractmethod
    def call(self, stage_id: int, unit: Any) -> Sequence[Any]:
        """Give one unit to a stage and wait for all of its outputs. Blocking; not for the Trio thread.

        Raises:
            StageCallError: the stage refused it, failed, or is not there (`engine_dead`), or the video has ended.
        """


class VideoModelSession(ABC):
    """One video. Its methods are called from threads, never two of the same method at once."""

    @abstractmethod
    def encode_interaction(self, event: OmniInteractionEvent) -> PromptState:
        """Turn what a client wants into a state. Changes nothing; may run while a chunk is rendered.

        Called for the prompt of the request, as `{"prompt": ...}`, before the first chunk.

        Raises:
            NotImplementedError: the model does not know a key of it. The message is told to the client.
            ValueError: the model cannot do with a value. The message is told to the client.
            StageCallError: a stage failed.
        """

    def blend(self, source: PromptState, target: PromptState, alpha: float) -> PromptState:
        """The state on the way from `source` (0) to `target` (1); `alpha` is in ]0, 1[. Linear by default."""
        return source + (target - source) * alpha

    @abstractmethod
    def render_chunk(
        self,
        index: int,
        state: PromptState,
        *,
        changed: bool,
        hard: bool,
        n_frames: int,
        cancelled: Callable[[], bool],
    ) -> Iterable[Frame]:
        """Render the next chunk.

        Args:
            index: the chunk, from 0 without gaps.
            state: the prompt, resolved for this chunk and the same through all of its steps.
            changed: whether it is another one than the last chunk's: what was cached of the prompt is void.
            hard: whether it is in force at once; a model with a cache over time computes that anew.
            n_frames: how many frames.
            cancelled: whether the chunk is wanted no more. Asked between frames by whoever takes them; a model that
                takes long for a frame asks it between its steps and ends by returning.

        Returns:
            The frames in order, exactly `n_frames` unless it is cancelled. They are taken before the next one is asked
            for, so a model may use its buffer again.
        """

    def close(self) -> None:  # noqa: B027  a video may have nothing to release
        """Release what the video holds. Called once, when no other method runs."""


class VideoModelPlugin(ABC):
    """Contract between the engine and one model of video."""

    @property
    @abstractmethod
    def capabilities(self) -> VideoCapabilities:
        """What the model can do."""

    def load(self) -> None:  # noqa: B027  a model may have no weights of its own
        """Load weights and warm up. Blocking; called once, in a thread, before anything else is asked of it."""

    @abstractmethod
    def open(self, request: VideoRequest, stages: StageCaller) -> VideoModelSession:
        """Begin a video. Called in a thread.

        Raises:
            ValueError: the model cannot do with a value of the request: `invalid_start`, with the message.
            NotImplementedError: the model does not know what a field of the request asks for: likewise.
        """

    def close(self) -> None:  # noqa: B027  a model may have nothing to release
        """Release the weights. Called once, last."""
