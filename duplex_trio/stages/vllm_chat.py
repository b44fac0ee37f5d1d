"""Renders a conversation as the tokens of one model, through the model's own chat template."""

from __future__ import annotations

import json
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

    @property
    def takes_tools(self) -> bool:
        """Whether the template knows functions and their calls."""
        return re.search(r"\btools\b", self._template or "") is not None

    @property
    def tags_calls(self) -> bool:
        """Whether the template has calls written between `<tool_call>` tags."""
        return "<tool_call>" in (self._template or "")

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

        conversation = [self._rendered(message) for message in messages]
        try:
            text = self._tokenizer.apply_chat_template(
                conversation,
                tools=[self._declared(tool) for tool in tools] or None,
                chat_template=self._template,
                add_generation_prompt=True,
                tokenize=False,
            )
        except TemplateError as error:
            raise ValueError(f"the model's chat template refuses the messages: {error}") from error
        tokens: list[int] = self._tokenizer.encode(text, add_special_tokens=False, verbose=False)
        return tokens

    def _rendered(self, message: ChatMessage) -> dict[str, Any]:
        """A message as templates know it: OpenAI's, with the arguments of calls as objects."""
        rendered: dict[str, Any] = {"role": message.role, "content": self._control.sub(" ", message.content)}
        if message.calls:
            rendered["tool_calls"] = [
                {
                    "type": "function",
                    "id": call.call_id,
                    "function": {"name": call.name, "arguments": self._plain(_object(call.arguments))},
                }
                for call in message.calls
            ]
        if message.call_id is not None:
            rendered["tool_call_id"] = message.call_id
        return rendered

    def _declared(self, tool: Mapping[str, Any]) -> Any:
        """A function as templates know it, which is OpenAI's form for chat completions."""
        if "function" in tool:
            return self._plain(tool)
        function = {key: value for key, value in tool.items() if key != "type"}
        return {"type": "function", "function": self._plain(function)}

    def _plain(self, value: Any) -> Any:
        """A JSON value without control tokens."""
        match value:
            case str():
                return self._control.sub(" ", value)
            case list() | tuple():
                return [self._plain(element) for element in value]
            case Mapping():
                return {self._plain(key): self._plain(element) for key, element in value.items()}
        return value

    def encode_text(self, text: str) -> list[int]:
        """The tokens of plain text, with nothing put around it; see the class about control tokens."""
        tokens: list[int] = self._tokenizer.encode(
            self._control.sub(" ", text), add_special_tokens=False, verbose=False
        )
        return tokens

    def count(self, messages: Sequence[ChatMessage], tools: Sequence[Mapping[str, Any]] = ()) -> int:
        """How many tokens `encode` gives."""
        return len(self.encode(messages, tools))


def _object(text: str) -> Any:
    """Arguments of a call, which are JSON unless a client put something else into the conversation."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return {"text": text}
