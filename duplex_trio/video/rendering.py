"""One chunk in the generator's thread: frames out of the model, one by one, into the encoder."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from attrs import frozen

from duplex_trio.plugin.video.plugin import Frame, VideoModelSession
from duplex_trio.plugin.video.request import VideoRequest
from duplex_trio.video.encoders.encoder import EncodedPayload, VideoEncoder
from duplex_trio.video.state.timeline import ResolvedChunk


class ModelFaultError(Exception):
    """A model did not render what it should."""


class _CutError(Exception):
    """The chunk is wanted no more. Raised through the encoder, for which the chunk is none then."""


@frozen(kw_only=True)
class MadeChunk:
    """A chunk that has been rendered and encoded.

    Attributes:
        payloads: what came out of the encoder for it: of this chunk or of earlier ones, or nothing yet.
        render_s: seconds in the model.
        encode_s: seconds in the encoder.
    """

    payloads: Sequence[EncodedPayload]
    render_s: float
    encode_s: float


def make_chunk(
    model: VideoModelSession,
    encoder: VideoEncoder,
    request: VideoRequest,
    chunk: ResolvedChunk[Any],
    *,
    n_frames: int,
    cut: threading.Event,
) -> MadeChunk | None:
    """Render and encode a chunk; None if it was cut. Blocking, for as long as a frame once it is cut.

    Raises:
        ModelFaultError: the model rendered too few or too many frames, or something else than frames.
        Exception: what the model or the encoder raised.
    """
    frames = _Frames(model, request, chunk, n_frames, cut)
    started_s = perf_counter()
    try:
        payloads = encoder.encode(frames)
    except _CutError:
        return None
    total_s = perf_counter() - started_s
    return MadeChunk(payloads=payloads, render_s=frames.render_s, encode_s=total_s - frames.render_s)


class _Frames(Iterable[Frame]):
    """The frames of a chunk as the encoder takes them, each looked at, and the time that they took."""

    def __init__(
        self,
        model: VideoModelSession,
        request: VideoRequest,
        chunk: ResolvedChunk[Any],
        n_frames: int,
        cut: threading.Event,
    ) -> None:
        self.render_s = 0.0
        self._model = model
        self._chunk = chunk
        self._n_frames = n_frames
        self._shape = (request.height, request.width, 3)
        self._cut = cut

    def __iter__(self) -> Iterator[Frame]:
        count = 0
        for frame in self._timed():
            if count == self._n_frames:
                raise ModelFaultError(f"more than {count} frames were rendered")
            self._look_at(frame)
            count += 1
            yield frame
        if count < self._n_frames:
            raise ModelFaultError(f"{count} frames of {self._n_frames} were rendered")

    def _timed(self) -> Iterator[Frame]:
        started_s = perf_counter()
        self._ask()
        chunk = self._chunk
        frames = iter(
            self._model.render_chunk(
                chunk.index,
                chunk.state,
                changed=chunk.changed,
                hard=chunk.hard,
                n_frames=self._n_frames,
                cancelled=self._cut.is_set,
            )
        )
        while True:
            frame = next(frames, None)
            self.render_s += perf_counter() - started_s
            self._ask()
            if frame is None:
                return
            yield frame
            started_s = perf_counter()

    def _ask(self) -> None:
        if self._cut.is_set():
            raise _CutError

    def _look_at(self, frame: Frame) -> None:
        if not isinstance(frame, np.ndarray) or frame.shape != self._shape or frame.dtype != np.uint8:
            shown = f"{getattr(frame, 'dtype', type(frame).__name__)} {getattr(frame, 'shape', '')}"
            raise ModelFaultError(f"a frame is {shown}, not uint8 {self._shape}")
