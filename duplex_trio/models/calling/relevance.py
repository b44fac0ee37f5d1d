"""Which function what the user said is about, for models too small to decide that themselves.

Words in common with a function's name and description are all that counts. That is crude, and still better
than a model that never calls: it fills in the arguments well when it is told which function to call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_WORD = re.compile(r"[a-z]+|[^\W\d_a-z]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_EMPTY = """
a about an and any are as at be been by call called can could did do does for from function get gets give given gives
had has have he her him his how i if in into is it its let make many may me much my no not of off on one or our please
returns set she should so some tell than that the their them then there these they this those to told use used user
using want was we what when where which who why will with would yes you your
"""
_EMPTY_WORDS = frozenset(_EMPTY.split())
_ENDINGS = ("ing", "ed", "s")
NAME_WEIGHT = 2
"""What a word of the name counts for, over one of the description."""


def likely_function(tools: Sequence[Mapping[str, Any]], said: str) -> str | None:
    """The name of the function with most words in common with what was said; None if there is none with any.

    A function is about its name: words of its description decide between functions, and count by themselves
    only when there are two of them.
    """
    words = _words(said)
    scores = {str(tool["name"]): _score(tool, words) for tool in tools}
    best = max(scores, key=lambda name: scores[name], default=None)
    return best if best is not None and scores[best] >= NAME_WEIGHT else None


def _score(tool: Mapping[str, Any], said: frozenset[str]) -> int:
    name = _words(_CAMEL.sub(" ", str(tool["name"])).replace("_", " "))
    description = _words(str(tool.get("description") or "")) - name
    return NAME_WEIGHT * len(name & said) + len(description & said)


def _words(text: str) -> frozenset[str]:
    return frozenset(_stem(word) for word in _WORD.findall(text.lower()) if word not in _EMPTY_WORDS)


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending).rstrip("e")
    return word.rstrip("e")
