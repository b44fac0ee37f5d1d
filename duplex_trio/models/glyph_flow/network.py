"""The network: a small UNet that predicts the velocity of a picture on its way from noise, given a prompt.

The prompt enters in two ways. It modulates every block of the UNet; and a few dense layers sketch from it what is to be
seen, as a mixture of the principal components of the training pictures, which the UNet has beside its noisy input.
Dense layers learn what goes with which words at a hundredth of the cost of convolutions, which is what lets the whole
be trained on a CPU in half an hour.

torch is imported with this file, so only what runs or trains the network imports it.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional

SIDE = 32
"""Side of its pictures in pixels."""

CHANNELS = 4
"""Red, green and blue over white, and the opacity, each in [-1, 1]."""

EMBEDDING = 384
"""Length of a prompt's embedding (MiniLM-L6's hidden size)."""

PLACE = 3
"""Length of a picture's place: shift to the right and down in half sides, and the logarithm of its size."""

_WIDTHS = (40, 80, 144)
_CONDITION = 192
_TIME = 64
_SKETCH = 448
MOMENT_MIN = 0.05
"""The velocity of earlier moments is taken as of this one, where it would be a division by nothing."""

COMPONENTS = 256
"""Pictures that a sketch is mixed of."""


class _Block(nn.Module):  # type: ignore[misc]  # torch is not read by the type checker
    """A residual block of two convolutions; the condition scales and shifts what is between them."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(8, inner)
        self.conv1 = nn.Conv2d(inner, outer, 3, padding=1)
        self.norm2 = nn.GroupNorm(8, outer, affine=False)
        self.conv2 = nn.Conv2d(outer, outer, 3, padding=1)
        self.film = nn.Linear(_CONDITION, 2 * outer)
        self.skip = nn.Conv2d(inner, outer, 1) if inner != outer else nn.Identity()
        nn.init.zeros_(self.conv2.weight)

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        """One block; shapes (batch, inner, h, w) and (batch, 240) to (batch, outer, h, w)."""
        hidden = self.conv1(functional.silu(self.norm1(x)))
        scale, shift = self.film(condition)[:, :, None, None].chunk(2, dim=1)
        hidden = functional.silu(self.norm2(hidden) * (1 + scale) + shift)
        out: torch.Tensor = self.skip(x) + self.conv2(hidden)
        return out


class _Attention(nn.Module):  # type: ignore[misc]  # torch is not read by the type checker
    """Self-attention over the 16 places of the innermost level."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(8, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        nn.init.zeros_(self.out.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Mix all places with each other; the shape stays."""
        batch, width, height, breadth = x.shape
        tokens = self.norm(x).flatten(2).transpose(1, 2)
        qkv = self.qkv(tokens).view(batch, -1, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2])
        out = self.out(mixed.transpose(1, 2).reshape(batch, -1, width))
        return x + out.transpose(1, 2).reshape(batch, width, height, breadth)


class GlyphNet(nn.Module):  # type: ignore[misc]  # torch is not read by the type checker
    """Velocity of noisy pictures: the noise minus the picture, as rectified flow defines it.

    On the line x = (1 - t) picture + t noise the velocity is (x - picture) / t. So the UNet adds to the sketch what it
    lacks of the picture, and the velocity follows: the noise need not go through the UNet, and where it has learnt
    nothing yet the sketch is what comes out.

    About three million numbers, more than half of them for the sketch. Three levels of 16, 8 and 4 pixels a side;
    pictures enter as 2x2 patches.
    """

    def __init__(self) -> None:
        super().__init__()
        wide, wider, widest = _WIDTHS
        self.register_buffer("embedding_mean", torch.zeros(EMBEDDING))
        self.register_buffer("embedding_scale", torch.ones(EMBEDDING))
        self.no_prompt = nn.Parameter(torch.zeros(_CONDITION))
        self.prompt = nn.Sequential(nn.Linear(EMBEDDING, 256), nn.SiLU(), nn.Linear(256, _CONDITION))
        self.moment = nn.Sequential(nn.Linear(_TIME + PLACE, 128), nn.SiLU(), nn.Linear(128, _CONDITION))
        self.sketch = nn.Sequential(
            nn.Linear(EMBEDDING, _SKETCH),
            nn.SiLU(),
            nn.Linear(_SKETCH, _SKETCH),
            nn.SiLU(),
            nn.Linear(_SKETCH, COMPONENTS),
        )
        self.register_buffer("sketch_mean", torch.zeros(CHANNELS * SIDE * SIDE))
        self.register_buffer("sketch_components", torch.zeros(COMPONENTS, CHANNELS * SIDE * SIDE))
        self.enter = nn.Conv2d(8 * CHANNELS, wide, 3, padding=1)
        self.down1 = _Block(wide, wide)
        self.shrink1 = nn.Conv2d(wide, wider, 2, stride=2)
        self.down2 = _Block(wider, wider)
        self.shrink2 = nn.Conv2d(wider, widest, 2, stride=2)
        self.down3 = _Block(widest, widest)
        self.attend = _Attention(widest)
        self.up3 = _Block(widest, widest)
        self.grow2 = nn.Conv2d(widest, wider, 1)
        self.up2 = _Block(wider, wider)
        self.grow1 = nn.Conv2d(wider, wide, 1)
        self.up1 = _Block(wide, wide)
        self.leave_norm = nn.GroupNorm(8, wide)
        self.leave = nn.Conv2d(wide, 4 * CHANNELS, 3, padding=1)
        nn.init.zeros_(self.leave.weight)

    def read_prompts(self, embeddings: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
        """What modulates the blocks, once for all steps: shape (batch, 384) to (batch, 192).

        Args:
            embeddings: of the prompts; unit length.
            known: (batch,), False where the prompt is to be withheld (classifier-free guidance).
        """
        read: torch.Tensor = self.prompt(self._even(embeddings))
        return torch.where(known[:, None], read, self.no_prompt)

    def draw_sketches(self, embeddings: torch.Tensor) -> torch.Tensor:
        """Sketch pictures that fill the frame, as differences from an empty one: (batch, 384) to (batch, 4, 32, 32)."""
        drawn: torch.Tensor = self.sketch_mean + self.mixture(embeddings) @ self.sketch_components
        return drawn.view(-1, CHANNELS, SIDE, SIDE)

    def mixture(self, embeddings: torch.Tensor) -> torch.Tensor:
        """How much of each component the sketches have: (batch, 384) to (batch, 256)."""
        mixed: torch.Tensor = self.sketch(self._even(embeddings))
        return mixed

    def _even(self, embeddings: torch.Tensor) -> torch.Tensor:
        return (embeddings - self.embedding_mean) * self.embedding_scale

    def forward(
        self,
        x: torch.Tensor,
        moment: torch.Tensor,
        place: torch.Tensor,
        prompt: torch.Tensor,
        sketch: torch.Tensor,
    ) -> torch.Tensor:
        """Predict velocities.

        Args:
            x: (batch, 4, 32, 32), float32, on the straight line between the picture (moment 0) and noise (1).
            moment: (batch,), in [0, 1].
            place: (batch, 3), where and how large the glyph is.
            prompt: (batch, 192), of `read_prompts`.
            sketch: (batch, 4, 32, 32), float32, of `draw_sketches`, brought to its place; zero where the prompt is
                withheld.

        Returns:
            (batch, 4, 32, 32).
        """
        kind = self.enter.weight.dtype
        condition = self.moment(torch.cat([_waves(moment), place.float()], dim=1).to(kind)) + prompt
        condition = functional.silu(condition)
        hidden16 = self.down1(
            self.enter(functional.pixel_unshuffle(torch.cat([x, sketch], dim=1).to(kind), 2)), condition
        )
        hidden8 = self.down2(self.shrink1(hidden16), condition)
        hidden = self.down3(self.shrink2(hidden8), condition)
        hidden = self.up3(self.attend(hidden), condition)
        hidden = self.up2(_double(self.grow2(hidden)) + hidden8, condition)
        hidden = self.up1(_double(self.grow1(hidden)) + hidden16, condition)
        hidden = self.leave(functional.silu(self.leave_norm(hidden)))
        picture = functional.pixel_shuffle(hidden, 2) + sketch + blank(sketch)
        return (x - picture) / moment.clamp_min(MOMENT_MIN)[:, None, None, None]


def blank(like: torch.Tensor) -> torch.Tensor:
    """What an empty picture has in its four channels: white and transparent; shape (4, 1, 1)."""
    return like.new_tensor([1.0, 1.0, 1.0, -1.0])[:, None, None]


def placed(pictures: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    """Move and scale pictures, and bring them to the network's side; zero is what surrounds them.

    Args:
        pictures: (batch, channels, side, side), of the network's side or twice that.
        place: (batch, 3), see `PLACE`.

    Returns:
        (batch, channels, 32, 32).
    """
    zoom = torch.exp(-place[:, 2])
    matrix = torch.zeros(len(place), 2, 3)
    matrix[:, 0, 0] = matrix[:, 1, 1] = zoom
    matrix[:, :, 2] = -place[:, :2] * zoom[:, None]
    grid = functional.affine_grid(matrix, [len(place), pictures.shape[1], SIDE, SIDE], align_corners=False)
    moved: torch.Tensor = functional.grid_sample(pictures, grid, mode="bilinear", align_corners=False)
    return moved


def _double(x: torch.Tensor) -> torch.Tensor:
    return functional.interpolate(x, scale_factor=2, mode="nearest")


def _waves(moment: torch.Tensor) -> torch.Tensor:
    """A moment as sines and cosines of 32 frequencies from 1 to 1000 radians; shape (batch, 64)."""
    half = _TIME // 2
    rates = torch.exp(torch.linspace(0.0, math.log(1000.0), half, device=moment.device))
    angles = moment.float()[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def parameter_count(network: Any) -> int:
    """How many numbers it has, the components of sketches included."""
    return sum(tensor.numel() for tensor in network.state_dict().values())
