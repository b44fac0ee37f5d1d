"""Cuts a reply into clauses while it is being written.

Owns where a reply may be cut so that each piece can be spoken on its own, the first one as early as possible.
Takes text as it comes and knows nothing of how it is spoken.

Theory of operation. The splitter reads one character at a time and decides when a word begins, from what came
before it, so the same text gives the same clauses however it was chunked. What precedes the word is a
*sentence end*, a *phrase end* or nothing. The first clause ends at any sentence end, at a phrase end once it
is a few words long, or at a word when no punctuation comes. Later ones gather a little more, because by then
sound is playing. Nothing is changed: joined, the clauses are the text.
"""

from __future__ import annotations

import re
from enum import Enum

from attrs import define, field

SENTENCE_CHARS_MIN = 30
"""A later clause shorter than this waits for the next sentence; the first one does not."""
PHRASE_CHARS_MIN = (12, 36, 80)
"""How long the first, second and every later clause must be to end at a comma."""
FIRST_CHARS_MAX = 60
"""Where the first clause ends for want of punctuation."""
CLAUSE_CHARS_MAX = 200
"""Where any clause ends."""

_CLOSERS = "\"'\u201d\u2019)]}*_`"
_WIDE_SENTENCE_ENDS = "\u3002\uff01\uff1f"
_DASHES = "\u2014\u2013"
_ABBREVIATION = re.compile(
    r"(?:^|[^\w.])(?:[A-HJ-Z]|(?:[A-Za-z]\.)+[A-Za-z]|Mr|Mrs|Ms|Mx|Dr|Prof|Rev|Hon|St|Mt|Gen|Col|Capt|Lt|Sgt|Sen|Rep"
    r"|Gov|Pres|Jr|Sr|vs|cf|ca|approx|est|incl|al|Inc|Ltd|Corp|Jan|Feb|Apr|Jun|Jul|Aug|Sep|Sept|Oct|Nov|Dec)\.$"
)
_NUMBER_LABEL = re.compile(r"(?:^|\W)(?:No|Nos|Fig|Figs|Vol|Ch|Sec|Mar|pp?|no|nos|fig|figs|vol|ch|sec)\.$")
"""What shortens a word only in front of a number; otherwise "No." is an answer."""
_NUMBERING = re.compile(r"(?:^|\n)[\s>*_#-]*\d{1,3}\.$")


class _End(Enum):
    NONE = "none"
    PHRASE = "phrase"
    SENTENCE = "sentence"
    LINE = "line"


@define
class ClauseSplitter:
    """Feed it text, get the clauses that are complete.

    One splitter serves one reply, or several after `flush`.
    """

    _pending: str = field(default="", init=False)
    _count: int = field(default=0, init=False)
    _word_at: int = field(default=0, init=False)
    _phrase_at: int = field(default=0, init=False)

    def feed(self, text: str) -> list[str]:
        """Take more text; returns the clauses that it completed, each with the white space after it."""
        clauses: list[str] = []
        for character in text:
            cut = self._cut_before(character)
            self._pending += character
            while cut:
                clauses.append(self._pending[:cut])
                cut = self._restart(self._pending[cut:])
        return clauses

    def flush(self) -> list[str]:
        """The text is complete: returns what was held back, unless that is white space, and starts over."""
        rest = self._pending
        self._pending = ""
        self._count = self._word_at = self._phrase_at = 0
        return [rest] if rest.strip() else []

    def _restart(self, rest: str) -> int:
        """Begin the next clause with text that was read before; returns where that ends it again, or 0."""
        self._count += 1
        self._pending = ""
        self._word_at = self._phrase_at = 0
        for index, character in enumerate(rest):
            cut = self._cut_before(character)
            self._pending += character
            if cut:
                self._pending += rest[index + 1 :]
                return cut
        return 0

    def _cut_before(self, character: str) -> int:
        """How much of the pending text is a clause now that `character` follows it; 0 for none."""
        here = len(self._pending)
        if self._begins_word(character):
            head = self._pending.strip()
            if any(c.isalnum() for c in head):
                end = _end_of(self._pending, head, character)
                if self._suffices(end, len(head)):
                    return here
                self._word_at = here
                if end is not _End.NONE:
                    self._phrase_at = here
        return self._forced_cut() if here >= CLAUSE_CHARS_MAX else 0

    def _begins_word(self, character: str) -> bool:
        last = self._pending[-1:]
        if not last or character.isspace():
            return False
        if last in _DASHES:
            return not (character.isdigit() and self._pending[-2:-1].isdigit())
        return last.isspace() or (
            last in _WIDE_SENTENCE_ENDS and character not in _WIDE_SENTENCE_ENDS + _CLOSERS
        )

    def _suffices(self, end: _End, chars: int) -> bool:
        first = self._count == 0
        match end:
            case _End.LINE:
                return True
            case _End.SENTENCE:
                return first or chars >= SENTENCE_CHARS_MIN
            case _End.PHRASE:
                return chars >= PHRASE_CHARS_MIN[min(self._count, len(PHRASE_CHARS_MIN) - 1)]
            case _End.NONE:
                return first and chars >= FIRST_CHARS_MAX

    def _forced_cut(self) -> int:
        if self._phrase_at >= SENTENCE_CHARS_MIN:
            return self._phrase_at
        return self._word_at or len(self._pending)


def _end_of(text: str, head: str, following: str) -> _End:
    """What kind of end the text before a word is; `head` is the text without the white space round it."""
    gap = text[len(text.rstrip()) :]
    if "\n" in gap:
        return _End.LINE
    bare = head.rstrip(_CLOSERS)
    last = bare[-1:]
    if last and last in _WIDE_SENTENCE_ENDS:
        return _End.SENTENCE
    if bare.endswith(("...", "\u2026")):
        return _End.PHRASE
    if last and last in ".!?":
        quoted = any(mark in "\"'\u201d\u2019" for mark in head[len(bare) :])
        if quoted and following.islower():
            return _End.NONE
        return _End.NONE if last == "." and _is_inner_full_stop(bare, following) else _End.SENTENCE
    if last and (last in ",;:" or last in _DASHES):
        return _End.PHRASE
    if bare.endswith((" -", " --")) and not following.isdigit():
        return _End.PHRASE
    return _End.NONE


def _is_inner_full_stop(bare: str, following: str) -> bool:
    if _ABBREVIATION.search(bare) or _NUMBERING.search(bare):
        return True
    return following.isdigit() and _NUMBER_LABEL.search(bare) is not None
