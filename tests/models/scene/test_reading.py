"""From probabilities to what is shown: whatever a prompt says, it is a picture of one place at one time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from duplex_trio.models.scene.reading import INDEX, Amounts, state_of
from duplex_trio.models.scene.vocabulary import NAMES, PLACES, TIMES
from tests.models.scene.support import state

PROBABILITIES = arrays.arrays(np.float32, len(NAMES), elements=st.floats(0, 1, width=32))


@settings(deadline=None)
@given(PROBABILITIES)
def test_any_probabilities_make_a_state(probabilities: np.ndarray) -> None:
    before = probabilities.copy()
    shown = state_of(probabilities)
    assert np.array_equal(probabilities, before)
    assert shown.dtype == np.float32
    assert shown.min() >= 0
    assert shown.max() <= 1
    assert sorted(float(shown[INDEX[name]]) for name in TIMES) == [0, 0, 0, 1]
    places = {name for name in PLACES if shown[INDEX[name]] > 0}
    assert places
    assert not places & {"underwater", "space"} or len(places) == 1


@pytest.mark.parametrize(
    ("said", "shown", "not_shown"),
    [
        ({}, ("meadow", "mountains", "day"), ("night", "sea", "space")),
        ({"neon": 0.9, "city": 0.9}, ("night",), ("day",)),
        ({"neon": 0.9, "city": 0.9, "day": 0.95}, ("day",), ("night",)),
        ({"aurora": 0.9, "lake": 0.9}, ("night",), ("stars",)),
        ({"boat": 0.9}, ("sea", "boat"), ("meadow",)),
        ({"boat": 0.9, "lake": 0.32}, ("sea", "boat"), ("lake",)),
        (
            {"lanterns": 1.0, "snow": 0.29, "village": 0.25},
            ("street", "lanterns", "night"),
            ("meadow", "snow"),
        ),
        ({"lanterns": 0.9, "beach": 0.45}, ("beach", "lanterns"), ("street",)),
        ({"lanterns": 0.7, "castle": 0.95}, ("castle", "lanterns"), ("street",)),
        ({"lanterns": 0.94, "boat": 0.93}, ("sea", "boat", "lanterns"), ("street",)),
        ({"neon": 0.9}, ("city", "neon", "night"), ("meadow",)),
        ({"fire": 0.9}, ("forest", "fire", "night"), ("meadow",)),
        ({"fire": 0.9, "day": 0.9}, ("forest", "fire", "day"), ("night",)),
        ({"fish": 0.9, "underwater": 0.2}, ("underwater", "fish"), ("meadow",)),
        ({"planet": 0.9, "space": 0.3}, ("space", "planet"), ("meadow",)),
        ({"lighthouse": 0.9, "mountains": 0.6}, ("sea", "lighthouse", "mountains"), ()),
        ({"beach": 0.9}, ("sea", "beach"), ("lake",)),
        ({"ice": 0.9}, ("snow", "ice"), ()),
        ({"desert": 0.9, "sea": 0.55}, ("desert",), ("sea",)),
        ({"city": 0.9, "street": 0.7}, ("city",), ("street",)),
        ({"city": 0.6, "street": 0.9}, ("street",), ("city",)),
        ({"underwater": 0.8, "sea": 0.7, "fish": 0.9}, ("underwater", "fish"), ("sea",)),
        ({"sea": 0.9, "fish": 0.9}, ("sea",), ("fish",)),
        ({"space": 0.7, "planet": 0.35}, ("space", "planet"), ("meadow",)),
        ({"storm": 0.9, "sea": 0.9}, ("storm", "rain"), ()),
        ({"snowfall": 0.9, "rain": 0.9, "forest": 0.9}, ("snowfall",), ("rain",)),
    ],
)
def test_things_bring_and_exclude_each_other(
    said: dict[str, float], shown: tuple[str, ...], not_shown: tuple[str, ...]
) -> None:
    amounts = Amounts(state(**said))
    assert {name: getattr(amounts, name) for name in shown if getattr(amounts, name) < 0.5} == {}
    assert {name: getattr(amounts, name) for name in not_shown if getattr(amounts, name) > 0.1} == {}


def test_a_thing_that_is_not_known_has_no_amount() -> None:
    with pytest.raises(AttributeError, match="unicorn"):
        _ = Amounts(state()).unicorn
