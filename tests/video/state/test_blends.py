from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.video.state.timeline import PromptTimeline


@given(st.lists(st.none() | st.integers(0, 4), max_size=20))
def test_states_are_mixed_only_where_that_is_told_before(offers: list[int | None]) -> None:
    mixed = 0

    def blend(source: Fraction, target: Fraction, alpha: Fraction) -> Fraction:
        nonlocal mixed
        mixed += 1
        return source + (target - source) * alpha

    timeline = PromptTimeline(Fraction(0), blend)
    for number, chunks in enumerate(offers):
        if chunks is not None:
            timeline.offer(f"event {number}", Fraction(number), chunks)
        told, before = timeline.blends, mixed
        timeline.resolve()
        assert told or mixed == before


def test_a_transition_and_only_that_mixes_states() -> None:
    timeline = PromptTimeline(Fraction(0), lambda source, target, alpha: source + (target - source) * alpha)
    assert not timeline.blends
    timeline.offer("hard", Fraction(1), 0)
    assert not timeline.blends
    timeline.offer("soft", Fraction(1), 2)
    assert timeline.blends
    timeline.resolve()
    assert timeline.blends
    timeline.offer("hard again", Fraction(2), 1)
    assert not timeline.blends
    timeline.resolve()
    assert not timeline.blends
