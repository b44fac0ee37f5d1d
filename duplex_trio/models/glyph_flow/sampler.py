"""The sampler: pictures out of noise, along the velocities that the network predicts, in a few steps of Euler's."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from attrs import frozen

from duplex_trio.models.glyph_flow.network import GlyphNet


@frozen(eq=False)
class Prompts:
    """What guides a sample, as the network reads it; computed once for as long as the prompt is the same.

    Attributes:
        wanted: shape (1, condition).
        against: the same of what is to be kept out; of no prompt at all unless a negative one was given.
    """

    wanted: torch.Tensor
    against: torch.Tensor


def fastest_dtype() -> torch.dtype:
    """What this CPU computes quicker: half precision where it has instructions for it (about twice), else single."""
    quick = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch.bfloat16 if quick else torch.float32


class FlowSampler:
    """Draws pictures from a network; has no state of its own, so that several videos may share it.

    Args:
        network: trained; it is not changed.
        dtype: of the computation; what is the quicker by default.
    """

    def __init__(self, network: GlyphNet, dtype: torch.dtype | None = None) -> None:
        self.dtype = dtype or fastest_dtype()
        self._network = network.to(dtype=self.dtype, memory_format=torch.channels_last).eval()

    def read(self, wanted: torch.Tensor, against: torch.Tensor | None = None) -> Prompts:
        """Read embeddings of shape (384,) and unit length."""
        embeddings = torch.stack([wanted, wanted if against is None else against]).to(self.dtype)
        known = torch.tensor([True, against is not None])
        with torch.inference_mode():
            read = self._network.read_prompts(embeddings, known)
        return Prompts(read[:1], read[1:])

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
        rows = torch.cat([prompts.against, prompts.wanted]) if guided else prompts.wanted
        prompt = rows.repeat_interleave(batch, dim=0)
        twice = 2 if guided else 1
        places = place.to(self.dtype).repeat(twice, 1)
        x = noise.float()
        for moment, following in pairwise(moments_of(steps)):
            if cancelled():
                return None
            batched = x.to(self.dtype).repeat(twice, 1, 1, 1).contiguous(memory_format=torch.channels_last)
            with torch.inference_mode():
                velocity = self._network(batched, torch.full((twice * batch,), moment), places, prompt)
            velocity = velocity.float()
            if guided:
                plain, steered = velocity.chunk(2)
                velocity = plain + guidance * (steered - plain)
            x = x + (following - moment) * velocity
        return x


def moments_of(steps: int) -> list[float]:
    """The moments of a sample, from 1 (noise) to 0 (picture): evenly spaced, `steps + 1` of them."""
    return [1.0 - step / steps for step in range(steps)] + [0.0]
