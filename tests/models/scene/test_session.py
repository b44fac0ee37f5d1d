"""Videos of the scene renderer: what decides a frame, how states become each other, sizes, and what it costs."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest

from duplex_trio.models.scene.reading import Amounts
from duplex_trio.models.scene.session import SceneSession
from tests.models.scene.support import STATES, WordEncoder, chunk, distance, session, word_readout

PAIRS = [
    ("snowy street", "beach"),
    ("volcano", "reef"),
    ("dunes", "aurora"),
    ("neon city", "blossoms"),
    ("space", "forest"),
]
JUMP_MAX = 14.0
"""Mean difference of bytes from one frame to the next; a cut between these pictures is from 40 on."""


def transition(video: SceneSession, source: str, target: str, chunks: int) -> list[np.ndarray]:
    """A chunk of the first state, the way to the second, and a chunk of that."""
    one, two = STATES[source], STATES[target]
    frames = chunk(video, 0, one)
    for step in range(1, chunks + 1):
        shown = two if step == chunks else video.blend(one, two, step / chunks)
        frames += chunk(video, step, shown, changed=True)
    return frames + chunk(video, chunks + 1, two)


@pytest.mark.parametrize("name", STATES)
def test_a_video_is_the_same_again_and_another_one_with_another_seed(name: str) -> None:
    one, again, other = (chunk(session(seed=seed), 0, STATES[name]) for seed in (1, 1, 2))
    assert all(np.array_equal(first, second) for first, second in zip(one, again, strict=True))
    assert distance(one[0], other[0]) > 0.3


@pytest.mark.parametrize("name", STATES)
def test_something_moves_and_nothing_jumps_while_a_state_stays(name: str) -> None:
    video = session()
    frames = [frame for index in range(6) for frame in chunk(video, index, STATES[name])]
    steps = [distance(*pair) for pair in itertools.pairwise(frames)]
    assert max(distance(frames[0], frame) for frame in frames) > 0.5
    # Lightning is the one thing that is meant to be sudden.
    assert max(steps) < JUMP_MAX or name == "storm"
    # A border between chunks is a step like any other.
    borders = steps[8::9]
    assert max(borders) <= 1.5 * max(step for number, step in enumerate(steps) if number % 9 != 8) + 0.5


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
@pytest.mark.parametrize("chunks", [1, 3])
def test_one_picture_becomes_another_steadily(pair: tuple[str, str], chunks: int) -> None:
    frames = transition(session(), *pair, chunks)
    way = frames[8 : 9 + 9 * chunks]
    far = distance(way[0], way[-1])
    assert far > 25
    assert max(distance(*step) for step in itertools.pairwise(way)) < max(JUMP_MAX, 1.6 * far / (9 * chunks))
    away = [distance(way[0], frame) / far for frame in way]
    left = [distance(way[-1], frame) / far for frame in way]
    # What moves by itself may hold a frame back by a little, never the whole.
    assert all(later > earlier - 0.06 for earlier, later in itertools.pairwise(away))
    assert all(later < earlier + 0.06 for earlier, later in itertools.pairwise(left))
    middle = len(way) // 2
    assert 0.2 < away[middle] < 0.95
    assert 0.2 < left[middle] < 0.95


def test_the_end_of_a_transition_is_what_a_video_of_that_prompt_would_show() -> None:
    frames = transition(session(), "dunes", "volcano", 2)
    alone = session()
    expected = [frame for index in range(4) for frame in chunk(alone, index, STATES["volcano"])]
    assert all(np.array_equal(*pair) for pair in zip(frames[-9:], expected[-9:], strict=True))


def test_a_hard_update_is_there_at_once_and_whole() -> None:
    video, other = session(), session()
    chunk(video, 0, STATES["beach"])
    chunk(other, 0, STATES["volcano"])
    after = chunk(video, 1, STATES["volcano"], changed=True, hard=True)
    expected = chunk(other, 1, STATES["volcano"])
    assert all(np.array_equal(*pair) for pair in zip(after, expected, strict=True))


def test_an_update_in_one_chunk_begins_with_little_and_ends_with_all() -> None:
    video = session()
    before = chunk(video, 0, STATES["beach"])[-1]
    after = chunk(video, 1, STATES["volcano"], changed=True)
    assert distance(before, after[0]) < 0.3 * distance(before, after[-1])


def test_an_interrupted_transition_goes_on_from_where_it_was() -> None:
    video = session()
    way = video.blend(STATES["dunes"], STATES["reef"], 1 / 3)
    chunk(video, 0, STATES["dunes"])
    before = chunk(video, 1, way, changed=True)[-1]
    after = chunk(video, 2, video.blend(way, STATES["forest"], 0.5), changed=True)
    assert distance(before, after[0]) < JUMP_MAX


@pytest.mark.parametrize(
    ("width", "height", "fps"),
    [
        (64, 64, 24.0),
        (64, 1024, 1.0),
        (1024, 64, 60.0),
        (66, 130, 23.976),
        (512, 512, 7.3),
        (1024, 1024, 24.0),
        (642, 646, 30.0),
    ],
)
def test_every_size_and_rate(width: int, height: int, fps: float) -> None:
    video = session(width=width, height=height, fps=fps)
    for index, name in enumerate(
        STATES if width * height < 10_000 else ("everything else", "reef", "space", "beach")
    ):
        frames = chunk(video, index, STATES[name], changed=index > 0, hard=True, n_frames=1 + index % 2)
        assert len(frames) == 1 + index % 2
        assert {(frame.shape, frame.dtype) for frame in frames} == {((height, width, 3), np.dtype(np.uint8))}
        assert frames[0].std() > 8


def test_a_large_picture_is_the_small_one_grown() -> None:
    large = chunk(session(width=704, height=704), 0, STATES["beach"], n_frames=1)[0]
    small = chunk(session(width=352, height=352), 0, STATES["beach"], n_frames=1)[0]
    assert distance(large[::2, ::2], small) < 4


def test_motion_follows_time_and_not_the_count_of_frames() -> None:
    slow = chunk(session(fps=12.0), 0, STATES["space"], n_frames=4)
    fast = chunk(session(fps=24.0), 0, STATES["space"], n_frames=7)
    assert all(np.array_equal(slow[number], fast[2 * number]) for number in range(4))


def test_a_chunk_that_is_wanted_no_more_ends_between_frames() -> None:
    asked = iter([False, False, True])
    frames = session().render_chunk(
        0, STATES["dunes"], changed=False, hard=False, n_frames=9, cancelled=lambda: next(asked)
    )
    assert len(list(frames)) == 2


def test_a_prompt_is_read_by_the_encoder_of_the_stage() -> None:
    encoder = WordEncoder()
    video = session(stages=encoder, readout=word_readout(encoder))
    found = video.encode_interaction({"prompt": "sand dunes at sunset"})
    assert np.array_equal(found, video.encode_interaction({"prompt": "sand dunes at sunset"}))
    shown = Amounts(found)
    assert shown.desert == 1
    assert shown.underwater == shown.city == shown.snowfall == 0


@pytest.mark.parametrize("key", ["negative_prompt", "multi_modal_data", "camera"])
def test_other_wishes_are_refused_by_name(key: str) -> None:
    with pytest.raises(NotImplementedError, match=f"scene does not support '{key}'"):
        session().encode_interaction({"prompt": "dunes", key: "x"})  # type: ignore[misc]


@pytest.mark.slow
def test_ten_thousand_frames_and_many_states_keep_no_memory() -> None:
    video = session(width=64, height=64)
    names = list(STATES)
    sizes, a_round = [], 40 * len(names)
    tracemalloc.start()
    try:
        for index in range(10_000 // 9 + 1):
            shown = STATES[names[(index // 40) % len(names)]]
            for _ in video.render_chunk(
                index,
                shown,
                changed=index % 40 == 0 and index > 0,
                hard=False,
                n_frames=9,
                cancelled=lambda: False,
            ):
                pass
            if index % a_round == a_round - 1:
                sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    # After each round of all states the same is kept.
    assert sizes[1] - sizes[0] < 300_000


def test_what_a_frame_costs_is_bounded_by_the_parts_that_are_drawn() -> None:
    """Parts of a frame, each a pass over some rows: about 0.1 ms at 512x512 on one core, or 2 ms in all."""
    for name, shown in STATES.items():
        video = session(width=64, height=64)
        chunk(video, 0, shown, n_frames=1)
        assert 3 <= video.parts_drawn <= (34 if name == "everything else" else 20), name
