"""Whether a request is one that the model can answer: every fault is refused by the path of its field. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from duplex_trio.engine.turn.request import Message, OmniRequest, Picture, Sound, Text
from duplex_trio.pipelines.processor import TurnProcessor
from duplex_trio.protocol.pictures import is_picture_url, picture_size
from duplex_trio.protocol.refusal import RequestRefused
from duplex_trio.protocol.sampling import Sampling
from duplex_trio.stages.units import ChatCall

ROLES = ("system", "user", "assistant", "tool")
RATE_HZ_MIN, RATE_HZ_MAX = 4_000, 192_000
SPEED_MIN, SPEED_MAX = 0.25, 4.0
TEMPERATURE_MAX = 2.0
ID_CHARS_MAX = 256


def check_request(request: OmniRequest, processor: TurnProcessor, written: frozenset[str]) -> None:
    """Refuse a request that is wrong, or that the model cannot answer.

    Args:
        request: the request.
        processor: the model's.
        written: what the model gives, of `text` and `audio`.

    Raises:
        RequestRefused: `invalid_value` or `unsupported`, naming the field and what is allowed; `invalid_image`; or a
            code of the model's own for its functions.
    """
    _check_id(request.request_id)
    if not request.messages:
        raise _invalid("messages", "expected at least one message")
    for index, message in enumerate(request.messages):
        _check_message(message, f"messages[{index}]", processor)
    _optional_text(request.instructions, "instructions")
    _check_answer(request, processor, written)
    _check_sampling(request, processor)
    _check_tools(request, processor)


def _invalid(param: str, message: str) -> RequestRefused:
    return RequestRefused("invalid_value", f"{param}: {message}", param=param)


def _unsupported(param: str, message: str) -> RequestRefused:
    return RequestRefused("unsupported", f"{param}: {message}", param=param)


def _optional_text(value: object, param: str) -> None:
    if value is not None and (not isinstance(value, str) or not value):
        raise _invalid(param, "expected a text")


def _number(value: object, param: str, low: float, high: float) -> None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not good or not low <= value <= high:  # type: ignore[operator]
        raise _invalid(param, f"expected a number from {low:g} to {high:g}")


def _check_id(request_id: object) -> None:
    _optional_text(request_id, "request_id")
    if isinstance(request_id, str) and len(request_id) > ID_CHARS_MAX:
        raise _invalid("request_id", f"expected at most {ID_CHARS_MAX} characters")


# ------------------------------------------------------------------ messages


def _check_message(message: object, at: str, processor: TurnProcessor) -> None:
    if not isinstance(message, Message):
        raise _invalid(at, f"expected a Message, not a {type(message).__name__}")
    if message.role not in ROLES:
        raise _invalid(f"{at}.role", f"expected one of {', '.join(ROLES)}")
    for index, part in enumerate(message.content):
        _check_part(part, message.role, f"{at}.content[{index}]", processor)
    for index, call in enumerate(message.calls):
        if message.role != "assistant" or not isinstance(call, ChatCall):
            raise _invalid(f"{at}.calls[{index}]", "expected a ChatCall of an assistant")
    if message.role == "tool":
        if not message.call_id:
            raise _invalid(f"{at}.call_id", "expected the id of the call that is answered")
    elif message.call_id is not None:
        raise _invalid(f"{at}.call_id", "only a tool's message has one")
    says = any(not isinstance(part, Text) or part.text for part in message.content)
    if message.role == "user" and not says:
        raise _invalid(f"{at}.content", "the user's message is empty")


def _check_part(part: object, role: str, at: str, processor: TurnProcessor) -> None:
    if not isinstance(part, Text | Sound | Picture):
        raise _invalid(at, f"expected a Text, Sound or Picture, not a {type(part).__name__}")
    if isinstance(part, Text):
        if not isinstance(part.text, str):
            raise _invalid(f"{at}.text", "expected a text")
        if role == "user" and not processor.supports_text_input:
            raise _unsupported(at, "the model answers no written words")
    elif role != "user":
        raise _invalid(at, f"only the user's messages hold sound and pictures, not the {role}'s")
    elif isinstance(part, Sound):
        _check_sound(part, at, processor)
    else:
        _check_picture(part, at, processor)


def _check_sound(sound: Sound, at: str, processor: TurnProcessor) -> None:
    rate: object = sound.sample_rate_hz
    if not isinstance(rate, int) or isinstance(rate, bool) or not RATE_HZ_MIN <= rate <= RATE_HZ_MAX:
        raise _invalid(f"{at}.sample_rate_hz", f"expected an integer from {RATE_HZ_MIN} to {RATE_HZ_MAX}")
    pcm: object = sound.pcm
    if not isinstance(pcm, np.ndarray) or pcm.ndim != 1 or not np.issubdtype(pcm.dtype, np.floating):
        raise _invalid(f"{at}.pcm", "expected mono float samples in [-1, 1], a numpy array of one dimension")
    if not len(pcm):
        raise _invalid(f"{at}.pcm", "it holds no sound")
    if not np.isfinite(pcm).all():
        raise _invalid(f"{at}.pcm", "expected finite samples")
    if sound.transcript is not None and not isinstance(sound.transcript, str):
        raise _invalid(f"{at}.transcript", "expected a text")
    if not processor.supports_sound_input:
        raise _unsupported(at, "the model hears no sound")


def _check_picture(picture: Picture, at: str, processor: TurnProcessor) -> None:
    if not processor.supports_image_input:
        raise _unsupported(at, "the model takes no images")
    data: object = picture.data
    if isinstance(data, str):
        if not is_picture_url(data):
            message = "expected a JPEG or PNG picture as a data: URL in base64"
            raise RequestRefused("invalid_image", message, param=f"{at}.data")
        return
    try:
        picture_size(data if isinstance(data, bytes) else b"")
    except ValueError as error:
        raise RequestRefused("invalid_image", str(error), param=f"{at}.data") from None


# ------------------------------------------------------------------ the answer


def _check_answer(request: OmniRequest, processor: TurnProcessor, written: frozenset[str]) -> None:
    names = request.modalities
    if not names or any(name not in ("text", "audio") for name in names):
        raise _invalid("modalities", "expected text, audio or both")
    wanted = "audio" if request.speaks else "text"
    if wanted not in written:
        raise _unsupported("modalities", f"the model gives {', '.join(sorted(written))} only")
    _optional_text(request.voice, "voice")
    if request.voice is not None and request.voice not in processor.voices:
        raise _invalid(
            "voice", f"expected one of {', '.join(processor.voices) or 'none, for it has no choice'}"
        )
    _number(request.speed, "speed", SPEED_MIN, SPEED_MAX)
    _optional_text(request.language, "language")
    if request.temperature is not None:
        _number(request.temperature, "temperature", 0.0, TEMPERATURE_MAX)
    limit: object = request.max_output_tokens
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise _invalid("max_output_tokens", "expected an integer of at least 1")


def _check_sampling(request: OmniRequest, processor: TurnProcessor) -> None:
    sampling: object = request.sampling
    if not isinstance(sampling, Sampling):
        raise _invalid("sampling", f"expected a Sampling, not a {type(sampling).__name__}")
    for name in sorted(sampling.set_knobs - processor.sampling_knobs):
        known = ", ".join(sorted(processor.sampling_knobs)) or "none"
        raise _unsupported(f"sampling.{name}", f"the model does not have it; it has {known}")
    if sampling.json_schema is not None and request.speaks:
        raise _unsupported("sampling.json_schema", "what is spoken cannot be JSON")


def _check_tools(request: OmniRequest, processor: TurnProcessor) -> None:
    names: list[str] = []
    for index, tool in enumerate(request.tools):
        name = tool.get("name") if isinstance(tool, Mapping) else None
        if not isinstance(name, str) or not name or name in names:
            raise _invalid(f"tools[{index}].name", "expected a mapping with a name that no other has")
        names.append(name)
    if request.tools:
        if not processor.supports_tools:
            raise _unsupported("tools", "the model calls no functions")
        if request.sampling.json_schema is not None and request.tool_choice != "none":
            raise _unsupported("sampling.json_schema", "an answer is JSON or calls functions, not either")
        processor.check_tools(request.tools, "tools")
    _check_choice(request.tool_choice, names)


def _check_choice(choice: object, names: Sequence[str]) -> None:
    if isinstance(choice, Mapping):
        chosen: Any = choice.get("name")
        if chosen not in names:
            raise _invalid("tool_choice.name", "expected the name of one of the tools")
    elif choice not in ("auto", "none", "required"):
        raise _invalid("tool_choice", "expected auto, none, required, or the function to be called")
    elif choice == "required" and not names:
        raise _invalid("tool_choice", "there are no tools to call")
