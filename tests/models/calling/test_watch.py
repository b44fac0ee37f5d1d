"""What of an answer is said and called: whole calls that fit, in pieces, and nothing made up behind them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from duplex_trio.models.calling.watch import CallResult, CallWatch
from duplex_trio.pipelines.results import FunctionCallArguments, FunctionCallBegin, FunctionCallEnd

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = ({"type": "function", "name": "look_up", "parameters": CITY}, {"type": "function", "name": "hang_up"})
PARIS = '<tool_call>{"name":"look_up","arguments":{"city":"Paris"}}</tool_call>'
HANG_UP = '<tool_call>{"name":"hang_up","arguments":{}}</tool_call>'


def watched(
    *texts: str, parallel: bool = True, exact: bool = False, cut: bool = False, stopped: bool = False
) -> tuple[CallWatch, list[str | CallResult]]:
    watch = CallWatch(TOOLS, parallel=parallel, exact=exact)
    told: list[str | CallResult] = []
    for text in texts:
        told += watch.feed(text)
    return watch, told + watch.flush(cut=cut, stopped=stopped)


def begun(name: str, *pieces: str) -> list[str | CallResult]:
    return [FunctionCallBegin(name=name), *map(FunctionCallArguments, pieces)]


def called(name: str, *pieces: str) -> list[str | CallResult]:
    return [*begun(name, *pieces), FunctionCallEnd()]


def test_words_before_a_call_are_said() -> None:
    """And the call is told behind them."""
    watch, told = watched("Let me see. " + PARIS)
    assert told == ["Let me see. ", *called("look_up", '{"city":"Paris"}')]
    assert watch.fault is None


def test_a_call_is_told_when_it_is_whole_in_the_pieces_of_its_writing() -> None:
    """Nothing of it before: it may turn out not to fit."""
    watch = CallWatch(TOOLS)
    assert watch.feed('<tool_call>{"name":"look_up","arguments":{"ci') == []
    assert watch.feed('ty":"Par') == []
    assert watch.feed('is"}') == []
    assert watch.feed("}") == called("look_up", '{"ci', 'ty":"Par', 'is"}')


def test_under_a_grammar_it_is_told_as_it_comes() -> None:
    """It cannot but fit."""
    watch = CallWatch(TOOLS, exact=True)
    assert watch.feed('<tool_call>{"name":"look_up","arguments":{"ci') == begun("look_up", '{"ci')
    assert watch.feed('ty":"Paris"}') == [FunctionCallArguments('ty":"Paris"}')]
    assert watch.feed("}") == [FunctionCallEnd()]


def test_words_behind_a_call_are_made_up() -> None:
    """They end the answer."""
    watch = CallWatch(TOOLS)
    assert watch.feed(PARIS + "\n\n") == called("look_up", '{"city":"Paris"}')
    assert not watch.over
    assert watch.feed("It is sunny. " + HANG_UP) == []
    assert watch.over
    assert watch.flush(cut=False) == []


@pytest.mark.parametrize(("parallel", "calls"), [(True, 2), (False, 1)])
def test_several_calls(parallel: bool, calls: int) -> None:
    """One at most if the client wants it so."""
    watch, told = watched(PARIS + "\n" + HANG_UP, parallel=parallel)
    assert told.count(FunctionCallEnd()) == calls
    assert (watch.fault, watch.over) == (None, True)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(
    ("text", "fault", "written"),
    [
        (
            '{"name":"look_up","arguments":{}}',
            "the arguments of look_up do not fit: 'city' is a required property",
            '{"name": "look_up", "arguments": {}}',
        ),
        ('{"name":"fly","arguments":{}}', "there is no function 'fly', but hang_up, look_up", None),
        ('<tool_call>{"name":"look_up","arguments":{"ci', "the call breaks off", None),
        ("<tool_call>look up Paris</tool_call>", "the call is not JSON", None),
    ],
)
def test_what_cannot_be_made_is_a_fault(text: str, fault: str, written: str | None, exact: bool) -> None:
    """It never ends as a call, and what follows it is not wanted."""
    watch, told = watched("So. ", text, " And so on. " + PARIS, exact=exact)
    assert told[0] == "So. "
    assert FunctionCallEnd() not in told
    assert watch.over
    if "breaks off" not in fault:
        assert (watch.fault, watch.written) == (fault, written or text)
    if not exact:
        assert told == ["So. "]


def test_what_breaks_off_at_the_end_is_a_fault() -> None:
    """The model ended its answer in the middle of a call."""
    watch, told = watched('<tool_call>{"name":"look_up","arguments":{"ci')
    assert (told, watch.fault) == ([], "the call breaks off")


@pytest.mark.parametrize("exact", [False, True])
def test_what_breaks_off_for_want_of_room_is_an_incomplete_call(exact: bool) -> None:
    """It is told as far as it came, and is no fault of the model's."""
    texts: Sequence[str] = ('<tool_call>{"name":"look_up",', '"arguments":{"ci')
    watch, told = watched(*texts, exact=exact, cut=True)
    assert (told, watch.fault) == (begun("look_up", '{"ci'), None)


def test_what_a_stop_string_breaks_off_is_nothing() -> None:
    """Who set it wanted the answer to end there: the model is not to blame, and there is no call."""
    watch, told = watched('So. <tool_call>{"name":"look_up","arguments":{"ci', stopped=True)
    assert (told, watch.fault, watch.over) == (["So. "], None, True)


def test_what_breaks_off_before_its_name_is_nothing() -> None:
    """There is no call to tell of."""
    watch, told = watched("<tool_call>", cut=True)
    assert (told, watch.fault) == ([], None)
