"""What the packaged network recalls: pictures are those of their captions, guidance and steps do what they say, and a
transition goes from one glyph to the other.

Pictures are compared as the network drew them, before they are scaled, by the root mean square of their difference.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from duplex_trio.models.glyph_flow.glyphs import FontMissingError, GlyphSet, find_font, font_glyphs
from duplex_trio.models.glyph_flow.pipeline import GlyphFlowPipeline
from duplex_trio.models.glyph_flow.plugin import GUIDANCE, STEPS, GlyphFlowPlugin
from duplex_trio.plugin.video.request import VideoRequest
from duplex_trio.testing.video_models import WorkerStages, rendered

torch = pytest.importorskip("torch")

from duplex_trio.models.glyph_flow.motion import Motion  # noqa: E402
from duplex_trio.models.glyph_flow.network import placed  # noqa: E402
from duplex_trio.models.glyph_flow.sampler import FlowSampler  # noqa: E402
from duplex_trio.models.glyph_flow.weights import load_network  # noqa: E402

pytestmark = [pytest.mark.models, pytest.mark.slow]

CAPTIONS = [
    "cat face", "dog face", "red apple", "fire", "rocket", "tropical fish", "water wave", "volcano", "robot face",
    "christmas tree", "strawberry", "automobile", "watermelon", "sunflower", "crown", "ghost", "soccer ball", "guitar",
    "cactus", "penguin", "mushroom", "hamburger", "snowman", "rainbow",
]  # fmt: skip
BLANK = torch.tensor([1.0, 1.0, 1.0, -1.0])[:, None, None]
Vector = npt.NDArray[np.float32]


@pytest.fixture(scope="module")
def stages() -> WorkerStages:
    return WorkerStages(GlyphFlowPipeline())


@pytest.fixture(scope="module")
def sampler() -> FlowSampler:
    return FlowSampler(load_network())


@pytest.fixture(scope="module")
def glyphs() -> GlyphSet:
    try:
        return font_glyphs(find_font())
    except FontMissingError:
        pytest.skip("Noto Colour Emoji is not here")


def embedded(stages: WorkerStages, text: str) -> Vector:
    from duplex_trio.stages.units import TextToEmbed

    vector: Vector = stages.call(0, TextToEmbed(text=text))[0].vector
    return vector


def drawn(sampler: FlowSampler, state: Vector, **how: Any) -> Any:
    """One picture, (4, 32, 32), at the place of frame 0 of seed 1."""
    motion = Motion(1, 16.0)
    how = {"steps": STEPS, "guidance": GUIDANCE, "cancelled": lambda: False, **how}
    pictures = sampler.sample(
        sampler.read(torch.from_numpy(state)), motion.noise([0]), motion.place([0]), **how
    )
    assert pictures is not None
    return pictures[0]


def references(glyphs: GlyphSet) -> Any:
    """All training pictures at that place, (count, 4, 32, 32)."""
    place = Motion(1, 16.0).place([0]).repeat(len(glyphs.captions), 1)
    return placed(torch.from_numpy(glyphs.pictures) - BLANK, place) + BLANK


def distances(picture: Any, others: Any) -> Any:
    return (others - picture).square().mean((1, 2, 3)).sqrt()


@pytest.fixture(scope="module")
def pictures(sampler: FlowSampler, stages: WorkerStages) -> dict[str, Any]:
    return {caption: drawn(sampler, embedded(stages, caption)) for caption in CAPTIONS}


def test_pictures_are_nearer_to_their_own_glyph_than_to_any_other_asked_for(
    pictures: dict[str, Any], glyphs: GlyphSet
) -> None:
    rows = [glyphs.captions.index(caption) for caption in CAPTIONS]
    own = references(glyphs)[rows]
    for number, caption in enumerate(CAPTIONS):
        assert CAPTIONS[int(distances(pictures[caption], own).argmin())] == CAPTIONS[number]


def test_most_are_nearest_to_their_own_of_all_glyphs(pictures: dict[str, Any], glyphs: GlyphSet) -> None:
    every = references(glyphs)
    nearest = [glyphs.captions[int(distances(pictures[caption], every).argmin())] for caption in CAPTIONS]
    right = sum(one == other for one, other in zip(nearest, CAPTIONS, strict=True))
    assert right >= 0.8 * len(CAPTIONS), list(zip(CAPTIONS, nearest, strict=True))


@pytest.mark.parametrize(
    ("prompt", "caption"),
    [
        ("a kitten", "cat face"),
        ("a rocket flying into space", "rocket"),
        ("ocean waves", "water wave"),
        ("a red car", "automobile"),
        ("a volcano", "volcano"),
    ],
)
def test_other_words_lead_there_too(
    sampler: FlowSampler, stages: WorkerStages, glyphs: GlyphSet, prompt: str, caption: str
) -> None:
    rows = [glyphs.captions.index(each) for each in CAPTIONS]
    picture = drawn(sampler, embedded(stages, prompt))
    assert CAPTIONS[int(distances(picture, references(glyphs)[rows]).argmin())] == caption


def test_no_prompt_is_no_glyph(sampler: FlowSampler, stages: WorkerStages, glyphs: GlyphSet) -> None:
    """Without guidance towards it, a prompt is not seen: pictures are farther from its glyph."""
    index = glyphs.captions.index("red apple")
    own = references(glyphs)[[index]]
    state = embedded(stages, "red apple")
    steered, ignored = (drawn(sampler, state, guidance=scale) for scale in (1.0, 0.0))
    assert float(distances(steered, own)) < 0.6 * float(distances(ignored, own))


def test_a_transition_goes_from_one_glyph_to_the_other(stages: WorkerStages) -> None:
    """Over eight steps each picture is nearer to the end than the one before, but for a little, and none jumps all of
    the way."""
    plugin = GlyphFlowPlugin()
    plugin.load()

    def at(alpha: float) -> Any:
        session = plugin.open(
            VideoRequest(request_id="v", prompt="x", width=64, height=64, fps=16.0, seed=1), stages
        )
        cat, apple = (session.encode_interaction({"prompt": text}) for text in ("cat face", "red apple"))
        state = session.blend(cat, apple, alpha) if 0 < alpha < 1 else apple if alpha else cat
        return rendered(session, state, changed=True, n_frames=1)[0].astype(float)

    frames = [at(step / 8) for step in range(9)]
    left = [float(np.sqrt(((frame - frames[-1]) ** 2).mean())) for frame in frames]
    assert all(after <= before + 0.08 * left[0] for before, after in itertools.pairwise(left)), left
    jumps = [float(np.sqrt(((a - b) ** 2).mean())) for a, b in itertools.pairwise(frames)]
    assert max(jumps) < 0.7 * left[0], jumps


def test_a_negative_prompt_leads_away(sampler: FlowSampler, stages: WorkerStages, glyphs: GlyphSet) -> None:
    """What lies between two glyphs goes to the one that is not unwanted."""
    cat, dog = (embedded(stages, caption) for caption in ("cat face", "dog face"))
    middle = (cat + dog) / np.linalg.norm(cat + dog)
    motion = Motion(1, 16.0)
    pictures = [
        sampler.sample(
            sampler.read(torch.from_numpy(middle), torch.from_numpy(unwanted)),
            motion.noise([0]),
            motion.place([0]),
            steps=STEPS,
            guidance=2.0,
            cancelled=lambda: False,
        )
        for unwanted in (cat, dog)
    ]
    own = references(glyphs)[[glyphs.captions.index("cat face"), glyphs.captions.index("dog face")]]
    away_from_cat, away_from_dog = (distances(picture[0], own) for picture in pictures)
    assert away_from_cat[0] - away_from_cat[1] > away_from_dog[0] - away_from_dog[1]
