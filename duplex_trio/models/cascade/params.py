"""How the language model samples an answer: what the turn asks for, and the profile's habits where it asks nothing."""

from __future__ import annotations

from typing import Any

from duplex_trio.models.calling.guides import Guide
from duplex_trio.models.cascade.profiles import ChatProfile
from duplex_trio.pipelines.requests import TurnInput
from duplex_trio.stages.units import GenerationParams

_BY_NAME = ("min_p", "presence_penalty", "frequency_penalty")
"""Knobs that the engine knows by the same name."""


def generation_params(turn: TurnInput, profile: ChatProfile, guide: Guide | None) -> GenerationParams:
    """Parameters of the answer to a turn, which a guide for calls may hold to a form."""
    wanted = turn.sampling
    extra: dict[str, Any] = {
        name: getattr(wanted, name) for name in _BY_NAME if getattr(wanted, name) is not None
    }
    if guide is not None:
        extra["structured_outputs"] = {"structural_tag": guide.structural_tag}
    elif wanted.json_schema is not None:
        extra["structured_outputs"] = {"json": dict(wanted.json_schema)}
    return GenerationParams(
        temperature=profile.temperature if turn.temperature is None else turn.temperature,
        top_p=profile.top_p if wanted.top_p is None else wanted.top_p,
        top_k=wanted.top_k,
        repetition_penalty=profile.repetition_penalty
        if wanted.repetition_penalty is None
        else wanted.repetition_penalty,
        max_tokens=turn.max_output_tokens or profile.max_tokens,
        stop=wanted.stop,
        seed=wanted.seed,
        extra=extra,
    )
