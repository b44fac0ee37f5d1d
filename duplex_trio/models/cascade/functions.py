"""Which functions a turn of the cascade may call, and whether it must."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from duplex_trio.models.calling.relevance import likely_function
from duplex_trio.models.calling.schemas import SchemaError, check_schema
from duplex_trio.models.calling.wording import ToolChoice
from duplex_trio.models.cascade.profiles import ChatProfile
from duplex_trio.pipelines.requests import TurnInput
from duplex_trio.protocol.refusal import RequestRefused


@frozen
class Calling:
    """The functions that the model is told of, and whether it must call one."""

    tools: Sequence[Mapping[str, Any]] = ()
    choice: ToolChoice = "auto"


def check_tools(tools: Sequence[Mapping[str, Any]], param: str) -> None:
    """Refuse functions whose parameters are no JSON schema.

    Raises:
        RequestRefused: `invalid_value`, naming the place.
    """
    for index, tool in enumerate(tools):
        try:
            check_schema(tool)
        except SchemaError as error:
            raise RequestRefused(
                "invalid_value", f"{tool.get('name')}: {error}", param=f"{param}[{index}].parameters"
            ) from error


def calling_of(turn: TurnInput, user_text: str | None, profile: ChatProfile) -> Calling:
    """What a turn may call.

    For a model that cannot tell whether to call, what the user said decides, and the answer to a call is
    never another one.

    Args:
        turn: the turn.
        user_text: what the user said just now; None for a turn that answers the conversation as it stands.
        profile: the model's habits.
    """
    choice = turn.tool_choice
    if choice != "auto" or profile.decides_calls or not turn.tools:
        return Calling(turn.tools, choice)
    last = turn.conversation[-1] if turn.conversation else None
    said = user_text or (last.content if last is not None and last.role == "user" else "")
    name = likely_function(turn.tools, said)
    if name is None:
        return Calling()
    return Calling([tool for tool in turn.tools if tool["name"] == name], {"type": "function", "name": name})
