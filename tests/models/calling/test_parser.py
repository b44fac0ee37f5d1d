"""Calls are found in a text however it is cut into pieces, and nothing of them is said."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.models.calling.parser import (
    CallArguments,
    CallBroken,
    CallComplete,
    CallParser,
    CallStarted,
    Piece,
    Words,
)

NAMES = frozenset({"look_up", "book"})
ONE = '{"name": "look_up", "arguments": {"city": "Paris"}}'
TWO = '{"name":"book","arguments":{"seats":[1,{"a":"}"}],"note":"a \\"quoted\\" {word}"}}'


def call(name: str, arguments: str) -> list[Piece]:
    return [CallStarted(name), CallArguments(arguments), CallComplete()]


LOOK_UP = call("look_up", '{"city": "Paris"}')
BOOK = call("book", '{"seats":[1,{"a":"}"}],"note":"a \\"quoted\\" {word}"}')


def joined(pieces: Sequence[Piece]) -> list[Piece]:
    """Neighbours of a kind as one, so that texts cut differently can be compared."""
    result: list[Piece] = []
    for kind, group in groupby(pieces, key=type):
        if kind in (Words, CallArguments):
            result.append(kind("".join(piece.text for piece in group)))
        else:
            result += group
    return result


def parse(*texts: str) -> list[Piece]:
    parser = CallParser(NAMES)
    pieces: list[Piece] = []
    for text in texts:
        pieces += parser.feed(text)
    return joined(pieces + parser.flush())


CASES: dict[str, tuple[str, list[Piece]]] = {
    "plain text": ("It is 3 < 4, [really] {so}.", [Words("It is 3 < 4, [really] {so}.")]),
    "nothing": ("", []),
    "a tagged call": (f"<tool_call>\n{ONE}\n</tool_call>", LOOK_UP),
    "words before it": (f"One moment. <tool_call>{ONE}</tool_call>", [Words("One moment. "), *LOOK_UP]),
    "words behind it": (f"<tool_call>{ONE}</tool_call> It rains.", [*LOOK_UP, Words(" It rains.")]),
    "a tag that is not closed": (f"<tool_call>{ONE}", LOOK_UP),
    "another tag": (f"<function_call>{TWO}</function_call>", BOOK),
    "a list behind a tag": (
        f"[TOOL_CALLS] [{ONE}, {TWO}]",
        call("look_up", '{"city": "Paris"}') + call("book", json.dumps(json.loads(TWO)["arguments"])),
    ),
    "two tagged calls": (
        f"<tool_call>{ONE}</tool_call>\n<tool_call>{TWO}</tool_call>",
        [*LOOK_UP, Words("\n"), *BOOK],
    ),
    "two calls in one tag": (f"<tool_call>\n{ONE}\n{TWO}\n</tool_call>", [*LOOK_UP, *BOOK]),
    "two calls and a comma": (f"<tool_call>{ONE}, {TWO}</tool_call>", [*LOOK_UP, *BOOK]),
    "a bare call": (ONE, LOOK_UP),
    "a bare call in a sentence": (f"I ask: {ONE} now", [Words("I ask: "), *LOOK_UP, Words(" now")]),
    "a fenced call": (f"Sure:\n```json\n{ONE}\n```\n", [Words("Sure:\n"), *LOOK_UP, Words("\n")]),
    "a fence on one line": (f"Sure: ```json {ONE} ```", [Words("Sure: "), *LOOK_UP]),
    "a fence without a label": (f"```\n{TWO}\n```", BOOK),
    "a fence of code": ("```python\nprint(1)\n```", [Words("```python\nprint(1)\n```")]),
    "a fence of data": ('```json\n{"a": 1}\n```', [Words('```json\n{"a": 1}\n```')]),
    "a fence of data with a name": (
        '```json\n{"name": "Ann"}\n```',
        [Words('```json\n{"name": "Ann"}\n```')],
    ),
    "a fence in words": ("a `b` ``c`` ```d``` e", [Words("a `b` ``c`` ```d``` e")]),
    "data in JSON": ('{"city": "Paris", "name": "look_up"}', [Words('{"city": "Paris", "name": "look_up"}')]),
    "data that begins like a call": (
        '{"name": "Ann", "age": 3}',
        [Words('{"name": "Ann", "age": 3}')],
    ),
    "a list of numbers": ("[1, 2]", [Words("[1, 2]")]),
    "a list of data": ('[{"a": 1}]', [Words('[{"a": 1}]')]),
    "an array of calls": (f"[{ONE}]", call("look_up", '{"city": "Paris"}')),
    "an array with room": (f"[ {ONE} ]", call("look_up", '{"city": "Paris"}')),
    "parameters": ('{"name":"book","parameters":{"n":1}}', call("book", '{"n":1}')),
    "arguments in front": ('{"arguments":{"n":1},"name":"book"}', call("book", '{"n": 1}')),
    "arguments as text": ('{"name":"book","arguments":"{\\"n\\":1}"}', call("book", '{"n": 1}')),
    "no arguments": ('{"name":"book"}', call("book", "{}")),
    "null arguments": ('{"name":"book","arguments":null}', call("book", "{}")),
    "function for name": ('{"function":"book","arguments":{"n":1}}', call("book", '{"n":1}')),
    "OpenAI's form": (
        '{"type":"function","function":{"name":"book","arguments":"{}"}}',
        call("book", "{}"),
    ),
    "OpenAI's list": (f'{{"tool_calls":[{ONE}]}}', call("look_up", '{"city": "Paris"}')),
    "an escaped name": ('{"name":"b\\u006fok","arguments":{"n":1}}', call("book", '{"n":1}')),
    "an unknown function": (
        '{"name":"fly","arguments":{}}',
        [CallBroken('{"name":"fly","arguments":{}}', "there is no function 'fly', but book, look_up")],
    ),
    "an unknown function in a tag": (
        '<tool_call>{"name":"fly"}</tool_call>',
        [CallBroken('<tool_call>{"name":"fly"}', "there is no function 'fly', but book, look_up")],
    ),
    "words in a tag": (
        "<tool_call>book(1)</tool_call> so",
        [CallBroken("<tool_call>book(1)</tool_call>", "the call is not JSON"), Words(" so")],
    ),
    "words in a tag that stays open": (
        "<tool_call>book(1)",
        [CallBroken("<tool_call>book(1)", "the call breaks off")],
    ),
    "arguments that are no object": (
        '{"name":"book","arguments":[1]}',
        [CallBroken('{"name":"book","arguments":[1]}', "the arguments of book are not a JSON object")],
    ),
    "arguments as text that is no JSON": (
        '{"name":"book","arguments":"one"}',
        [CallBroken('{"name":"book","arguments":"one"}', "the arguments of book are not JSON")],
    ),
    "a call that breaks off": (
        '{"name":"book","arguments":{"n":',
        [
            CallStarted("book"),
            CallArguments('{"n":'),
            CallBroken('{"name":"book","arguments":{"n":', "the call breaks off"),
        ],
    ),
    "a call that breaks off before its name": ('{"name":"bo', [Words('{"name":"bo')]),
    "a tag that breaks off": ("<tool_call>", [CallBroken("<tool_call>", "the call breaks off")]),
    "half a tag": ("so <tool_c", [Words("so <tool_c")]),
    "half a fence": ("so ``", [Words("so ``")]),
    "a fence that breaks off": ("```json\n ", [Words("```json\n ")]),
    "half a list": ("so [", [Words("so [")]),
    "a key twice": (
        '{"name":"book","arguments":{"n":1},"arguments":{"n":2}}',
        [
            CallStarted("book"),
            CallArguments('{"n":1}'),
            CallBroken(
                '{"name":"book","arguments":{"n":1},"arguments":{"n":2}}', "the call says two things at once"
            ),
        ],
    ),
    "a closing tag too many": (f"<tool_call>{ONE}</tool_call></tool_call> so", [*LOOK_UP, Words(" so")]),
    "half a closing tag": (f"<tool_call>{ONE}</tool", LOOK_UP),
    "a fence that is not closed": (f"```json\n{ONE} so", [*LOOK_UP, Words("so")]),
    "brackets": ("{{[[{ }", [Words("{{[[{ }")]),
}


@pytest.mark.parametrize("name", CASES)
def test_however_it_is_cut(name: str) -> None:
    """As a whole, in two parts at every place, and one character at a time."""
    text, expected = CASES[name]
    assert parse(text) == expected
    for cut in range(1, len(text)):
        assert parse(text[:cut], text[cut:]) == expected, f"cut at {cut}"
    assert parse(*text) == expected


def test_malformed_json_of_a_known_function_is_broken() -> None:
    """What was told of it is taken back by the end that says so."""
    *begun, broken = parse('{"name":"book","arguments":{"n":nonsense}}')
    assert begun == [CallStarted("book"), CallArguments('{"n":nonsense}')]
    assert isinstance(broken, CallBroken)
    assert broken.reason.startswith("the call is not JSON")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_does_not_have(number: str) -> None:
    """Clients' parsers refuse them, so this one does."""
    assert isinstance(parse(f'{{"name":"book","arguments":{{"n":{number}}}}}')[-1], CallBroken)


def test_arguments_come_as_they_are_written() -> None:
    """The words before a call at once, and each piece of its arguments with the text that holds it."""
    parser = CallParser(NAMES)
    assert parser.feed("Well, ") == [Words("Well, ")]
    assert parser.feed('<tool_call>{"name":"book",') == []
    assert parser.feed('"arguments":{"n"') == [CallStarted("book"), CallArguments('{"n"')]
    assert parser.feed(":12") == [CallArguments(":12")]
    assert parser.feed("}}</tool_") == [CallArguments("}"), CallComplete()]
    assert parser.feed("call>") == []
    assert parser.flush() == []


def test_data_is_held_back_no_longer_than_its_first_key() -> None:
    """An answer in JSON is shown as it is written."""
    parser = CallParser(NAMES)
    assert parser.feed('{"city"') == [Words('{"city"')]
    assert parser.feed(": 1}") == [Words(": 1}")]


def test_a_deeply_nested_value_is_refused() -> None:
    """A parser's recursion is nobody's end."""
    deep = "[" * 20_000
    assert isinstance(
        parse('<tool_call>{"name":"book","arguments":{"a":' + deep + "]" * 20_000 + "}}")[-1], CallBroken
    )


PARTS = st.sampled_from(
    [
        *(text for text, _ in CASES.values() if len(text) < 60),
        "<",
        "{",
        "}",
        "[",
        "]",
        '"',
        "`",
        "\n",
        ",",
        "</tool_call>",
    ]
)


@given(st.lists(PARTS, max_size=6), st.randoms(use_true_random=False))
def test_any_text_gives_the_same_however_it_is_cut(parts: list[str], dice: object) -> None:
    """Cut anywhere; and a text that holds no call is said as it is."""
    text = "".join(parts)
    whole = parse(text)
    assert parse(*text) == whole
    cut = dice.randint(0, len(text))
    assert parse(text[:cut], text[cut:]) == whole
    starts = sum(isinstance(piece, CallStarted) for piece in whole)
    ends = sum(isinstance(piece, CallComplete | CallBroken) for piece in whole)
    assert starts <= ends
    if all(isinstance(piece, Words) for piece in whole) and "</" not in text:
        assert "".join(piece.text for piece in whole if isinstance(piece, Words)) == text
