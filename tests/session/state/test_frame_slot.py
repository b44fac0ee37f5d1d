"""The newest frames win, and no flood of them takes more room than a few."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.session.state.frame_slot import FrameSlot

A, B, C, D = b"a", b"bb", b"ccc", b"dddd"


def test_the_newest_stay() -> None:
    """In their order; taking them empties the slot, looking at them does not."""
    slot = FrameSlot(2)
    slot.put([A])
    slot.put([B, C])
    assert slot.peek() == slot.peek() == (B, C)
    assert slot.held_bytes == 5
    assert slot.take() == (B, C)
    assert (slot.take(), slot.held_bytes) == ((), 0)


def test_what_came_meanwhile_is_newer_than_what_is_put_back() -> None:
    """And wins where there is no room for both."""
    slot = FrameSlot(2)
    slot.put([A, B])
    taken = slot.take()
    slot.put([C])
    slot.put_back(taken)
    assert slot.peek() == (B, C)
    slot.put([D])
    slot.put_back([A])
    assert slot.peek() == (C, D)


def test_what_was_looked_at_may_be_forgotten() -> None:
    """What came since stays, also if it shows the same."""
    slot = FrameSlot(3)
    slot.put([A, B])
    seen = slot.peek()
    same = bytes(bytearray(B))
    slot.put([same])
    slot.forget(seen)
    assert slot.peek() == (B,)
    slot.forget(seen)
    assert slot.take()[0] is same


def test_a_slot_may_be_cleared() -> None:
    """Then nothing is there."""
    slot = FrameSlot(2)
    slot.put([A, B])
    slot.clear()
    assert (slot.peek(), slot.held_bytes) == ((), 0)


@pytest.mark.parametrize(
    ("held", "coming", "expected"),
    [((), (), 0), ((A,), (), 1), ((A,), (B,), 3), ((A, B), (C,), 5), ((A, B), (C, D), 7)],
)
def test_it_is_known_beforehand_what_would_be_held(
    held: tuple[bytes, ...], coming: tuple[bytes, ...], expected: int
) -> None:
    """Which frames would go is counted too."""
    slot = FrameSlot(2)
    slot.put(held)
    assert slot.bytes_with(coming) == expected
    assert slot.peek() == held


@given(
    size=st.integers(1, 4),
    steps=st.lists(st.one_of(st.lists(st.binary(max_size=5), max_size=6), st.just("take"), st.just("back"))),
)
def test_it_is_a_bounded_line(size: int, steps: list[list[bytes] | str]) -> None:
    """As a list of which only the end is kept, whatever comes and goes."""
    slot = FrameSlot(size)
    model: list[bytes] = []
    taken: tuple[bytes, ...] = ()
    for step in steps:
        if step == "take":
            taken = slot.take()
            assert list(taken) == model
            model = []
        elif step == "back":
            slot.put_back(taken)
            model = [*taken, *model][-size:]
            taken = ()
        else:
            assert not isinstance(step, str)
            expected = slot.bytes_with(step)
            slot.put(step)
            model = [*model, *step][-size:]
            assert slot.held_bytes == expected
        assert list(slot.peek()) == model
        assert slot.held_bytes == sum(map(len, model))
