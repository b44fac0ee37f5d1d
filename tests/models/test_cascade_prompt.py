"""The language model's prompt: one user message at the end, whatever the conversation looks like."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.models.cascade.profiles import ChatProfile
from duplex_trio.models.cascade.prompt import KEEPS_WHAT_FITS, build_prompt
from duplex_trio.pipelines.requests import Truncation
from duplex_trio.protocol.refusal import RequestRefused
from duplex_trio.stages.units import ChatCall, ChatMessage, ChatPrompt

Role = Literal["user", "assistant", "system", "tool"]
PLAIN = ChatProfile(default_instructions=None)


def said(*messages: tuple[Role, str]) -> list[ChatMessage]:
    return [ChatMessage(role=role, content=content) for role, content in messages]


def words(messages: Sequence[ChatMessage], tools: Sequence[object] = ()) -> int:
    """A prompt's length in words, in place of tokens."""
    return sum(len(message.content.split()) for message in messages)


def prompt(
    conversation: Sequence[ChatMessage],
    user_text: str | None = None,
    *,
    instructions: str | None = None,
    profile: ChatProfile = PLAIN,
    words_max: int | None = None,
    truncation: Truncation = KEEPS_WHAT_FITS,
) -> list[tuple[str, str]]:
    built = build_prompt(
        conversation,
        instructions=instructions,
        user_text=user_text,
        profile=profile,
        tokens_max=words_max,
        count_tokens=words,
        truncation=truncation,
    )
    return [(message.role, message.content) for message in built.messages]


def test_the_users_words_come_last() -> None:
    """Behind the conversation, as a message of their own."""
    history = said(("user", "a"), ("assistant", "b"))
    assert prompt(history, "c") == [("user", "a"), ("assistant", "b"), ("user", "c")]


def test_a_conversation_is_answered_as_it_stands() -> None:
    """Without new words its last message is the question."""
    assert prompt(said(("user", "a"), ("assistant", "b"), ("user", "c")))[-1] == ("user", "c")


def test_an_answer_can_be_added_to() -> None:
    """A conversation that ends with the assistant keeps the question before it, however little room there is."""
    history = said(("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d"))
    assert prompt(history, words_max=1) == [("user", "c"), ("assistant", "d")]


def test_messages_of_one_side_in_a_row_are_one() -> None:
    """Who went on speaking said one thing; a function's output is told by the user."""
    history = said(("user", "a"), ("user", "b"), ("assistant", "c"), ("assistant", "d"), ("tool", "e"))
    assert prompt(history, "f") == [
        ("user", "a b"),
        ("assistant", "c d"),
        ("user", "<tool_response>e</tool_response> f"),
    ]


def test_a_conversation_begins_with_the_user() -> None:
    """A greeting of the assistant in front is left out, as chat templates demand."""
    assert prompt(said(("assistant", "welcome"), ("user", "a"))) == [("user", "a")]


@pytest.mark.parametrize("history", [[], [("system", "be kind")]])
def test_without_a_user_there_is_a_greeting(history: list[tuple[Role, str]]) -> None:
    """Something must be answered, so the user is taken to have said hello."""
    assert prompt(said(*history))[-1] == ("user", "Hello.")


def test_what_was_said_and_called_without_a_user_is_told() -> None:
    """The model answers what stands there, behind a greeting that makes it a conversation for every template."""
    assert prompt(said(("assistant", "welcome"))) == [("user", "Hello."), ("assistant", "welcome")]
    call = ChatCall(call_id="c", name="look", arguments="{}")
    called = [ChatMessage(role="assistant", content="", calls=(call,)), *said(("tool", "21 degrees"))]
    assert prompt(called) == [
        ("user", "Hello."),
        ("assistant", '<tool_call>{"name": "look", "arguments": {}}</tool_call>'),
        ("user", "<tool_response>21 degrees</tool_response>"),
    ]
    knowing = ChatProfile(default_instructions=None, knows_calls=True, system_role=False)
    assert [role for role, _ in prompt(called, profile=knowing)] == ["user", "assistant", "tool"]
    assert prompt(called, profile=knowing, instructions="be kind")[0] == ("user", "be kind\n\nHello.")


def test_many_calls_do_not_push_out_what_was_asked() -> None:
    """The profile's count of messages is for what came before the last question."""
    call = ChatCall(call_id="c", name="look", arguments="{}")
    calls = [ChatMessage(role="assistant", content="", calls=(call,)), *said(("tool", "21 degrees"))] * 3
    profile = ChatProfile(default_instructions=None, history_messages_max=2)
    told = prompt([*said(("user", "a"), ("assistant", "b"), ("user", "c")), *calls], profile=profile)
    assert (told[0], len(told)) == (("user", "c"), 7)


def test_instructions_are_a_system_message() -> None:
    """The session's come first, then the conversation's system messages, wherever they stand."""
    history = said(("user", "a"), ("system", "the door is open"), ("assistant", "b"))
    assert prompt(history, "c", instructions="be kind") == [
        ("system", "be kind\nthe door is open"),
        ("user", "a"),
        ("assistant", "b"),
        ("user", "c"),
    ]


def test_the_profiles_instructions_stand_in() -> None:
    """They hold until the session has its own."""
    profile = ChatProfile(default_instructions="speak plainly")
    assert prompt([], "a", profile=profile)[0] == ("system", "speak plainly")
    assert prompt([], "a", profile=profile, instructions="be loud")[0] == ("system", "be loud")


def test_a_system_message_that_is_to_be_answered_is_said_by_the_user() -> None:
    """Some clients send what their user wrote as a system message."""
    history = said(("user", "a"), ("assistant", "b"), ("system", "c"), ("system", "d"))
    profile = ChatProfile(default_instructions=None)
    assert prompt(history, None, profile=profile) == [("user", "a"), ("assistant", "b"), ("user", "c d")]
    assert prompt(history, "e", profile=profile)[0] == ("system", "c\nd")
    unanswered = said(("user", "a"), ("system", "c"))
    assert prompt(unanswered, None, profile=profile) == [("system", "c"), ("user", "a")]


def test_a_model_without_a_system_role_is_told_by_the_user() -> None:
    """Instructions open the first user message."""
    profile = ChatProfile(system_role=False, default_instructions=None)
    history = said(("user", "a"), ("assistant", "b"))
    assert prompt(history, "c", instructions="be kind", profile=profile) == [
        ("user", "be kind\n\na"),
        ("assistant", "b"),
        ("user", "c"),
    ]


def test_old_messages_go_by_the_profiles_count() -> None:
    """Two before the current one.

    With these the conversation would begin with the assistant, so one goes too.
    """
    history = said(("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d"))
    profile = ChatProfile(default_instructions=None, history_messages_max=2)
    assert prompt(history, "e", profile=profile) == [("user", "c"), ("assistant", "d"), ("user", "e")]
    assert prompt(history, "e", profile=ChatProfile(default_instructions=None, history_messages_max=1)) == [
        ("user", "e")
    ]


def test_old_messages_go_until_the_prompt_fits() -> None:
    """In pairs from the front; instructions and the last words always stay."""
    history = said(("user", "a a a"), ("assistant", "b b b"), ("user", "c c"), ("assistant", "d d"))
    assert len(prompt(history, "e e", words_max=12)) == 5
    assert prompt(history, "e e", words_max=11) == [("user", "c c"), ("assistant", "d d"), ("user", "e e")]
    assert prompt(history, "e e", words_max=5) == [("user", "e e")]
    assert prompt(history, "e e", instructions="be kind", words_max=1) == [
        ("system", "be kind"),
        ("user", "e e"),
    ]


LONG = said(("user", "a a a"), ("assistant", "b b b"), ("user", "c c"), ("assistant", "d d"))


def test_a_conversation_that_may_not_be_forgotten_is_refused() -> None:
    """Whole, or not at all; the profile's count of messages is no reason to forget either."""
    whole = Truncation(forgets=False)
    few = ChatProfile(default_instructions=None, history_messages_max=1)
    assert len(prompt(LONG, "e e", words_max=12, truncation=whole, profile=few)) == 5
    for conversation, words_max in ((LONG, 11), (said(("user", "a " * 99_999)), 100)):
        with pytest.raises(RequestRefused) as caught:
            prompt(conversation, "e e", words_max=words_max, truncation=whole)
        assert caught.value.code == "context_length_exceeded"


def test_so_much_goes_that_the_retained_share_is_left() -> None:
    """Nothing as long as everything fits; then as much as the ratio says, of what there is behind the
    instructions."""
    half = Truncation(retention_ratio=0.5)
    assert len(prompt(LONG, "e e", words_max=12, truncation=half)) == 5
    assert prompt(LONG, "e e", words_max=11, truncation=half) == [("user", "e e")]
    most = Truncation(retention_ratio=0.6)
    left = [("user", "c c"), ("assistant", "d d"), ("user", "e e")]
    assert prompt(LONG, "e e", words_max=11, truncation=most) == left
    told = prompt(LONG, "e e", instructions="be kind", words_max=13, truncation=most)
    assert told == [("system", "be kind"), *left]


def test_the_clients_own_limit_is_behind_the_instructions() -> None:
    """It lowers the model's, and never raises it."""
    own = Truncation(tokens_max=6)
    left = [("user", "c c"), ("assistant", "d d"), ("user", "e e")]
    assert prompt(LONG, "e e", words_max=100, truncation=own) == left
    told = prompt(LONG, "e e", instructions="be kind", words_max=100, truncation=own)
    assert told == [("system", "be kind"), *left]
    assert prompt(LONG, "e e", words_max=5, truncation=own) == [("user", "e e")]


_message = st.builds(
    ChatMessage,
    role=st.sampled_from(["user", "assistant", "system", "tool"]),
    content=st.text("ab ", min_size=1, max_size=8),
)


@given(
    history=st.lists(_message, max_size=12),
    user_text=st.none() | st.just("now"),
    instructions=st.none() | st.just("be kind"),
    system_role=st.booleans(),
    history_max=st.integers(1, 6),
    words_max=st.none() | st.integers(1, 20),
)
def test_any_conversation_makes_a_prompt_that_templates_take(
    history: list[ChatMessage],
    user_text: str | None,
    instructions: str | None,
    system_role: bool,
    history_max: int,
    words_max: int | None,
) -> None:
    """One system message at most and in front, then user and assistant in turn, the user first."""
    profile = ChatProfile(
        default_instructions=None, system_role=system_role, history_messages_max=history_max
    )
    built = prompt(history, user_text, instructions=instructions, profile=profile, words_max=words_max)
    roles = [role for role, _ in built]
    if roles[0] == "system":
        assert system_role
        roles = roles[1:]
    assert roles[0] == "user"
    assert all(earlier != later for earlier, later in pairwise(roles))
    assert set(roles) <= {"user", "assistant"}
    behind_user = next((n for n, message in enumerate(reversed(history), 1) if message.role == "user"), 13)
    assert len(roles) <= max(history_max, 0 if user_text else behind_user) + 1
    if user_text is not None:
        assert built[-1][0] == "user"
        assert built[-1][1].endswith("now")


def test_an_endless_text_is_refused_before_its_tokens_are_counted() -> None:
    """Counting a text of megabytes would hold up every session, so its length alone refuses it."""

    def count(messages: Sequence[ChatMessage], tools: Sequence[object]) -> int:
        assert sum(len(message.content) for message in messages) <= 16 * 300
        return words(messages)

    with pytest.raises(RequestRefused) as refused:
        build_prompt(
            (), instructions=None, user_text="a" * 4801, profile=PLAIN, tokens_max=300, count_tokens=count
        )
    assert refused.value.code == "context_length_exceeded"
    kept = build_prompt(
        said(("user", "a" * 5000), ("assistant", "b")),
        instructions=None,
        user_text="short",
        profile=PLAIN,
        tokens_max=300,
        count_tokens=count,
    )
    assert [message.content for message in kept.messages] == ["short"]


# ------------------------------------------------------------------ functions

LOOK_UP = {"type": "function", "name": "look_up", "description": "Asks.", "parameters": {"type": "object"}}
CALLED = [
    *said(("user", "rain?"), ("assistant", "One moment.")),
    ChatMessage(
        role="assistant",
        content="look_up({})",
        calls=(ChatCall(name="look_up", arguments="{}", call_id="c1"),),
    ),
    ChatMessage(
        role="assistant",
        content="look_up(1)",
        calls=(ChatCall(name="look_up", arguments='{"n": 1}', call_id="c2"),),
    ),
    ChatMessage(role="tool", content="sunny", call_id="c1"),
    ChatMessage(role="tool", content="", call_id="c2"),
]
KNOWS = ChatProfile(default_instructions=None, knows_calls=True)


def with_tools(profile: ChatProfile, **wanted: Any) -> ChatPrompt:
    asked = {"instructions": "be kind", "user_text": "hi", "tools": (LOOK_UP,), **wanted}
    return build_prompt((), profile=profile, **asked)


def test_a_model_that_knows_calls_is_given_them() -> None:
    """The functions beside the messages; words and calls of one answer in one message; each output by itself."""
    built = build_prompt(CALLED, instructions=None, user_text=None, profile=KNOWS, tools=(LOOK_UP,))
    assert built.tools == (LOOK_UP,)
    assert [(m.role, m.content, len(m.calls), m.call_id) for m in built.messages] == [
        ("user", "rain?", 0, None),
        ("assistant", "One moment.", 2, None),
        ("tool", "sunny", 0, "c1"),
        ("tool", "", 0, "c2"),
    ]


def test_another_is_told_of_them_in_words() -> None:
    """How to call is in the instructions; its calls are as it would have written them."""
    built = build_prompt(CALLED, instructions="be kind", user_text=None, profile=PLAIN, tools=(LOOK_UP,))
    system, user, assistant, result = built.messages
    assert built.tools == ()
    assert system.content.startswith("be kind\nYou can call these functions:")
    assert '{"name": "look_up", "description": "Asks.", "parameters": {"type": "object"}}' in system.content
    assert "<tool_call>" in system.content
    assert (user.content, result.role) == ("rain?", "user")
    assert assistant.content == (
        'One moment.\n<tool_call>{"name": "look_up", "arguments": {}}</tool_call>\n'
        '<tool_call>{"name": "look_up", "arguments": {"n": 1}}</tool_call>'
    )
    assert result.content == "<tool_response>sunny</tool_response> <tool_response></tool_response>"


@pytest.mark.parametrize("profile", [PLAIN, KNOWS])
@pytest.mark.parametrize(
    ("choice", "demand"),
    [
        ("auto", None),
        ("required", "Call one of the functions now."),
        ({"type": "function", "name": "look_up"}, "Call the function look_up now."),
    ],
)
def test_a_model_that_must_call_is_told_so(profile: ChatProfile, choice: Any, demand: str | None) -> None:
    """In the instructions, whatever else it knows of functions."""
    told = with_tools(profile, tool_choice=choice).messages[0].content
    assert told.startswith("be kind")
    assert told.endswith(demand) if demand else " now." not in told


def test_a_call_and_its_output_go_with_their_question() -> None:
    """Old ones that do not fit go as a whole: an output without its call says nothing."""
    later = [*CALLED, *said(("assistant", "It is sunny."), ("user", "and now?"))]
    for profile in (PLAIN, KNOWS):
        built = build_prompt(
            later,
            instructions=None,
            user_text=None,
            profile=profile,
            tokens_max=2,
            count_tokens=words,
        )
        assert [(m.role, m.content) for m in built.messages] == [("user", "and now?")]


def test_endless_functions_are_refused_too() -> None:
    """They are as much of a prompt as its words."""
    endless = {**LOOK_UP, "description": "a" * 5000}
    for profile in (PLAIN, KNOWS):
        with pytest.raises(RequestRefused, match="characters"):
            with_tools(profile, tools=(endless,), tokens_max=300, count_tokens=words)
