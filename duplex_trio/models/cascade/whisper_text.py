"""Whisper's tokens: the prompt that starts a transcript, the text that comes out, and decoding that has run
into a loop.

Owns what is known from `tokenizer.json` alone; running the network is the recogniser's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

_LANGUAGE = re.compile(r"<\|([a-z]{2,3})\|>")
_PERIOD_TOKENS_MAX = 24
_SINGLE_REPEATS_MIN = 3


class WhisperTokens:
    """The tokenizer of one Whisper model.

    `languages` are the language codes that a transcript may be asked for: `en` alone for an English-only
    model.

    Args:
        folder: a model folder with `tokenizer.json`.
        multilingual: whether the network takes language and task tokens.

    Raises:
        FileNotFoundError: the folder holds no `tokenizer.json`.
        ValueError: the tokenizer is not Whisper's.
    """

    def __init__(self, folder: Path, *, multilingual: bool) -> None:
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise FileNotFoundError(f"{folder} holds no tokenizer.json, needed to read Whisper's output")
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(path))
        self._multilingual = multilingual
        vocabulary = self._tokenizer.get_vocab(with_added_tokens=True)
        self._ids: dict[str, int] = {t: number for t, number in vocabulary.items() if t.startswith("<|")}
        for token in ("<|startoftranscript|>", "<|transcribe|>", "<|notimestamps|>"):
            if token not in self._ids:
                raise ValueError(f"{path} has no token {token}: not the tokenizer of a Whisper model")
        codes = {match[1] for token in self._ids if (match := _LANGUAGE.fullmatch(token))}
        self.languages = frozenset(codes) if multilingual else frozenset({"en"})

    def prompt(self, language: str) -> list[int]:
        """The tokens before the first word of a transcript without timestamps in one of `languages`."""
        tokens = ["<|startoftranscript|>"]
        if self._multilingual:
            tokens += [f"<|{language}|>", "<|transcribe|>"]
        return [self._ids[token] for token in [*tokens, "<|notimestamps|>"]]

    def text(self, ids: Sequence[int]) -> str:
        """The text of generated tokens, special ones left out."""
        decoded: str = self._tokenizer.decode(list(ids), skip_special_tokens=True)
        return decoded.strip()

    def keys(self, ids: Sequence[int]) -> list[str]:
        """What generated tokens have in common when they say the same: letters and digits, in lower case."""
        pieces: list[str] = [(self._tokenizer.id_to_token(id_) or "").removeprefix("\u0120") for id_ in ids]
        return ["".join(c for c in piece.lower() if c.isalnum()) for piece in pieces]


def language_of_token(token: str) -> str:
    """The code in a language token such as `<|en|>`.

    Raises:
        ValueError: the token is none.
    """
    match = _LANGUAGE.fullmatch(token)
    if match is None:
        raise ValueError(f"{token!r} is no language token")
    return match[1]


def token_limit(seconds: float) -> int:
    """How many tokens speech of this length can have; more is a loop. Speech has about 4 tokens a second."""
    return 8 + int(7 * seconds)


def repetition_start(keys: Sequence[str]) -> int | None:
    """Where the text begins to say again what it has just said, up to its end; `None` if it does not.

    A phrase counts from the second time on, a single token from the third. People repeat themselves too, so
    this is a reason to look again, not a verdict.

    Args:
        keys: what `WhisperTokens.keys` gives. Tokens without letters and digits are looked through, unless
            there are no others.

    Returns:
        The index of the first token after the phrase's first time.
    """
    places = [index for index, key in enumerate(keys) if key] or list(range(len(keys)))
    said = [keys[index] for index in places]
    period = _tail_period(said)
    if period is None:
        return None
    first = len(said)
    while first - period > 0 and said[first - 1] == said[first - period - 1]:
        first -= 1
    return places[first - 1] + 1


def _tail_period(said: Sequence[str]) -> int | None:
    for period in range(1, min(_PERIOD_TOKENS_MAX, len(said) // 2) + 1):
        length = period * (_SINGLE_REPEATS_MIN if period == 1 else 2)
        if length <= len(said) and all(said[-i] == said[-i - period] for i in range(1, length - period + 1)):
            return period
    return None
