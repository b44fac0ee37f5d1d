"""How much is measured of videos."""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import deep_iterable, ge

MODELS = ("scene", "glyph_flow")
"""The deployments that are measured where nothing is said."""


@frozen(kw_only=True)
class VideoBenchSettings:
    """Sizes of the measurements of videos. Each model is measured at each size with each number of videos at once.

    Attributes:
        models: deployments of video, by name or file.
        sizes: pixels of a side; pictures are square.
        sessions: videos at once.
        rounds: how often the model alone and the server take turns.
        chunks: of each video that is made as fast as can be. The first one is not counted.
        switches: new prompts for a video that is made as it is played, one after the other.
    """

    models: tuple[str, ...] = MODELS
    sizes: tuple[int, ...] = field(default=(256, 512), validator=deep_iterable(ge(64)))
    sessions: tuple[int, ...] = field(default=(1, 2), validator=deep_iterable(ge(1)))
    rounds: int = field(default=5, validator=ge(1))
    chunks: int = field(default=16, validator=ge(2))
    switches: int = field(default=20, validator=ge(1))


QUICK_VIDEO = VideoBenchSettings(rounds=1, chunks=3, switches=2)
"""A little of everything: it shows that the measurements work, not what the figures are."""
