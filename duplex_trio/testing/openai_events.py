"""The classes of OpenAI's own SDK for the events of its two protocols, to hold what we send against them.

Needs the `openai` package, which the `test` extra brings.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, get_args

import openai.types.beta.realtime.realtime_server_event as beta
import openai.types.realtime.realtime_server_event as ga
import pydantic

from duplex_trio.protocol.dialects import Dialect


@cache
def openai_event_classes(dialect: Dialect) -> Mapping[str, type[pydantic.BaseModel]]:
    """The SDK's class of each event type that OpenAI has in a dialect; the duplex dialect's are those of GA."""
    union: Any = (beta if dialect is Dialect.BETA else ga).RealtimeServerEvent
    members = get_args(get_args(union)[0])
    return {get_args(member.model_fields["type"].annotation)[0]: member for member in members}


def foreign_fields(value: object) -> list[str]:
    """The names of all fields, at any depth of a parsed event, that the SDK has no field for."""
    if isinstance(value, pydantic.BaseModel):
        own = list(value.model_extra or ())
        fields = type(value).model_fields
        return own + [name for field in fields for name in foreign_fields(getattr(value, field))]
    if isinstance(value, list):
        return [name for element in value for name in foreign_fields(element)]
    return []
