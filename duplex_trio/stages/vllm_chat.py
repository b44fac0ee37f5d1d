"""Renders a conversation as the tokens of one model, through the model's own chat template."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from duplex_trio.stages.units import ChatMessage
from duplex_trio.stages.vllm_engine import prepare_process


class ChatTokenizer:
    """Turns messages into prompt tokens.

    An object is used by one thread at a time: the engine's stage has its own, and a plugin that counts tokens
    before it submits makes another with `from_model`. The text of a control token (`<|im_end|>` and the like)
    inside a message becomes a space, so that nobody can close his own turn and speak as somebody else.

    Args:
        tokenizer: a tokenizer of the transformers library.
        template: a Jinja chat template instead of the tokenizer's own.

    Raises:
        ValueError: there is no template.
    """

    def __init__(self, tokenizer: Any, template: str | None = None) -> None:
        self._tokenizer = tokenizer
        self._template = template or tokenizer.chat_template
        if self._template is None:
            raise ValueError("the model has no chat template; name one with `chat_template`")
        control = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
        self._control = re.compile(
            "|".join(map(re.escape, sorted(control, key=len, reverse=True))) or r"(?!)"
        )

    @classmethod
    def from_model(
        cls, model: str, *, template: str | None = None, trust_remote_code: bool = False
    ) -> ChatTokenizer:
        """Load the tokenizer of a model. Blocking, and slow where the library is not loaded yet.

        Args:
            model: a model folder or hub id.
            template: see the class.
            trust_remote_code: run the tokenizer code that a hub model may bring.

        Raises:
            OSError: there is no such model.
            ValueError: there is no template.
        """
        prepare_process(model)
        from transformers import AutoTokenizer

        return cls(AutoTokenizer.from_pretrained(model, trust_remote_code=trust_remote_code), template)

    def encode(self, messages: Sequence[ChatMessage], tools: Sequence[Mapping[str, Any]] = ()) -> list[int]:
        """Render the conversation up to where the assistant begins to speak.

        Raises:
            ValueError: the template does not take these messages.
        """
        from jinja2 import TemplateError

        conversation = [
            {"role": message.role, "content": self._control.sub(" ", message.content)} for message in messages
        ]
        try:
            text = self._tokenizer.apply_chat_template(
                conversation,
                tools=list(tools) or None,
                chat_template=self._template,
                add_generation_prompt=True,
                tokenize=False,
            )
        except TemplateError as error:
            raise ValueError(f"the model's chat template refuses the messages: {error}") from error
        tokens: list[int] = self._tokenizer.encode(text, add_special_tokens=False, verbose=False)
        return tokens

    def encode_text(self, text: str) -> list[int]:
        """The tokens of plain text, with nothing put around it; see the class about control tokens."""
        tokens: list[int] = self._tokenizer.encode(
            self._control.sub(" ", text), add_special_tokens=False, verbose=False
        )
        return tokens

    def count(self, messages: Sequence[ChatMessage], tools: Sequence[Mapping[str, Any]] = ()) -> int:
        """How many tokens `encode` gives."""
        return len(self.encode(messages, tools))
