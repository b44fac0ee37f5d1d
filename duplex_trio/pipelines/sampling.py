"""How a language-model stage samples, out of what four sides say of it.

Weakest first: the model's own habits; what a deployment says in `default_sampling_params`, where a request
leaves a parameter open; what the request asks for; and the stage's `sampling_constraints`, which hold whatever
anybody asks. The orchestrator applies this where a request enters a stage, so that no model has to. A parameter
is left open that is None, an empty `stop`, or a false `ignore_eos`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import attrs
from attrs import Factory, frozen

from duplex_trio.pipelines.config import StageSpec
from duplex_trio.stages.units import GenerationParams

_FIELDS = {field.name: field for field in attrs.fields(GenerationParams) if field.name != "extra"}


@frozen(kw_only=True)
class StageSampling:
    """The sampling of one stage.

    Attributes:
        stage: what the stage is called in messages.
        defaults: what holds where a request leaves it open, by parameter.
        constraints: what holds in any case.
    """

    stage: str
    defaults: Mapping[str, Any] = Factory(dict)
    constraints: Mapping[str, Any] = Factory(dict)

    def apply(self, params: Any) -> Any:
        """The parameters that the stage gets for what a request asks.

        Args:
            params: the request's; None where it asks nothing.

        Raises:
            TypeError: they are not `GenerationParams`, so that nothing can be made to hold.
        """
        if not self.defaults and not self.constraints:
            return params
        asked = GenerationParams() if params is None else params
        if not isinstance(asked, GenerationParams):
            raise TypeError(
                f"stage {self.stage} samples as the deployment or its constraints say: its params must be"
                f" GenerationParams, not {type(asked).__name__}"
            )
        known: dict[str, Any] = {}
        extra = dict(asked.extra)
        for name, value in self.defaults.items():
            field = _FIELDS.get(name)
            if field is None:
                extra.setdefault(name, value)
            elif getattr(asked, name) == field.default:
                known[name] = _as_field(name, value)
        for name, value in self.constraints.items():
            if name in _FIELDS:
                known[name] = _as_field(name, value)
            else:
                extra[name] = value
        return attrs.evolve(asked, **known, extra=extra)


def stage_sampling(spec: StageSpec, defaults: Mapping[str, Any] = MappingProxyType({})) -> StageSampling:
    """The sampling of a declared stage, with what a deployment says of it.

    Raises:
        ValueError: the deployment says what no parameter may be.
    """
    called = f"{spec.stage_id} ({spec.name})"
    faults = [f"{key} {clause}".strip() for key, clause in sampling_faults(spec, defaults)]
    if faults:
        raise ValueError(f"default_sampling_params of stage {called}: {'; '.join(faults)}")
    return StageSampling(stage=called, defaults=defaults, constraints=spec.sampling_constraints)


def sampling_faults(spec: StageSpec, defaults: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is wrong with a deployment's `default_sampling_params` of a stage.

    Each fault is the parameter, or nothing for all of them, and the clause that goes on behind it.
    """
    if defaults and spec.execution_type != "autoregressive":
        yield "", "must be left out: the stage samples nothing"
        return
    for name, value in defaults.items():
        rule = PARAMETERS.get(name)
        if rule is None:
            yield str(name), f"is no sampling parameter; there are {', '.join(sorted(PARAMETERS))}"
        elif not rule.holds(value):
            yield name, f"must be {rule.allowed}, not {value!r}"
        elif name in spec.sampling_constraints and spec.sampling_constraints[name] != value:
            fixed = spec.sampling_constraints[name]
            yield name, f"must be left out: the model holds it at {fixed!r}"


@frozen
class _Rule:
    allowed: str
    holds: Callable[[Any], bool]


def _between(low: float, high: float = math.inf) -> Callable[[Any], bool]:
    def holds(value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high

    return holds


def _whole(low: float = -math.inf) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= low


def _texts(value: Any) -> bool:
    texts = [value] if isinstance(value, str) else value
    return isinstance(texts, list | tuple) and all(isinstance(text, str) and text for text in texts)


def _token_ids(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(_whole(0)(token) for token in value)


_TINY = math.ulp(0.0)
PARAMETERS: Mapping[str, _Rule] = {
    "temperature": _Rule("a number, at least 0", lambda value: _between(0)(value) and math.isfinite(value)),
    "top_p": _Rule("a number above 0 and at most 1", _between(_TINY, 1)),
    "top_k": _Rule(
        "a whole number, at least 1, or -1 for all", lambda value: _whole(1)(value) or value == -1
    ),
    "min_p": _Rule("a number between 0 and 1", _between(0, 1)),
    "repetition_penalty": _Rule(
        "a number above 0", lambda value: _between(_TINY)(value) and math.isfinite(value)
    ),
    "presence_penalty": _Rule("a number between -2 and 2", _between(-2, 2)),
    "frequency_penalty": _Rule("a number between -2 and 2", _between(-2, 2)),
    "max_tokens": _Rule("a whole number, at least 1", _whole(1)),
    "min_tokens": _Rule("a whole number, at least 0", _whole(0)),
    "seed": _Rule("a whole number", _whole()),
    "stop": _Rule("a text or a list of texts, none of them empty", _texts),
    "stop_token_ids": _Rule("a list of whole numbers, at least 0", _token_ids),
    "bad_words": _Rule(
        "a list of texts, none of them empty", lambda value: not isinstance(value, str) and _texts(value)
    ),
    "ignore_eos": _Rule("true or false", lambda value: isinstance(value, bool)),
}
"""What a deployment may set, and what each may be. A model's constraints may name others that its engine has."""


def _as_field(name: str, value: Any) -> Any:
    if name == "stop":
        return (value,) if isinstance(value, str) else tuple(value)
    return value
