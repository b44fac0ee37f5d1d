"""A network that was hardly trained, for everything that holds whatever the weights are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from duplex_trio.plugin.video.plugin import StageCaller
from duplex_trio.plugin.video.request import VideoRequest
from duplex_trio.testing.video_models import WordStages

torch = pytest.importorskip("torch")

from duplex_trio.models.glyph_flow.network import GlyphNet  # noqa: E402
from duplex_trio.models.glyph_flow.plugin import GUIDANCE, STEPS  # noqa: E402
from duplex_trio.models.glyph_flow.sampler import FlowSampler  # noqa: E402
from duplex_trio.models.glyph_flow.session import GlyphFlowSession, Sampling  # noqa: E402


@pytest.fixture(scope="session")
def network() -> GlyphNet:
    """Random, but with something in every layer that starts at zero."""
    torch.manual_seed(5)
    made = GlyphNet()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return made.eval().requires_grad_(False)


@pytest.fixture(scope="session")
def sampler(network: GlyphNet) -> FlowSampler:
    """In the precision that this machine uses."""
    return FlowSampler(network)


Opener = Callable[..., GlyphFlowSession]


@pytest.fixture
def opened(sampler: FlowSampler) -> Opener:
    """Begins a video: `opened(seed=1, steps=2, guidance=1.0)`."""

    def begin(
        *,
        steps: int = STEPS,
        guidance: float = GUIDANCE,
        negative_prompt: str | None = None,
        stages: StageCaller | None = None,
        with_sampler: FlowSampler | None = None,
        **fields: Any,
    ) -> GlyphFlowSession:
        values = {"request_id": "v", "prompt": "a cat", "width": 64, "height": 64, "fps": 16.0, **fields}
        sampling = Sampling(steps=steps, guidance=guidance, negative_prompt=negative_prompt)
        return GlyphFlowSession(
            VideoRequest(**values), stages or WordStages(), with_sampler or sampler, sampling
        )

    return begin
