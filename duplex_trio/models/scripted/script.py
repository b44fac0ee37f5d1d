"""What a scripted model hears, says and calls.

A reply is written as a language model writes it, so it may hold calls of functions: `tool_call` makes one.

    Script(
        heard=("what is the weather in Paris",),
        replies={
            "what is the weather in Paris": "One moment. " + tool_call("get_weather", city="Paris"),
            "sunny": "It is sunny in Paris.",
        },
    )

The client must have declared the function; its call comes in pieces, a word of its text in each. What the
client answers is what the model hears next: here `sunny`, without a reply of its own said back by
`otherwise`. Several calls in a row are several calls of one response.

A server of its own is told the same by a deployment file, `duplex-trio serve --deploy FILE`:

    base_config: scripted
    stages:
      - stage_id: 0
        engine_args:
          heard: [what is the weather in Paris]
      - stage_id: 1
        engine_args:
          replies:
            what is the weather in Paris: >-
              One moment. <tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>
            sunny: It is sunny in Paris.
      - stage_id: 2
        engine_args:
          dies_speaking: Paris

`heard` are what the first, second, ... spoken turn of each session says; written turns say what is written.
`dies_speaking` is a word at which the whole runtime of the voice breaks, to try what becomes of a conversation then.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import Factory, define, field, frozen

from duplex_trio.deploy.config import DeployConfig
from duplex_trio.stages.units import ChatPrompt, GenerationParams

ASKED_MAX = 256
"""Prompts that a script remembers."""

ANSWER_CHARS_MAX = 20_000
"""An answer is as long as a large model's longest, so that what is done with it on the loop stays as short as
there.
"""
Reply = Callable[[str], str]
"""Makes the answer to a user's words."""


def echo(text: str) -> str:
    """The answer without a script: what was heard, said back."""
    return f"You said: {text}"


def tool_call(name: str, **arguments: Any) -> str:
    """The text with which a scripted model calls a function."""
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


@frozen
class Asked:
    """What the language model was asked, and how it was to answer."""

    prompt: ChatPrompt
    params: GenerationParams


@define
class Script:
    """One conversation's script, or that of all conversations of a model.

    `heard` are the transcripts of the final segments of a session, in order; when they run out, a segment is
    heard as its length. `replies` maps words that were heard to answers; others are made by `otherwise`.
    `word_ms` is the sound of a spoken word, `words_per_step` how many words the language model writes in a
    step. `fail_on` names what the user says at which the language model's request fails, `fail_speaking` a
    word of the answer at which the voice's request does, and `dies_speaking` one at which its runtime breaks.
    `asked` is what the language model was asked, the latest last.
    """

    heard: Sequence[str] = ()
    replies: Mapping[str, str] = Factory(dict)
    otherwise: Reply = echo
    word_ms: int = 300
    words_per_step: int = 1
    fail_on: frozenset[str] = frozenset()
    fail_speaking: str | None = None
    dies_speaking: str | None = None
    asked: deque[Asked] = field(factory=lambda: deque(maxlen=ASKED_MAX), init=False)
    _heard_by_owner: dict[str, int] = field(factory=dict, init=False)
    _told_by_owner: dict[str, deque[str]] = field(factory=dict, init=False)

    def will_hear(self, owner: str, text: str) -> None:
        """Tell what a session's next final segment says that nothing was told of yet; `heard` comes behind that."""
        self._told_by_owner.setdefault(owner, deque()).append(text)

    def hear(self, owner: str, duration_s: float, *, partial: bool) -> str:
        """The transcript of a segment; a partial one shows what the next final one will say."""
        told = self._told_by_owner.get(owner)
        if told:
            return told[0] if partial else told.popleft()
        index = self._heard_by_owner.get(owner, 0)
        if not partial:
            self._heard_by_owner[owner] = index + 1
        if index < len(self.heard):
            return self.heard[index]
        return f"sound of {duration_s:.1f} seconds"

    def answer(self, text: str) -> str:
        """The answer to what the user said."""
        return self.replies.get(text, self.otherwise(text))[:ANSWER_CHARS_MAX]


def script_from(deploy: DeployConfig, *, hearing: int, writing: int, speaking: int) -> Script:
    """The script in a deployment's `engine_args`; see the module.

    Args:
        deploy: the deployment.
        hearing: the stage that has `heard`, a list of texts.
        writing: the stage that has `replies`, texts by text.
        speaking: the stage that may have `dies_speaking`, a word.

    Raises:
        ValueError: there is something else in them.
    """
    heard = _only(deploy, hearing, "heard", [])
    replies = _only(deploy, writing, "replies", {})
    word = _only(deploy, speaking, "dies_speaking", None)
    if not isinstance(heard, list | tuple) or not all(isinstance(text, str) for text in heard):
        raise ValueError(f"stages[{hearing}].engine_args.heard must be a list of texts, not {heard!r}")
    if not isinstance(replies, Mapping) or not all(
        isinstance(t, str) for pair in replies.items() for t in pair
    ):
        raise ValueError(f"stages[{writing}].engine_args.replies must map texts to texts, not {replies!r}")
    if word is not None and not isinstance(word, str):
        raise ValueError(f"stages[{speaking}].engine_args.dies_speaking must be a word, not {word!r}")
    return Script(heard=tuple(heard), replies=dict(replies), dies_speaking=word)


def _only(deploy: DeployConfig, stage_id: int, key: str, default: Any) -> Any:
    args = deploy.stage(stage_id).engine_args
    unknown = sorted(set(args) - {key})
    if unknown:
        raise ValueError(f"stages[{stage_id}].engine_args has no {unknown[0]!r}, but {key!r}")
    return args.get(key, default)
