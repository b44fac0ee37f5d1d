"""Glyph-flow as a plugin: the network, loaded once for all videos."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duplex_trio.plugin.video.capabilities import VideoCapabilities
from duplex_trio.plugin.video.plugin import StageCaller, VideoModelPlugin, VideoModelSession
from duplex_trio.plugin.video.request import VideoRequest

if TYPE_CHECKING:
    from duplex_trio.models.glyph_flow.sampler import FlowSampler

STEPS = 6
"""Steps of the sampler where a request does not say; more look the same."""

STEPS_MAX = 64
"""A chunk of so many steps takes some seconds; the network gains nothing by more."""

GUIDANCE = 1.5
"""Guidance where a request does not say."""


class GlyphFlowPlugin(VideoModelPlugin):
    """The flow-matching model of emoji glyphs."""

    def __init__(self) -> None:
        self._sampler: FlowSampler | None = None

    @property
    def capabilities(self) -> VideoCapabilities:
        """16 frames a second in chunks of 9, with the parameters of a diffusion model."""
        return VideoCapabilities(
            native_fps=16.0,
            chunk_frames=9,
            start_fields=frozenset({"num_inference_steps", "guidance_scale", "negative_prompt"}),
        )

    def load(self) -> None:
        """Read the packaged weights and draw once.

        Raises:
            WeightsError: they are missing or damaged.
        """
        import torch

        from duplex_trio.models.glyph_flow.motion import Motion
        from duplex_trio.models.glyph_flow.network import EMBEDDING
        from duplex_trio.models.glyph_flow.sampler import FlowSampler
        from duplex_trio.models.glyph_flow.weights import load_network
        from duplex_trio.models.one_thread import compute_in_one_thread

        compute_in_one_thread()
        sampler = FlowSampler(load_network())
        motion, frames = Motion(0, 16.0), range(self.capabilities.chunk_frames)
        sampler.sample(
            sampler.read(torch.full((EMBEDDING,), EMBEDDING**-0.5)),
            motion.noise(frames),
            motion.place(frames),
            steps=1,
            guidance=GUIDANCE,
            cancelled=lambda: False,
        )
        self._sampler = sampler

    def open(self, request: VideoRequest, stages: StageCaller) -> VideoModelSession:
        """Begin a video."""
        from duplex_trio.models.glyph_flow.session import GlyphFlowSession, Sampling

        assert self._sampler is not None, "open() before load()"
        steps = STEPS if request.num_inference_steps is None else request.num_inference_steps
        if steps > STEPS_MAX:
            raise ValueError(f"num_inference_steps of glyph_flow must be {STEPS_MAX} or less, not {steps}")
        guidance = GUIDANCE if request.guidance_scale is None else request.guidance_scale
        sampling = Sampling(steps=steps, guidance=guidance, negative_prompt=request.negative_prompt or None)
        return GlyphFlowSession(request, stages, self._sampler, sampling)

    def close(self) -> None:
        """Release the network."""
        self._sampler = None
