"""How conversations that go wrong are told. The texts are in `failures/`; with a change of them,
`python -m pytest tests/testing/dialogue --renew-golden` writes them anew, and it shows as a diff.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from attrs import Factory, frozen
from trio.testing import MockClock

from duplex_trio.testing import (
    Account,
    ConversationError,
    ConversationScript,
    Script,
    open_client,
    open_session,
    script,
    tool_call,
)

TEXTS = Path(__file__).parent / "failures"
LINES_MAX = 40
WEATHER = "what is the weather in Paris"
TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
BY_HAND = {"input": {"turn_detection": None}}
SILENCE = np.zeros(24_000, np.float32)


def sunny(account: Account) -> None:
    said = account.answers[0].text
    assert "sunny" in said, "nobody speaks of the sun"


@frozen(kw_only=True)
class Case:
    """A conversation that goes wrong, and what the model says in it."""

    planned: ConversationScript
    replies: Mapping[str, str] = Factory(dict)
    fails_on: str = ""
    client: bool = False


RAINY = {WEATHER: "It is rainy in Paris.", "stop": "Fine."}
TWO = {WEATHER: "One moment please. It is rainy in Paris and it will be for the rest of the week."}
CASES = {
    "another_reply": Case(
        planned=script()
        .say(WEATHER)
        .expects_reply("It is sunny in Paris.")
        .after_hearing(ms=600)
        .interrupt("stop")
        .expects_cancelled(),
        replies=RAINY,
    ),
    "a_reply_that_goes_on": Case(
        planned=script().say(WEATHER).expects_reply("One moment please.").after_hearing().say("thanks"),
        replies=TWO,
    ),
    "a_reply_that_does_not_match": Case(
        planned=script().write(WEATHER).expects_reply(containing="sunny"), replies=RAINY
    ),
    "no_speech_was_heard": Case(planned=script().say(WEATHER, pcm=SILENCE).expects_reply()),
    "the_turn_does_not_end": Case(
        planned=script().update(audio=BY_HAND).say(WEATHER).expects_reply().within(3)
    ),
    "another_transcript": Case(
        planned=script().say(WEATHER).expects_transcript("what is the weather in Rome").expects_reply()
    ),
    "nobody_to_interrupt": Case(planned=script().say(WEATHER).interrupt("stop"), replies=RAINY),
    "an_answer_that_is_too_short": Case(planned=script().say(WEATHER).after_hearing(ms=5000), replies=RAINY),
    "an_answer_that_is_not_cut": Case(
        planned=script()
        .say(WEATHER)
        .expects_reply()
        .cancel()
        .expects_cancelled()
        .say("no")
        .expects_cancelled(),
        replies=RAINY,
    ),
    "an_answer_that_is_cut": Case(
        planned=script().say(WEATHER).after_hearing(ms=300).cancel().after_hearing(ms=800).wait(1),
        replies=TWO,
    ),
    "a_reply_where_there_should_be_none": Case(
        planned=script().say(WEATHER).expects_silence(5), replies=RAINY
    ),
    "no_call": Case(planned=script().write(WEATHER).expects_call("get_weather"), replies=RAINY),
    "a_call_with_other_arguments": Case(
        planned=script().update(tools=[TOOL]).write(WEATHER).expects_call("get_weather", city="Rome", days=1),
        replies={WEATHER: tool_call("get_weather", city="Paris")},
    ),
    "an_output_without_a_call": Case(planned=script().returns("sunny")),
    "a_model_that_fails": Case(planned=script().write(WEATHER).expects_reply(), fails_on=WEATHER),
    "an_error_that_nobody_expects": Case(
        planned=script().update(audio={"output": {"speed": 9}}).write("hello").expects_reply()
    ),
    "no_error": Case(planned=script().write("hello").expects_error("invalid_value").within(2)),
    "an_event_that_does_not_come": Case(
        planned=script().write("hello").expects_event("response.done", status="x")
    ),
    "a_session_that_ends": Case(
        planned=script().send({"type": "session.close"}).write("hello").expects_reply()
    ),
    "a_client_that_stays_away_too_long": Case(
        planned=script().say(WEATHER).drop().wait(60).resume().expects_reply(), client=True
    ),
    "a_check_of_the_test": Case(
        planned=script().write(WEATHER).expects_reply().then(sunny).wait(1), replies=RAINY
    ),
    "a_long_conversation": Case(
        planned=script(
            *[script().say(f"number {number}").expects_reply().after_hearing() for number in range(12)]
        ).expects_reply("more")
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_failure_is_told(
    autojump_clock: MockClock, name: str, request: pytest.FixtureRequest
) -> None:
    case = CASES[name]
    model = Script(replies=case.replies, fail_on=frozenset({case.fails_on}))
    opened = open_client if case.client else open_session
    async with opened(model) as session:
        with pytest.raises(ConversationError) as caught:
            await case.planned.play(session)
    text = str(caught.value) + "\n"
    path = TEXTS / f"{name}.txt"
    if request.config.getoption("--renew-golden"):
        path.write_text(text)
    assert text == path.read_text(), f"{path.name} differs; see {__name__} for how to renew it"
    assert len(text.splitlines()) <= LINES_MAX


def test_every_text_has_its_conversation() -> None:
    assert {path.stem for path in TEXTS.iterdir()} == set(CASES)
