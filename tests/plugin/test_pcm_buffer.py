"""Units out of sound of any length, and reservations that can be taken back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.plugin.pcm_buffer import FixedUnitBuffer
from duplex_trio.stages.units import Pcm


def count(begin: int, end: int) -> Pcm:
    return np.arange(begin, end, dtype=np.float32)


def test_three_units_come_out_of_one_append() -> None:
    """A long append yields every unit it holds, and keeps the rest."""
    buffer = FixedUnitBuffer(4)
    buffer.append(count(0, 14))
    units = []
    while (unit := buffer.prepare_append()) is not None:
        units.append(unit.pcm.tolist())
    assert units == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert buffer.pending_bytes == 14 * 4


def test_a_unit_grows_over_many_appends() -> None:
    """Nothing comes out before a whole unit is there."""
    buffer = FixedUnitBuffer(4)
    for sample in range(3):
        buffer.append(count(sample, sample + 1))
        assert buffer.prepare_append() is None
    buffer.append(count(3, 4))
    unit = buffer.prepare_append()
    assert unit is not None
    assert unit.pcm.tolist() == [0, 1, 2, 3]


def test_commits_are_made_in_order() -> None:
    """A later unit cannot be settled before an earlier one, nor any unit twice."""
    buffer = FixedUnitBuffer(2)
    buffer.append(count(0, 4))
    first, second = buffer.prepare_append(), buffer.prepare_append()
    assert first is not None
    assert second is not None
    with pytest.raises(ValueError, match="earlier"):
        second.commit()
    first.commit()
    with pytest.raises(ValueError, match="given back"):
        first.commit()
    second.commit()
    assert buffer.pending_bytes == 0


def test_a_rollback_takes_later_units_with_it() -> None:
    """What was not accepted is offered again, in the old order."""
    buffer = FixedUnitBuffer(2)
    buffer.append(count(0, 7))
    first = buffer.prepare_append()
    second = buffer.prepare_append()
    third = buffer.prepare_append()
    assert first is not None
    assert second is not None
    assert third is not None
    first.commit()
    second.rollback()
    third.rollback()
    assert not third.active
    again = buffer.prepare_append()
    assert again is not None
    assert again.pcm.tolist() == [2, 3]
    assert buffer.pending_bytes == 5 * 4


def test_a_commit_pads_the_rest() -> None:
    """The last unit is filled with silence; given back, the silence is gone."""
    buffer = FixedUnitBuffer(4)
    buffer.append(count(1, 3))
    last = buffer.prepare_commit()
    assert last is not None
    assert last.final
    assert last.pcm.tolist() == [1, 2, 0, 0]
    last.rollback()
    assert buffer.pending_bytes == 2 * 4
    assert FixedUnitBuffer(4).prepare_commit() is None


def test_clearing_ends_reservations() -> None:
    """After a clear nothing is pending and an old reservation does nothing."""
    buffer = FixedUnitBuffer(2)
    buffer.append(count(0, 3))
    unit = buffer.prepare_append()
    assert unit is not None
    buffer.clear()
    unit.rollback()
    assert not buffer.has_pending
    assert not buffer.has_reserved
    assert buffer.pending_bytes == 0


@given(st.lists(st.sampled_from("acr") | st.integers(0, 9), max_size=40))
def test_sound_is_neither_lost_nor_doubled(steps: list[str | int]) -> None:
    """Whatever is reserved, settled and given back, the accepted units are the sound in its order."""
    buffer, accepted, appended = FixedUnitBuffer(3), [], 0
    reserved = []
    for step in steps:
        if isinstance(step, int):
            buffer.append(count(appended, appended + step))
            appended += step
        elif step == "a" and (unit := buffer.prepare_append()) is not None:
            reserved.append(unit)
        elif step == "c" and reserved:
            unit = reserved.pop(0)
            unit.commit()
            accepted += unit.pcm.tolist()
        elif step == "r" and reserved:
            reserved.pop(0).rollback()
            reserved.clear()
        assert buffer.pending_bytes == (appended - len(accepted)) * 4
    assert accepted == list(range(len(accepted)))
