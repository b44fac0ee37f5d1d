"""Training of the network: rectified flow with velocity prediction, on one thread of a CPU.

A picture x and noise e are joined by the straight line (1 - t) x + t e; the network learns its direction e - x (Liu et
al., "Flow Straight and Fast", 2022; moments t by the logit-normal law of Esser et al., 2024). In a tenth of the cases
the prompt is withheld, so that samples can be guided (Ho and Salimans, 2022).

The sketches come first, in steps of their own, which are cheap: their components are computed, and only how they are
mixed for which words is learnt.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attrs import frozen
from torch.nn import functional

from duplex_trio.models.glyph_flow.glyphs import GlyphSet
from duplex_trio.models.glyph_flow.network import COMPONENTS, MOMENT_MIN, SIDE, GlyphNet, blank, placed
from duplex_trio.models.glyph_flow.phrased import Phrased


@frozen(kw_only=True)
class TrainingSettings:
    """What decides a training, beside its data.

    Attributes:
        seed: of the first weights and of every draw.
        batch: pictures a step.
        sketch_steps: steps for the sketches, before all others ...
        sketch_batch: ... and pictures in each.
        rate: the highest learning rate; it rises over the first steps and falls to zero along a cosine.
        warm_up: steps over which it rises.
        withheld: share of the pictures whose prompt is withheld.
        blur: how far, at most, an embedding is moved at random: a prompt stands for all that lie about it.
        average: how slowly the averaged weights, which are the ones that are kept, follow.
    """

    seed: int = 7
    batch: int = 32
    sketch_steps: int = 3000
    sketch_batch: int = 256
    rate: float = 2e-3
    warm_up: int = 200
    withheld: float = 0.1
    blur: float = 0.25
    average: float = 0.999


SHIFT = 0.14
"""How far a picture is moved at most, in half sides."""

SIZES = (-0.28, 0.0)
"""The logarithm of a picture's size lies between these; at 0 it fills the frame."""


COUNTED_MIN = 0.2
"""Errors count no more than they do at this moment."""


class Trainer:
    """One training, step by step; the same settings and data give the same steps.

    Args:
        glyphs: the pictures.
        phrased: what they are called.
        settings: see there.
    """

    def __init__(self, glyphs: GlyphSet, phrased: Phrased, settings: TrainingSettings) -> None:
        torch.manual_seed(settings.seed)
        self.settings = settings
        self._data = [str(settings.seed), glyphs.sha256, *glyphs.captions]
        self.step = 0
        self.sketched = 0
        self.seconds = 0.0
        self.mean_loss = math.nan
        pictures = torch.from_numpy(glyphs.pictures)
        self._blank = blank(pictures)
        self._pictures = pictures - self._blank
        self._embeddings = torch.from_numpy(phrased.vectors)
        self._many = torch.from_numpy(np.bincount(phrased.owners))
        self._first = self._many.cumsum(0) - self._many
        self.network = GlyphNet().to(memory_format=torch.channels_last)
        self.network.embedding_mean.copy_(self._embeddings.mean(0))
        self.network.embedding_scale.copy_(1.0 / self._embeddings.std(0).clamp_min(1e-3))
        self._take_components()
        self._kept = GlyphNet()
        self._kept.load_state_dict(self.network.state_dict())
        sketching = set(self.network.sketch.parameters())
        self._flowing = [each for each in self.network.parameters() if each not in sketching]
        self._sketch_optimiser = torch.optim.AdamW(
            self.network.sketch.parameters(),
            lr=settings.rate,
            betas=(0.9, 0.99),
            weight_decay=0.01,
            fused=True,
        )
        self._optimiser = torch.optim.AdamW(
            self._flowing, lr=settings.rate, betas=(0.9, 0.99), weight_decay=0.01, fused=True
        )

    @property
    def kept(self) -> GlyphNet:
        """The network with the averaged weights."""
        return self._kept

    def train_step(self, progress: float) -> float:
        """Take one step.

        Args:
            progress: how much of the training is behind, in [0, 1]; decides the learning rate.

        Returns:
            The loss of its batch.
        """
        settings = self.settings
        draw = torch.Generator().manual_seed(settings.seed * 1_000_003 + self.step)
        rate = settings.rate * min(1.0, (self.step + 1) / settings.warm_up)
        rate *= 0.5 + 0.5 * math.cos(math.pi * min(1.0, progress))
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        self._optimiser.zero_grad(set_to_none=True)
        loss = self.flow_loss(draw)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._flowing, 1.0)
        self._optimiser.step()
        self._follow()
        self.step += 1
        value: float = loss.item()
        first = math.isnan(self.mean_loss)
        self.mean_loss = value if first else self.mean_loss + (value - self.mean_loss) / 100.0
        return value

    def sketch_step(self) -> float:
        """Take one step for the sketches; their learning rate falls over `sketch_steps`.

        Returns:
            The mean square error of the sketches of its batch, before the step.
        """
        settings, step = self.settings, self.sketched
        draw = torch.Generator().manual_seed(settings.seed * 2_000_003 + step)
        rate = settings.rate * min(1.0, (step + 1) / settings.warm_up)
        self._sketch_optimiser.param_groups[0]["lr"] = rate * (
            0.5 + 0.5 * math.cos(math.pi * step / settings.sketch_steps)
        )
        chosen = torch.randint(len(self._pictures), (settings.sketch_batch,), generator=draw)
        mixed = self.network.mixture(self._phrased(chosen, draw))
        # The components are orthogonal, so the error of a picture is the sum of theirs.
        errors = ((mixed - self._mixtures[chosen]) * self._lengths).square().sum(1) + self._beyond[chosen]
        loss = errors.mean() / self.network.sketch_mean.numel()
        self._sketch_optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.sketch.parameters(), 1.0)
        self._sketch_optimiser.step()
        self.sketched += 1
        if self.sketched == settings.sketch_steps:
            self._kept.load_state_dict(self.network.state_dict())
        return float(loss.item())

    def _take_components(self) -> None:
        """Compute the principal components of the pictures, and what each picture is made of."""
        flat = functional.avg_pool2d(self._pictures, self._pictures.shape[-1] // SIDE).flatten(1)
        mean = flat.mean(0)
        left, sizes, components = torch.linalg.svd(flat - mean, full_matrices=False)
        count = min(COMPONENTS, len(sizes))
        spread = len(flat) ** 0.5
        self.network.sketch_mean.copy_(mean)
        self.network.sketch_components[:count] = components[:count] * sizes[:count, None] / spread
        self._mixtures = torch.zeros(len(flat), COMPONENTS)
        self._mixtures[:, :count] = left[:, :count] * spread
        self._lengths = self.network.sketch_components.norm(dim=1)
        self._beyond = (left[:, count:] * sizes[count:]).square().sum(1)

    def flow_loss(self, draw: torch.Generator) -> torch.Tensor:
        """The mean square error of the velocity, over a batch that is drawn with its places, moments and noise."""
        count = self.settings.batch
        chosen = torch.randint(len(self._pictures), (count,), generator=draw)
        embedding = self._phrased(chosen, draw)
        place = torch.rand(count, 3, generator=draw) * 2.0 - 1.0
        place[:, :2] *= SHIFT
        place[:, 2] = SIZES[0] + (place[:, 2] + 1.0) / 2.0 * (SIZES[1] - SIZES[0])
        picture = placed(self._pictures[chosen], place) + self._blank
        known = torch.rand(count, generator=draw) >= self.settings.withheld
        with torch.no_grad():
            sketch = placed(self.network.draw_sketches(embedding), place) * known[:, None, None, None]
        moment = torch.sigmoid(torch.randn(count, generator=draw) + 0.3)
        noise = torch.randn(picture.shape, generator=draw)
        along = moment[:, None, None, None]
        noisy = (picture * (1.0 - along) + noise * along).contiguous(memory_format=torch.channels_last)
        with torch.autocast("cpu", torch.bfloat16):
            prompt = self.network.read_prompts(embedding, known)
            velocity = self.network(noisy, moment, place, prompt, sketch)
        # An error of the picture counts in the velocity by 1 / t: without a bound the few pictures that are nearly
        # without noise would decide the step.
        counted = moment.clamp_min(MOMENT_MIN) / moment.clamp_min(COUNTED_MIN)
        return ((velocity - (noise - picture)) * counted[:, None, None, None]).square().mean()

    def _phrased(self, chosen: torch.Tensor, draw: torch.Generator) -> torch.Tensor:
        """Embeddings that stand for pictures: of any of their phrasings, moved a little."""
        luck = torch.rand(len(chosen), generator=draw)
        rows = self._first[chosen] + (luck * self._many[chosen]).long()
        embedding = self._embeddings[rows]
        moved = torch.randn(embedding.shape, generator=draw) / math.sqrt(embedding.shape[1])
        embedding = embedding + moved * self.settings.blur * torch.rand(len(chosen), 1, generator=draw)
        return functional.normalize(embedding, dim=1)

    def _follow(self) -> None:
        slow = min(self.settings.average, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            torch._foreach_lerp_(list(self._kept.parameters()), list(self.network.parameters()), 1.0 - slow)

    def save(self, path: Path) -> None:
        """Write everything that a training needs to go on later."""
        state = {
            "network": self.network.state_dict(),
            "kept": self._kept.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "sketch_optimiser": self._sketch_optimiser.state_dict(),
            "step": self.step,
            "sketched": self.sketched,
            "seconds": self.seconds,
            "mean_loss": self.mean_loss,
            "data": self._data,
        }
        partial = path.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(path)

    def restore(self, path: Path) -> None:
        """Go on where a training was.

        Raises:
            ValueError: it had other pictures or another seed.
        """
        state: dict[str, Any] = torch.load(path, weights_only=True)
        if state["data"] != self._data:
            raise ValueError(f"{path} is of a training with other pictures or another seed")
        self.network.load_state_dict(state["network"])
        self._kept.load_state_dict(state["kept"])
        self._optimiser.load_state_dict(state["optimiser"])
        self._sketch_optimiser.load_state_dict(state["sketch_optimiser"])
        self.sketched = state["sketched"]
        self.step, self.seconds, self.mean_loss = state["step"], state["seconds"], state["mean_loss"]
