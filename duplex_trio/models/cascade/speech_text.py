"""Makes a reply speakable: from what a small chat model writes to what an English voice says.

Owns symbols, abbreviations and punctuation; markup and numbers have their own modules. The result is also
what the transcript shows. Meant for one clause at a time, so nothing here needs to see a whole sentence.
"""

from __future__ import annotations

import re
import unicodedata

from duplex_trio.models.cascade.speech_markup import without_markup
from duplex_trio.models.cascade.spoken_numbers import read_numbers

_WORDS: tuple[tuple[str, str], ...] = (
    (r"(?<!\w)[:;][-']?[)(DPp](?!\w)|<3(?!\d)", " "),
    (r"\be\.\s?g\.", "for example"),
    (r"\bi\.\s?e\.", "that is"),
    (r"\betc\.(?=\s*[,;:)\w])|\betc\b(?!\.)", "et cetera"),
    (r"\betc\.", "et cetera."),
    (r"\bvs\b\.?", "versus"),
    (r"\bapprox\.", "approximately"),
    (r"\bincl\.", "including"),
    (r"\ba\.?k\.?a\b\.?", "also known as"),
    (r"\b[Nn]o\.\s?(?=\d)|\u2116\s?|(?<![\w&])#\s?(?=\d)", "number "),
    (r"\b[Ff]ig\.\s?(?=\d)", "figure "),
    (r"\b[Pp]p?\.\s?(?=\d)", "page "),
    (r"\bw/o\b", "without"),
    (r"\bw/(?=\s|\w)", "with "),
    (r"\b[nN]/[aA]\b", "not applicable"),
    (r"(?<=\b[CF])#", " sharp"),
    (r"\s?(?:-+>|=+>|[\u2192\u27a1\u21d2])\s?", " to "),
    (r"(?<=\d)[xX\u00d7](?=\d)", " by "),
    (r"(?<=\d)\s[xX]\s(?=\d)|\u00d7|\u22c5", " times "),
    (r"\u00f7", " divided by "),
    (r"\u00b1|\+/-", " plus or minus "),
    (r"\u2248|(?<!\w)~\s?(?=[\d$\u20ac\u00a3])", " about "),
    (r"\u2260|!=", " is not equal to "),
    (r"\u2264|<=", " is at most "),
    (r"\u2265|>=", " is at least "),
    (r"(?<=\d)\s?<\s?(?=\d)", " is less than "),
    (r"(?<=\d)\s?>\s?(?=\d)", " is greater than "),
    (r"\u221a", " the square root of "),
    (r"\u221e", " infinity "),
    (r"\u00a7", " section "),
    (r"(?<=\S)\s?=+\s?(?=\S)", " equals "),
    (r"&", " and "),
    (r"\+", " plus "),
    (r"(?<=\w)@(?=\w)|(?<=\s)@(?=\s)", " at "),
    (r"(?<=[A-Za-z]{2})\.(?=[a-z][a-z0-9]{1,3}\b)", " dot "),
)
_SLASHES: tuple[tuple[str, str], ...] = (
    (r"\band/or\b", "and or"),
    (r"(?<=[A-Z])/(?=[A-Z])", " "),
    (r"(?<=[^\W\d_])\s?/\s?(?=[^\W\d_])", " or "),
)
_TIDY: tuple[tuple[str, str], ...] = (
    (r"\s+", " "),
    (r"\s(?:--?|\u2013)\s", " \u2014 "),
    (r"\(\s*\)|\"\s*\"|\u201c\s*\u201d", ""),
    (r"\(\s+", "("),
    (r"\s+([,.;:!?)\u2026])", r"\1"),
    (r"([,;:])(?:\s*[,;:])+", r"\1"),
    (r"[,;:]+(?=[.!?])", ""),
    (r"([!?])\1+", r"\1"),
    (r"\.{4,}", "..."),
    (r"(?<=[^\W_])([,;])(?=[^\W_])", r"\1 "),
    (r"\s+", " "),
)
_LEADING = " ,;:.!?)-\u2013\u2014\u2026"
_DROPPED_CATEGORIES = {"Cc", "Cf", "Cn", "Co", "Cs", "Me", "Sc", "Sk", "Sm", "So"}
_DROPPED = set("#[]{}<>\\|^~_*`@/\u00ab\u00bb\u2022\u00b7")


def _compiled(rules: tuple[tuple[str, str], ...]) -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(pattern), words) for pattern, words in rules]


_STEPS_BEFORE_NUMBERS = _compiled(_WORDS)
_STEPS_AFTER_NUMBERS = _compiled(_SLASHES)
_STEPS_AT_LAST = _compiled(_TIDY)


def speakable(text: str) -> str:
    """What is said for a piece of text, on one line; empty when there is nothing to say.

    Markup, emoji and symbols without a reading are dropped; numbers, money, dates, times, measures, addresses
    and common abbreviations become words; punctuation that carries the melody of speech stays.
    """
    text = without_markup(unicodedata.normalize("NFC", text))
    text = _applied(_STEPS_BEFORE_NUMBERS, text)
    text = _applied(_STEPS_AFTER_NUMBERS, read_numbers(text))
    text = _applied(_STEPS_AT_LAST, "".join(map(_kept, text)))
    text = text.lstrip(_LEADING).rstrip()
    return text if any(character.isalnum() for character in text) else ""


def _applied(steps: list[tuple[re.Pattern[str], str]], text: str) -> str:
    for pattern, words in steps:
        text = pattern.sub(words, text)
    return text


def _kept(character: str) -> str:
    if character.isspace() or character in _DROPPED or "\ufe00" <= character <= "\ufe0f":
        return " "
    if character == "%":
        return " percent"
    return " " if unicodedata.category(character) in _DROPPED_CATEGORIES else character
