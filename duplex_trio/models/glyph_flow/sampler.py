"""The sampler: pictures out of noise, along the velocities that the network predicts, in a few steps of Euler's."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import pairwise

import torch
from attrs import frozen

from duplex_trio.models.glyph_flow.network import GlyphNet, placed


@frozen(eq=False)
class Prompts:
    """What guides a sample, as the network reads it; computed once for as long as the prompt is the same.

    Attributes:
        read: shape (2, 192): of what is to be kept out, or of no prompt at all, and of what is wanted.
        sketches: shape (2, 4, 32, 32), of the same two.
    """

    read: torch.Tensor
    sketches: torch.Tensor


def fastest_dtype() -> torch.dtype:
    """What this CPU computes quicker: half precision where it has instructions for it (about twice), else single."""
    quick = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch.bfloat16 if quick else torch.float32


class FlowSampler:
    """Draws pictures from a network; has no state of its own, so that several videos may share it.

    Args:
        network: trained, in single precision; reads the prompts itself, while a copy of it takes the steps.
        dtype: of the computation; what is the quicker by default.
    """

    def __init__(self, network: GlyphNet, dtype: torch.dtype | None = None) -> None:
        self.dtype = dtype or fastest_dtype()
        self._reader = network
        self._network = copy.deepcopy(network).to(dtype=self.dtype, memory_format=torch.channels_last).eval()

    def read(self, wanted: torch.Tensor, against: torch.Tensor | None = None) -> Prompts:
        """Read embeddings of shape (384,) and unit length."""
        embeddings = torch.stack([wanted if against is None else against, wanted])
        known = torch.tensor([against is not None, True])
        with torch.inference_mode():
            sketches = self._reader.draw_sketches(embeddings) * known[:, None, None, None]
            return Prompts(self._reader.read_prompts(embeddings, known).to(self.dtype), sketches)

    def sample(
        self,
        prompts: Prompts,
        noise: torch.Tensor,
        place: torch.Tensor,
        *,
        steps: int,
        guidance: float,
        cancelled: Callable[[], bool],
    ) -> torch.Tensor | None:
        """Draw one picture for each noise, all in one batch.

        Args:
            prompts: the same for all of them, and through all steps.
            noise: (batch, 4, 32, 32).
            place: (batch, 3).
            steps: evaluations of the network; twice as many where there is guidance.
            guidance: w of Ho and Salimans: 1 samples the prompt as it is, more exaggerates it, 0 ignores it.
            cancelled: asked before each step.

        Returns:
            (batch, 4, 32, 32) in float32, in [-1, 1] but for errors; None when it was cancelled.
        """
        batch = len(noise)
        guided = guidance != 1.0
        first, twice = (0, 2) if guided else (1, 1)
        prompt = prompts.read[first:].repeat_interleave(batch, dim=0)
        places = place.repeat(twice, 1)
        sketch = placed(prompts.sketches[first:].repeat_interleave(batch, dim=0), places)
        x = noise.float()
        for moment, following in pairwise(moments_of(steps)):
            if cancelled():
                return None
            batched = x.repeat(twice, 1, 1, 1).contiguous(memory_format=torch.channels_last)
            with torch.inference_mode():
                moments = torch.full((twice * batch,), moment)
                velocity = self._network(batched, moments, places, prompt, sketch)
            if guided:
                plain, steered = velocity.chunk(2)
                velocity = plain + guidance * (steered - plain)
            x = x + (following - moment) * velocity
        return x


def moments_of(steps: int) -> list[float]:
    """The moments of a sample, from 1 (noise) to 0 (picture): evenly spaced, `steps + 1` of them."""
    return [1.0 - step / steps for step in range(steps)] + [0.0]
