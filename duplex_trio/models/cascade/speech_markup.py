"""Takes the markup out of text that is to be spoken.

Owns Markdown, HTML, TeX, links and addresses, as small chat models write them. Works on fragments: a clause
may hold half of a bold phrase, so marks are dropped whether or not they have a partner. Numbers and symbols
are read elsewhere.
"""

from __future__ import annotations

import html
import re

_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,}).*$", re.MULTILINE)
_RULE = re.compile(r"^[ \t]*(?:[-*_=][ \t]*){3,}$", re.MULTILINE)
_TABLE_RULE = re.compile(r"^(?=[^\n]*\|)(?=[^\n]*-)[ \t|:+-]+$", re.MULTILINE)
_LINE_MARK = re.compile(
    r"^[ \t]*(?:>[ \t]*|\#{1,6}[ \t]+|[-*+\u2022\u00b7\u25cf\u25aa\u2013][ \t]+(?:\[[ xX]\][ \t]+)?"
    r"|\(?\d{1,2}[.)][ \t]+(?=\S))+(?P<rest>.*)$",
    re.MULTILINE,
)
_TABLE_ROW = re.compile(r"^[ \t]*\|(.*?)\|?[ \t]*$", re.MULTILINE)
_IMAGE = re.compile(r"!\[([^\]]*)\]\([^)]*\)")
_LINK = re.compile(r"\[([^\]]+)\](?:\([^)]*\)|\[[^\]]*\])")
_LINK_TAIL = re.compile(r"\](?:\([^)\s]*\)|\[[^\]\s]*\])")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9]*(?:\s[^<>]*)?/?>")
_ANGLE_LINK = re.compile(r"<((?:https?://|mailto:)[^<>\s]+|[\w.+-]+@[\w-]+\.[\w.-]+)>")
_TEX_COMMAND = re.compile(r"\\(frac|times|div|cdot|pm|leq?|geq?|neq?|approx|sqrt|pi|infty)\b")
_TEX_FRACTION = re.compile(r"\\[dt]?frac\{([^{}]*)\}\{([^{}]*)\}")
_TEX_DELIMITER = re.compile(r"\\[()\[\]]|\$\$")
_ESCAPE = re.compile(r"\\([\\`*_{}\[\]()#+\-.!|~>$%&])")
_EMAIL = re.compile(r"(?:mailto:)?\b([\w.+-]+)@([\w-]+(?:\.[\w-]+)+)\b")
_URL = re.compile(r"\b(?:https?://|ftp://|www\.)[^\s<>\"'`)\]}]+", re.IGNORECASE)
_DOMAIN = re.compile(
    r"(?<![\w@.-])((?:[a-z0-9-]+\.)+(?:com|org|net|edu|gov|io|ai|dev|app|co|uk|de|fr|eu|us|ca|info))\b(?:/[^\s,;:!?]*)?",
    re.IGNORECASE,
)
_EMPHASIS = re.compile(r"(?<!\w)_{1,3}(?=\S)|(?<=\S)_{1,3}(?!\w)")
_POWER = re.compile(r"(?<=[\w)])\*\*(?=\d)")
_PRODUCT = re.compile(r"(?<=\d)[ \t]*\*[ \t]*(?=\d)")

_TEX_WORDS = {
    "frac": "",
    "times": "\u00d7",
    "div": "\u00f7",
    "cdot": "\u00d7",
    "pm": "\u00b1",
    "le": "\u2264",
    "leq": "\u2264",
    "ge": "\u2265",
    "geq": "\u2265",
    "ne": "\u2260",
    "neq": "\u2260",
    "approx": "\u2248",
    "sqrt": "\u221a",
    "pi": "pi",
    "infty": "infinity",
}


def without_markup(text: str) -> str:
    """The words of a fragment of Markdown, line by line.

    Headings, list items and table rows become sentences; links keep their text, addresses are spelt as people
    say them ("example dot com").
    """
    text = html.unescape(text).replace("\r", "\n")
    text = _COMMENT.sub(" ", text)
    text = _FENCE.sub("", text)
    text = _RULE.sub("", text)
    text = _TABLE_RULE.sub("", text)
    text = _TABLE_ROW.sub(_row, text)
    text = _LINE_MARK.sub(_line, text)
    return _inline(text)


def _inline(text: str) -> str:
    text = _IMAGE.sub(r"\1", text)
    text = _LINK.sub(r"\1", text)
    text = _LINK_TAIL.sub("", text)
    text = _ANGLE_LINK.sub(r"\1", text)
    text = _TAG.sub(" ", text)
    text = _TEX_FRACTION.sub(r"\1 over \2", text)
    text = _TEX_COMMAND.sub(lambda match: f" {_TEX_WORDS[match[1]]} ", text)
    text = _TEX_DELIMITER.sub("", text)
    text = _ESCAPE.sub(r"\1", text)
    text = _EMAIL.sub(lambda match: f"{_dotted(match[1])} at {_dotted(match[2])}", text)
    text = _URL.sub(_address, text)
    text = _DOMAIN.sub(lambda match: _dotted(match[1]), text)
    text = _POWER.sub("^", text)
    text = _PRODUCT.sub(" \u00d7 ", text)
    text = _EMPHASIS.sub("", text)
    return text.replace("*", "").replace("`", "").replace("~~", "")


def _row(match: re.Match[str]) -> str:
    cells = [cell.strip() for cell in match[1].split("|")]
    return _ended(", ".join(cell for cell in cells if cell))


def _line(match: re.Match[str]) -> str:
    # A fragment that stops within its line has its end still to come, so only a whole line becomes a
    # sentence.
    whole = match.end() < len(match.string)
    return _ended(match["rest"]) if whole else match["rest"]


def _ended(line: str) -> str:
    line = line.rstrip().rstrip("#").rstrip()
    return line if not line or line.rstrip("\"'*_`)\u201d")[-1:] in tuple(".,;:!?\u2026") else line + "."


def _address(match: re.Match[str]) -> str:
    url = match[0]
    trailing = url[len(url.rstrip(".,;:!?")) :]
    host = re.sub(r"^(?:\w+://)?(?:www\.)?", "", url, flags=re.IGNORECASE)
    host = re.split(r"[/?#:]", host.rstrip(".,;:!?"), maxsplit=1)[0]
    return _dotted(host) + trailing


def _dotted(name: str) -> str:
    return name.replace(".", " dot ").replace("_", " underscore ").replace("-", " dash ")
