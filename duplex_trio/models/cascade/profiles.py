"""What a language model needs to hold a spoken conversation: how it is told things, and how it samples.

A profile is chosen by the name of the model. Small models follow no system prompt and ramble when they see
much history; larger ones want to be told that they are heard, not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from attrs import frozen

SPOKEN_STYLE = (
    "You are a friendly voice assistant. Your words are spoken aloud: answer in one to three short sentences of plain"
    " language, without lists, markup or emoji."
)


@frozen(kw_only=True)
class ChatProfile:
    """How to prompt one family of models.

    `system_role` tells whether instructions go into a system message; otherwise they open the first user
    message. `history_messages_max` counts the messages before the current one. `max_tokens` bounds an answer
    for which the client sets no limit. `sentences_max` ends a spoken answer after so many sentences, for
    models that do not come to an end by themselves. `knows_calls` says that the chat template takes functions
    and calls; otherwise the prompt words them.
    """

    system_role: bool = True
    default_instructions: str | None = SPOKEN_STYLE
    temperature: float = 0.7
    top_p: float | None = 0.9
    repetition_penalty: float | None = 1.05
    history_messages_max: int = 20
    max_tokens: int = 256
    sentences_max: int | None = None
    chat_template: str | None = None
    knows_calls: bool = False
    tags_calls: bool = True
    decides_calls: bool = True


_PLAIN_CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""SmolLM2's format without the system message that its own template puts in front of a conversation that has
none.
"""
_SMALL = ChatProfile(
    system_role=False,
    default_instructions=None,
    temperature=0.5,
    top_p=None,
    repetition_penalty=1.15,
    history_messages_max=6,
    max_tokens=128,
    sentences_max=3,
    chat_template=_PLAIN_CHATML,
    # Told of functions, they answer questions about code and call nothing, in any wording that was tried.
    decides_calls=False,
)
_SAMPLED = ("temperature", "top_p", "repetition_penalty", "max_tokens")
"""What a profile says of sampling."""
_PROFILES = {"smollm2-135m": _SMALL, "smollm2-360m": _SMALL}


def profile_for(model_name: str) -> ChatProfile:
    """The profile of a model by its name or reference; a general one for models without their own."""
    name = model_name.rstrip("/").rsplit("/", 1)[-1].lower()
    for known, profile in _PROFILES.items():
        if name.startswith(known):
            return profile
    return ChatProfile()


def with_sampling(profile: ChatProfile, params: Mapping[str, Any]) -> ChatProfile:
    """A profile with the sampling parameters of a deployment in place of its own.

    Those that a profile does not have are none of its business: `duplex_trio.pipelines.sampling` sees to them.
    """
    return attrs.evolve(profile, **{name: value for name, value in params.items() if name in _SAMPLED})
