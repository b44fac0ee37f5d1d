"""What a model says of a request that it does not take, as its client is told."""

from __future__ import annotations

WORDS_CHARS_MAX = 1_000
"""Characters of it: a model may quote what it was given."""


def words_of(error: Exception, otherwise: str) -> str:
    """Its words, as far as UTF-8 can express them and a client wants to read them.

    Args:
        error: what the model raised.
        otherwise: what is said where it has no words.
    """
    # A model may quote a key that has half of a surrogate pair, which no message can hold.
    return str(error).encode("utf-8", "backslashreplace").decode()[:WORDS_CHARS_MAX] or otherwise
