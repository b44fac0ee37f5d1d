"""A video of glyph-flow: shapes, determinism, what an update does, and how soon it ends."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from duplex_trio.testing.video_models import WordStages, rendered, vector_of

torch = pytest.importorskip("torch")

from duplex_trio.models.glyph_flow.network import CHANNELS, SIDE, GlyphNet  # noqa: E402
from duplex_trio.models.glyph_flow.sampler import FlowSampler, moments_of  # noqa: E402

CAT, DOG = vector_of("a cat"), vector_of("a dog")
Opener = Callable[..., Any]


def mean_difference(a: list[Any], b: list[Any]) -> float:
    return float(np.abs(np.stack(a).astype(float) - np.stack(b).astype(float)).mean())


@pytest.mark.parametrize(("width", "height"), [(64, 64), (256, 256), (66, 98), (640, 360), (64, 1024)])
def test_frames_are_of_the_size_that_was_asked_for(opened: Opener, width: int, height: int) -> None:
    frames = rendered(opened(width=width, height=height, steps=1), CAT, n_frames=2)
    assert [(frame.shape, frame.dtype) for frame in frames] == [((height, width, 3), np.dtype("uint8"))] * 2
    assert all(frame.flags.c_contiguous for frame in frames)


@pytest.mark.parametrize("n_frames", [1, 2, 9])
def test_a_chunk_has_the_frames_that_were_asked_for(opened: Opener, n_frames: int) -> None:
    assert len(rendered(opened(steps=1), CAT, n_frames=n_frames)) == n_frames


def test_the_picture_moves(opened: Opener) -> None:
    frames = rendered(opened(steps=1), CAT)
    assert all((a != b).any() for a, b in itertools.pairwise(frames))


def test_a_seed_decides_everything(opened: Opener) -> None:
    """Bit for bit, over an update too; another seed is another video."""

    def video(seed: int) -> list[Any]:
        session = opened(seed=seed, steps=2)
        first = rendered(session, CAT)
        return first + rendered(session, DOG, index=1, changed=True, hard=True, n_frames=4)

    assert np.array_equal(video(3), video(3))
    assert mean_difference(video(3), video(4)) > 1.0


def test_other_threads_do_not_change_a_bit(opened: Opener) -> None:
    """A chunk is computed in its own thread alone, whatever number the process has for others."""
    alone = rendered(opened(seed=1, steps=2), CAT)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert np.array_equal(alone, rendered(opened(seed=1, steps=2), CAT))
    finally:
        torch.set_num_threads(before)


def test_a_cut_into_chunks_is_not_seen(opened: Opener, network: GlyphNet) -> None:
    """Motion and noise go on from one chunk to the next as within a chunk. In single precision: the shape of a batch
    may change what half precision rounds."""
    exact = FlowSampler(network, torch.float32)
    whole = rendered(opened(seed=1, steps=2, with_sampler=exact), CAT, n_frames=6)
    session = opened(seed=1, steps=2, with_sampler=exact)
    parts = rendered(session, CAT, n_frames=2) + rendered(session, CAT, index=1, n_frames=4)
    assert np.abs(np.stack(whole).astype(int) - np.stack(parts)).max() <= 1


def test_an_update_is_seen_and_no_update_is_not(opened: Opener) -> None:
    """What the network read of a prompt is kept until `changed` says that it is void."""

    def second(state: Any, **how: bool) -> list[Any]:
        session = opened(seed=1, steps=2)
        rendered(session, CAT)
        return rendered(session, state, index=1, **how)

    kept = second(CAT)
    assert np.array_equal(kept, second(CAT, changed=True))
    assert np.array_equal(kept, second(DOG)), "unchanged by what it was told"
    assert mean_difference(kept, second(DOG, changed=True)) > 0.5


def test_a_hard_update_draws_new_noise(opened: Opener) -> None:
    def second(*, hard: bool) -> list[Any]:
        session = opened(seed=1, steps=2)
        rendered(session, CAT)
        return rendered(session, DOG, index=1, changed=True, hard=hard)

    assert mean_difference(second(hard=False), second(hard=True)) > 0.5


def test_guidance_changes_the_picture(opened: Opener) -> None:
    plain, guided = (rendered(opened(steps=2, guidance=scale), CAT) for scale in (1.0, 4.0))
    assert mean_difference(plain, guided) > 0.5


def test_without_guidance_the_prompt_is_ignored(opened: Opener) -> None:
    """At 0 the velocity is that of no prompt at all."""
    cat, dog = (rendered(opened(steps=2, guidance=0.0), state) for state in (CAT, DOG))
    assert np.array_equal(cat, dog)


def test_a_negative_prompt_is_encoded_once_and_steers_away(opened: Opener) -> None:
    stages = WordStages()
    session = opened(steps=2, negative_prompt="a dog", stages=stages)
    state = session.encode_interaction({"prompt": "a cat"})
    against_dog = rendered(session, state)
    session.encode_interaction({"prompt": "a bird"})
    assert stages.asked == ["a dog", "a cat", "a bird"]
    assert mean_difference(against_dog, rendered(opened(steps=2), state)) > 0.5


def test_more_steps_ask_more_often(opened: Opener) -> None:
    """`cancelled` is asked before every step of a chunk."""
    for steps in (1, 4, 8):
        asked: list[None] = []
        rendered(opened(steps=steps), CAT, cancelled=lambda asked=asked: asked.append(None) is not None)
        assert len(asked) == steps


@pytest.mark.parametrize("at", [0, 1, 3])
def test_a_cancelled_chunk_ends_between_two_steps(opened: Opener, at: int) -> None:
    calls = itertools.count()
    assert rendered(opened(steps=4), CAT, cancelled=lambda: next(calls) >= at) == []
    assert next(calls) == at + 1


def test_other_keys_of_an_update_are_not_known(opened: Opener) -> None:
    for key in ("negative_prompt", "multi_modal_data", "prompt_embeds"):
        with pytest.raises(NotImplementedError, match=key):
            opened().encode_interaction({"prompt": "a cat", key: "x"})


def test_another_encoder_is_refused(opened: Opener) -> None:
    """Its vectors mean nothing to the network, if they have its length at all."""
    stages = WordStages({"a cat": vector_of("a cat", 768)})
    with pytest.raises(ValueError, match="384 values"):
        opened(stages=stages).encode_interaction({"prompt": "a cat"})


class TestBlend:
    """Between two prompts."""

    @pytest.mark.parametrize("alpha", [0.01, 0.25, 0.5, 0.75, 0.99])
    def test_it_stays_on_the_sphere_and_turns_evenly(self, opened: Opener, alpha: float) -> None:
        mixed = opened().blend(CAT, DOG, alpha)
        whole = np.arccos(CAT @ DOG)
        assert np.linalg.norm(mixed) == pytest.approx(1.0, abs=1e-5)
        assert np.arccos(CAT @ mixed) == pytest.approx(alpha * whole, abs=1e-3)
        assert mixed.dtype == np.float32

    def test_of_the_same_it_is_the_same(self, opened: Opener) -> None:
        assert opened().blend(CAT, CAT.copy(), 0.3) == pytest.approx(CAT, abs=1e-6)

    def test_of_opposites_it_is_a_state_all_the_same(self, opened: Opener) -> None:
        for alpha in (0.25, 0.5):
            mixed = opened().blend(CAT, -CAT, alpha)
            assert np.isfinite(mixed).all()


def test_moments_go_from_noise_to_the_picture() -> None:
    assert moments_of(4) == [1.0, 0.75, 0.5, 0.25, 0.0]


def test_a_perfect_velocity_is_followed_to_the_picture() -> None:
    """With a network that knows the picture, any number of steps leads there: the path is straight."""
    picture = torch.rand(1, CHANNELS, SIDE, SIDE)

    class Knowing(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, moment: Any, place: Any, prompt: Any, sketch: Any) -> Any:
            return (x - picture) / moment[:, None, None, None]

        def read_prompts(self, embeddings: Any, known: Any) -> Any:
            return torch.zeros(len(embeddings), 1)

        def draw_sketches(self, embeddings: Any) -> Any:
            return torch.zeros(len(embeddings), CHANNELS, SIDE, SIDE)

    sampler = FlowSampler(Knowing(), torch.float32)  # type: ignore[arg-type]
    for steps, guidance in itertools.product((1, 3, 8), (1.0, 3.0)):
        drawn = sampler.sample(
            sampler.read(torch.zeros(384)),
            torch.randn(1, CHANNELS, SIDE, SIDE),
            torch.zeros(1, 3),
            steps=steps,
            guidance=guidance,
            cancelled=lambda: False,
        )
        assert drawn is not None
        assert torch.allclose(drawn, picture, atol=1e-4)
