"""One video of glyph-flow."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import torch
from attrs import frozen

from duplex_trio.models.glyph_flow.canvas import Canvas
from duplex_trio.models.glyph_flow.motion import Motion
from duplex_trio.models.glyph_flow.network import EMBEDDING
from duplex_trio.models.glyph_flow.sampler import FlowSampler, Prompts
from duplex_trio.models.one_thread import compute_in_one_thread
from duplex_trio.models.text_encoder.pipeline import embedding_of
from duplex_trio.plugin.video.plugin import Frame, StageCaller, VideoModelSession
from duplex_trio.plugin.video.request import OmniInteractionEvent, VideoRequest, prompt_of

Embedding = npt.NDArray[np.float32]
"""The state of a prompt: shape (384,), unit length."""


@frozen(kw_only=True)
class Sampling:
    """How the pictures of a video are drawn.

    Attributes:
        steps: of the sampler.
        guidance: see `FlowSampler.sample`.
        negative_prompt: what is to be kept out; without one, guidance is away from no prompt at all.
    """

    steps: int
    guidance: float
    negative_prompt: str | None = None


class GlyphFlowSession(VideoModelSession):
    """One video: embeddings as states, chunks drawn in one batch.

    Args:
        request: what was asked for.
        stages: the pipeline's.
        sampler: shared by all videos.
        sampling: this video's.
    """

    def __init__(
        self, request: VideoRequest, stages: StageCaller, sampler: FlowSampler, sampling: Sampling
    ) -> None:
        self._stages = stages
        self._sampler = sampler
        self._sampling = sampling
        self._motion = Motion(request.seed, request.fps)
        self._canvas = Canvas(request.width, request.height, request.seed)
        self._negative: Embedding | None = None
        self._prompts: Prompts | None = None
        self._frames = 0

    def encode_interaction(self, event: OmniInteractionEvent) -> Embedding:
        """The embedding of a prompt."""
        prompt = prompt_of(event, "glyph_flow")
        # With the prompt of the request, before any chunk: the negative prompt stays that of the start.
        if self._sampling.negative_prompt is not None and self._negative is None:
            self._negative = _embedding(self._stages, self._sampling.negative_prompt)
        return _embedding(self._stages, prompt)

    def blend(self, source: Embedding, target: Embedding, alpha: float) -> Embedding:
        """Go along the great circle between two embeddings.

        The encoder only ever gives vectors of unit length and the network has seen no others. A straight line would
        lead through shorter ones, and most of its turn would fall into its middle chunks; along the circle every chunk
        of a transition turns by the same angle.
        """
        angle = float(np.arccos(np.clip(source @ target, -1.0, 1.0)))
        weights = np.array([1.0 - alpha, alpha], np.float32)
        if np.sin(angle) > 1e-4:  # else they are the same, or opposite ones: there is no one circle
            weights = np.sin(weights * np.float32(angle))
        mixed = weights[0] * source + weights[1] * target
        state: Embedding = (mixed / max(float(np.linalg.norm(mixed)), 1e-6)).astype(np.float32)
        return state

    def render_chunk(
        self,
        index: int,
        state: Embedding,
        *,
        changed: bool,
        hard: bool,
        n_frames: int,
        cancelled: Callable[[], bool],
    ) -> Iterator[Frame]:
        """Draw a chunk in one batch, from noise that goes on where the last chunk's ended.

        What the network made of the prompt is kept while the state is the same. A hard update also draws new noise: the
        new picture then has nothing in common with the old one, as after a cut.
        """
        compute_in_one_thread()
        if self._prompts is None or changed:
            against = None if self._negative is None else torch.from_numpy(self._negative)
            self._prompts = self._sampler.read(torch.from_numpy(state), against)
        if hard and self._frames:
            self._motion.anchor()
        frames = range(self._frames, self._frames + n_frames)
        self._frames += n_frames
        pictures = self._sampler.sample(
            self._prompts,
            self._motion.noise(frames),
            self._motion.place(frames),
            steps=self._sampling.steps,
            guidance=self._sampling.guidance,
            cancelled=cancelled,
        )
        if pictures is not None:
            yield from self._canvas.frames(pictures)


def _embedding(stages: StageCaller, text: str) -> Embedding:
    """Ask the text encoder.

    Raises:
        ValueError: it is not the encoder that the network was trained with: its vectors have another length.
        StageCallError: the stage failed.
    """
    vector: Embedding = embedding_of(stages, text)
    if vector.shape != (EMBEDDING,):
        raise ValueError(
            f"glyph_flow reads embeddings of {EMBEDDING} values (minilm-l6-v2), not {vector.size}"
        )
    return vector
