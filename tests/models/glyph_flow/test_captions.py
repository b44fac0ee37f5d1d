"""What glyphs are called."""

from __future__ import annotations

import pytest

from duplex_trio.models.glyph_flow.captions import ALIASES, caption_of, phrasings


@pytest.mark.parametrize(
    ("glyph", "caption"),
    [
        ("🐱", "cat face"),
        ("🍎", "red apple"),
        ("☀", "sun with rays"),  # black in Unicode's name, yellow in the picture
        ("🖤", "black heart"),
        ("🎃", "jack-o-lantern"),
        ("👒", "woman's hat"),
        ("🐻\u200d❄️", "polar bear"),
    ],
)
def test_names_are_cleaned(glyph: str, caption: str) -> None:
    assert caption_of(glyph) == caption


@pytest.mark.parametrize("glyph", ["\U0001f1e6", "\U0001f3fb", "🆗", "↔", "🔡", "\x00", "👩\u200d🚒"])
def test_pictures_of_nothing_have_none(glyph: str) -> None:
    assert caption_of(glyph) is None


def test_phrasings_begin_with_the_caption_and_hold_its_aliases() -> None:
    said = phrasings("rocket")
    assert said[0] == "rocket"
    assert "a picture of a rocket" in said
    assert set(ALIASES["rocket"]) <= set(said)
    assert len(set(said)) == len(said)
