"""What a model is asked: messages and how they are to be answered. Plain values; `checks` looks at them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import Factory, field, frozen

from duplex_trio.protocol.sampling import Sampling
from duplex_trio.stages.units import ChatCall, Pcm

Role = Literal["system", "user", "assistant", "tool"]
Modality = Literal["text", "audio"]


@frozen
class Text:
    """Written words."""

    text: str


@frozen(eq=False)
class Sound:
    """Speech of the user's: mono float samples in [-1, 1], shape (n,), at any rate.

    The model transcribes it, unless its `transcript` is given. In the last message it is heard as it is.
    """

    pcm: Pcm = field(repr=lambda pcm: f"<{getattr(pcm, 'size', '?')} samples>")
    sample_rate_hz: int
    transcript: str | None = None


@frozen
class Picture:
    """A picture: the bytes of a JPEG or PNG file, or such a file as a `data:` URL in base64."""

    data: bytes | str = field(repr=lambda data: f"<{len(data)} bytes>")


Part = Text | Sound | Picture


def _listed(given: Any) -> tuple[Any, ...]:
    """What was given as a tuple; what is no list stands in it alone, for `checks` to refuse."""
    try:
        return tuple(given)
    except TypeError:
        return (given,)


def _parts(content: Any) -> tuple[Any, ...]:
    if content is None or content == "":
        return ()
    parts = [content] if isinstance(content, str | Part) else _listed(content)
    return tuple(Text(part) if isinstance(part, str) else part for part in parts)


@frozen
class Message:
    """One message of a conversation.

    Attributes:
        role: who says it.
        content: a text, a part, or several of both in order.
        calls: the functions that an assistant called in it.
        call_id: the call whose result a tool's message is.
    """

    role: Role
    content: tuple[Part, ...] = field(default=(), converter=_parts)
    calls: tuple[ChatCall, ...] = field(default=(), converter=_listed, kw_only=True)
    call_id: str | None = field(default=None, kw_only=True)


def _messages(given: Any) -> tuple[Any, ...]:
    if isinstance(given, Message):
        return (given,)
    if isinstance(given, str | Part):
        return (Message("user", given),)
    return _listed(given)


def _modalities(given: Any) -> tuple[Any, ...]:
    return (given,) if isinstance(given, str) else _listed(given)


@frozen
class OmniRequest:
    """One request.

    >>> OmniRequest("Say hello!")
    >>> OmniRequest(Sound(pcm, 16_000), modalities=["text", "audio"])
    >>> OmniRequest([Message("user", "Hello!"), Message("assistant", "Hi."), Message("user", [sound, picture])])

    Attributes:
        messages: the conversation, the latest message last. A text, or one part, is a message of the user's.
        instructions: what the model is told to be; a system message does the same.
        modalities: `text` for an answer in writing; one with `audio` in it is spoken.
        voice: a name of the model's voices; its default without.
        speed: how fast it speaks, 0.25 to 4.
        language: of the user's speech, as `en`; the model finds out without.
        temperature: from 0 to 2; the model's own without.
        sampling: further knobs; only those that the model has.
        tools: functions that it may call: `{"type": "function", "name", "description", "parameters"}`.
        tool_choice: `auto`, `required`, `none`, or `{"type": "function", "name"}` of the one to be called.
        parallel_tool_calls: whether it may call several.
        max_output_tokens: tokens of the answer at most; the model's own limit without.
        request_id: names it for `abort` and in logs, unlike that of any live one; made up without.
    """

    messages: tuple[Message, ...] = field(converter=_messages)
    instructions: str | None = field(default=None, kw_only=True)
    modalities: tuple[Modality, ...] = field(default=("text",), converter=_modalities, kw_only=True)
    voice: str | None = field(default=None, kw_only=True)
    speed: float = field(default=1.0, kw_only=True)
    language: str | None = field(default=None, kw_only=True)
    temperature: float | None = field(default=None, kw_only=True)
    sampling: Sampling = field(default=Factory(Sampling), kw_only=True)
    tools: tuple[Mapping[str, Any], ...] = field(default=(), converter=_listed, kw_only=True)
    tool_choice: str | Mapping[str, Any] = field(default="auto", kw_only=True)
    parallel_tool_calls: bool = field(default=True, kw_only=True)
    max_output_tokens: int | None = field(default=None, kw_only=True)
    request_id: str | None = field(default=None, kw_only=True)

    @property
    def speaks(self) -> bool:
        """Whether the answer is to be heard."""
        return "audio" in self.modalities


def request_of(given: object, name: str = "request") -> OmniRequest:
    """What is asked as a request; a text is a message of the user's.

    Args:
        given: a text or a request.
        name: what the caller calls it.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(given, str):
        return OmniRequest(given)
    if not isinstance(given, OmniRequest):
        raise TypeError(f"{name} is a {type(given).__name__}, not a text or an OmniRequest")
    return given
