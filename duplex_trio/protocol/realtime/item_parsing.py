"""Reading the items clients send into `items`, naming the field at fault as a path relative to the item.

Owns shapes, roles and part types. Whether ids exist, calls match, formats are supported or images fit is the
session's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args

from duplex_trio.protocol.json_values import expected, read_object, read_string
from duplex_trio.protocol.realtime.errors import RealtimeError
from duplex_trio.protocol.realtime.items import (
    FunctionCallItem,
    FunctionCallOutputItem,
    InputAudioPart,
    InputImagePart,
    InputTextPart,
    Item,
    ItemPart,
    ItemReference,
    ItemStatus,
    MessageItem,
    OutputAudioPart,
    OutputTextPart,
)
from duplex_trio.protocol.realtime.readers import read_base64, read_name, read_sample_rate

PART_TYPES_BY_ROLE = {
    "user": ("input_text", "input_audio", "input_image"),
    "system": ("input_text",),
    "assistant": ("output_text", "output_audio"),
}
"""What each role may say. The names of the older protocol, `text` and `audio`, are read as the role's own."""

_STATUSES: tuple[ItemStatus, ...] = get_args(ItemStatus)


def _get(
    source: Mapping[str, Any],
    key: str,
    read: Callable[[Any], Any],
    *,
    code: str = "invalid_value",
    required: bool = True,
    at: str = "",
) -> Any:
    """The value of `key` as `read` makes it; None when it is absent or null and not required."""
    value = source.get(key)
    if value is None and not required:
        return None
    try:
        if value is None:
            raise ValueError("missing")
        return read(value)
    except ValueError as error:
        raise RealtimeError(code, str(error), param=f"{at}{key}") from None


def _text_of_base64(value: Any) -> str:
    read_base64(value)
    return str(value).strip()


def _format_name(value: Any) -> Any:
    return value if type(value) is str else read_object(value)


def _audio_part(source: Mapping[str, Any], at: str) -> InputAudioPart:
    key = "data" if source.get("audio") is None and source.get("data") is not None else "audio"
    declared = _get(source, "format", _format_name, code="unsupported_audio_format", required=False, at=at)
    rate = _get(source, "sample_rate_hz", read_sample_rate, code="bad_event", required=False, at=at)
    return InputAudioPart(
        audio=_get(source, key, _text_of_base64, code="bad_audio", required=False, at=at),
        transcript=_get(source, "transcript", read_string, required=False, at=at),
        format=declared,
        sample_rate_hz=rate,
    )


def _detail(value: Any) -> Any:
    if value not in ("auto", "low", "high"):
        raise ValueError("expected auto, low or high")
    return value


def _image_part(source: Mapping[str, Any], at: str) -> InputImagePart:
    url = _get(source, "image_url", read_name, code="invalid_image", at=at)
    return InputImagePart(
        image_url=url, detail=_get(source, "detail", _detail, required=False, at=at) or "auto"
    )


def _part(value: Any, role: str, at: str) -> ItemPart:
    if not isinstance(value, Mapping):
        raise RealtimeError("invalid_value", str(expected("an object", value)), param=at)
    allowed = PART_TYPES_BY_ROLE[role]
    kind = value.get("type")
    if kind in ("text", "audio"):
        kind = f"output_{kind}" if role == "assistant" else f"input_{kind}"
    if kind not in allowed:
        message = f"expected one of {', '.join(allowed)}"
        raise RealtimeError("invalid_value", message, param=f"{at}.type")
    at = f"{at}."
    match kind:
        case "input_text":
            return InputTextPart(_get(value, "text", read_string, at=at))
        case "input_audio":
            return _audio_part(value, at)
        case "input_image":
            return _image_part(value, at)
        case "output_text":
            return OutputTextPart(_get(value, "text", read_string, at=at))
        case _:
            return OutputAudioPart(transcript=_get(value, "transcript", read_string, required=False, at=at))


def _status(value: Any) -> ItemStatus:
    if value not in _STATUSES:
        raise ValueError(f"expected one of {', '.join(_STATUSES)}")
    status: ItemStatus = value
    return status


def _message(source: Mapping[str, Any], item_id: str, status: ItemStatus) -> MessageItem:
    role = "user" if source.get("role") is None else source["role"]
    if type(role) is not str or role not in PART_TYPES_BY_ROLE:
        raise RealtimeError("invalid_value", f"expected one of {', '.join(PART_TYPES_BY_ROLE)}", param="role")
    content = source.get("content")
    if type(content) is not list or not content:
        raise RealtimeError("invalid_value", "expected a list of at least one part", param="content")
    parts = tuple(_part(part, role, f"content[{index}]") for index, part in enumerate(content))
    return MessageItem(id=item_id, role=role, status=status, content=parts)  # type: ignore[arg-type]


def read_item(value: Any) -> Item:
    """One item of a client; its id is "" when it has none.

    Raises:
        ValueError: it is no object.
        RealtimeError: a field of it is wrong; `param` is relative to the item, such as `content[0].text`.
    """
    source = read_object(value)
    item_id = _get(source, "id", read_string, required=False) or ""
    status: ItemStatus = _get(source, "status", _status, required=False) or "completed"
    match source.get("type", "message"):
        case "message":
            return _message(source, item_id, status)
        case "function_call":
            return FunctionCallItem(
                id=item_id,
                call_id=_get(source, "call_id", read_string, required=False) or "",
                name=_get(source, "name", read_name),
                arguments=_get(source, "arguments", read_string),
                status=status,
            )
        case "function_call_output":
            code = "invalid_function_call_output"
            return FunctionCallOutputItem(
                id=item_id,
                call_id=_get(source, "call_id", read_name, code=code),
                output=_get(source, "output", read_string, code=code),
                status=status,
            )
    message = "expected message, function_call or function_call_output"
    raise RealtimeError("invalid_value", message, param="type")


def read_input_items(value: Any) -> tuple[Item | ItemReference, ...]:
    """The `input` of a `response.create`: items, and references to items of the conversation.

    Raises:
        ValueError: it is no list.
        RealtimeError: an element is wrong; `param` is relative to the list, such as `[1].content[0].text`.
    """
    if type(value) is not list:
        raise expected("a list", value)
    items: list[Item | ItemReference] = []
    for index, element in enumerate(value):
        try:
            if isinstance(element, Mapping) and element.get("type") == "item_reference":
                items.append(ItemReference(_get(element, "id", read_name)))
            else:
                items.append(read_item(element))
        except RealtimeError as error:
            raise error.with_param(f"[{index}].{error.param}") from None
        except ValueError as error:
            raise RealtimeError("invalid_value", str(error), param=f"[{index}]") from None
    return tuple(items)
