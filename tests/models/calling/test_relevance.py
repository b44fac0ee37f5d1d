"""Which function what was said is about: words in common decide, and no words in common call nothing."""

from __future__ import annotations

import pytest

from duplex_trio.models.calling.relevance import likely_function

TOOLS = (
    {"name": "get_weather", "description": "Returns the forecast of a city."},
    {"name": "bookTable", "description": "Reserves a table at a restaurant."},
    {"name": "hang_up", "description": "End the call."},
    {"name": "wetter_abfragen", "description": ""},
    {"name": "set_timer"},
)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("What is the weather in Paris?", "get_weather"),
        ("Will the weathers be good?", "get_weather"),
        ("I want to book something.", "bookTable"),
        ("I need two tables, please.", "bookTable"),
        ("Now hang up, goodbye.", "hang_up"),
        ("The forecast for our city?", "get_weather"),
        ("Wie ist das Wetter?", "wetter_abfragen"),
        ("Start a timer for ten minutes", "set_timer"),
        ("Tell me a joke.", None),
        ("What can you do for me?", None),
        ("I live in a city.", None),
        ("", None),
    ],
)
def test_words_in_common_decide(said: str, name: str | None) -> None:
    """Those of the name by themselves, those of the description when there are two.

    Small words count for nothing.
    """
    assert likely_function(TOOLS, said) == name


def test_the_closest_function_is_meant() -> None:
    """Of several with a word in common the one with most of them."""
    tools = ({"name": "read_mail"}, {"name": "send_mail"}, {"name": "delete_mail"})
    assert likely_function(tools, "please send a mail to Ann") == "send_mail"
    assert likely_function((), "send a mail") is None
