"""Turns `GenerationParams` into vLLM's sampling parameters, and says what is wrong with them."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any

from duplex_trio.stages.units import GenerationParams
from duplex_trio.stages.worker import UnitRefused

RESERVED = frozenset({"n", "output_kind", "detokenize", "stream_interval", "skip_clone"})
"""Parameters of vLLM that the worker itself depends on."""

NUMBERS = ("temperature", "top_p", "top_k", "repetition_penalty", "max_tokens", "seed")


def sampling_params(params: Any, defaults: Mapping[str, Any], room: int) -> Any:
    """Make a `vllm.SamplingParams` that streams increments.

    Args:
        params: the request's `GenerationParams`, or None. Its `extra` are further parameters of vLLM by name;
            `structured_outputs` there is a mapping (`json`, `regex`, `choice`, ...), as is
            `repetition_detection` (`max_pattern_size`, `min_pattern_size`, `min_count`).
        defaults: what the model's own generation configuration says.
        room: how many tokens fit behind the prompt; the answer is never longer, and as long by default.

    Raises:
        UnitRefused: a parameter is unknown, has the wrong type or is out of range; code `invalid_value`.
    """
    from vllm.sampling_params import (
        RepetitionDetectionParams,
        RequestOutputKind,
        SamplingParams,
        StructuredOutputsParams,
    )

    given = params if params is not None else GenerationParams()
    if not isinstance(given, GenerationParams):
        raise UnitRefused("invalid_value", f"params must be GenerationParams, is {type(given).__name__}")
    values = dict(defaults)
    for name in NUMBERS:
        value = getattr(given, name)
        if value is not None:
            values[name] = _number(name, value)
    if reserved := RESERVED & given.extra.keys():
        raise UnitRefused("invalid_value", f"{min(reserved)} cannot be set for a request")
    values |= given.extra
    wanted = values.get("max_tokens")
    values["max_tokens"] = room if wanted is None else min(_number("max_tokens", wanted), room)
    try:
        # vLLM takes a plain mapping for these without a word and fails at it in the middle of a step.
        for name, kind in (
            ("structured_outputs", StructuredOutputsParams),
            ("repetition_detection", RepetitionDetectionParams),
        ):
            if name in values:
                values[name] = _nested(name, kind, values[name])
        return SamplingParams(
            **values,
            stop=list(given.stop),
            ignore_eos=given.ignore_eos,
            output_kind=RequestOutputKind.DELTA,
        )
    except (
        Exception
    ) as error:  # vLLM raises its own, ValueError, TypeError and AttributeError for what it is given
        raise UnitRefused("invalid_value", f"sampling parameters: {plain(error)}") from error


def _nested(name: str, kind: type, given: Any) -> Any:
    if not isinstance(given, Mapping):
        raise UnitRefused("invalid_value", f"{name} must be a mapping, is {given!r}")
    # vLLM's own classes pass over names that they do not know.
    if unknown := given.keys() - {field.name for field in dataclasses.fields(kind)}:
        raise UnitRefused("invalid_value", f"{name} has no {min(unknown)!r}")
    return kind(**given)


def _number(name: str, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UnitRefused("invalid_value", f"{name} must be a number, is {value!r}")
    return value


_WHERE = re.compile(r"\[\d\d:\d\d:\d\d\] \S+:\d+: ")
"""The time and the line of source that native libraries write in front of what they say."""


def plain(error: BaseException) -> str:
    """What an engine says of a request, in one line and as far as it is of use to who made the request."""
    return " ".join(_WHERE.sub("", str(error)).split())
