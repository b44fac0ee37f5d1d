"""From the plain data of a YAML file to `DeployConfig`, strictly, with the path to the key of every fault.

cattrs does the structuring. The hooks here take away its generosity (`int("5")`, `bool("no")`), and one walk
over its nested errors turns them into `DeployFault`s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_args, get_origin

import attrs
from cattrs import Converter
from cattrs.errors import (
    AttributeValidationNote,
    ClassValidationError,
    ForbiddenExtraKeysError,
    IterableValidationError,
    IterableValidationNote,
)
from cattrs.gen import make_dict_structure_fn, override

from duplex_trio.deploy.config import DeployConfig, StageDeploy
from duplex_trio.deploy.errors import DeployFault, KeyFaultError
from duplex_trio.deploy.limits import file_key

T = TypeVar("T")


class _KindError(ValueError):
    """A value of the wrong kind; the path comes from the cattrs notes around it."""


def _strict(kind: type[T], noun: str) -> Callable[[Any, Any], T]:
    def structure(value: Any, _: Any) -> T:
        # bool is a subclass of int, but `max_sessions: yes` is a mistake and not 1.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise _KindError(f"must be {noun}, not {value!r}")
        return value

    return structure


def _number(value: Any, _: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _KindError(f"must be a number, not {value!r}")
    return float(value)


def _stages(value: Any, _: Any) -> tuple[StageDeploy, ...]:
    if not isinstance(value, list):
        raise _KindError(f"must be a list, not {value!r}")
    return tuple(_CONVERTER.structure(value, list[StageDeploy]))


def _one_of(value: Any, kind: Any) -> Any:
    allowed = get_args(kind)
    if value not in allowed:
        raise _KindError(f"must be one of {', '.join(allowed)}, not {value!r}")
    return value


def _is_literal(kind: Any) -> bool:
    origin: Any = get_origin(kind)
    return origin is Literal


def _mapping(value: Any, _: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise _KindError(f"must be a mapping with text keys, not {value!r}")
    return dict(value)


def _file_keys(cls: type[Any]) -> Mapping[str, str]:
    """What a file calls each attribute of a class."""
    return {attribute.name: file_key(attribute) for attribute in attrs.fields(cls)}


def _attrs_factory(cls: type[T], converter: Converter) -> Callable[[Any, Any], T]:
    renames: dict[str, Any] = {
        name: override(rename=key) for name, key in _file_keys(cls).items() if name != key
    }
    build = make_dict_structure_fn(cls, converter, _cattrs_forbid_extra_keys=True, **renames)

    def structure(value: Any, target: Any) -> T:
        if not isinstance(value, Mapping):
            raise _KindError(f"must be a mapping, not {value!r}")
        return build(value, target)

    return structure


def make_converter() -> Converter:
    """Make the strict converter of deployment files."""
    converter = Converter(forbid_extra_keys=True)
    converter.register_structure_hook(int, _strict(int, "a whole number"))
    converter.register_structure_hook(float, _number)
    converter.register_structure_hook(bool, _strict(bool, "true or false"))
    converter.register_structure_hook(str, _strict(str, "text"))
    converter.register_structure_hook_func(_is_literal, _one_of)
    converter.register_structure_hook_func(lambda cls: cls == Mapping[str, Any], _mapping)
    converter.register_structure_hook_func(lambda cls: cls == tuple[StageDeploy, ...], _stages)
    converter.register_structure_hook_factory(attrs.has, _attrs_factory)
    return converter


_CONVERTER = make_converter()


class StructureError(ValueError):
    """The data does not describe a deployment. `faults` has at least one entry."""

    def __init__(self, faults: tuple[DeployFault, ...]) -> None:
        super().__init__("; ".join(str(fault) for fault in faults))
        self.faults = faults


def structure_deploy(data: Mapping[str, Any]) -> DeployConfig:
    """Structure merged file data.

    Raises:
        StructureError: with every fault found in one pass.
    """
    try:
        return _CONVERTER.structure(data, DeployConfig)
    except ClassValidationError as error:
        raise StructureError(tuple(_faults(error, ""))) from error


def _faults(
    error: BaseException, path: str, keys: Mapping[str, str] = MappingProxyType({})
) -> Iterator[DeployFault]:
    """The faults in an error at `path`; `keys` are those of the class that it came up in."""
    if isinstance(error, ClassValidationError | IterableValidationError):
        inside = _file_keys(error.cl) if isinstance(error, ClassValidationError) else {}
        for inner in error.exceptions:
            yield from _faults(inner, path + _step(inner, path, inside), inside)
    elif isinstance(error, ForbiddenExtraKeysError):
        yield from _unknown_keys(error, path)
    elif isinstance(error, KeyFaultError):
        key = keys.get(error.key, error.key)
        full = f"{path}.{key}" if path else key
        yield DeployFault(full, f"{full} {error.rule}, not {error.value!r}")
    elif isinstance(error, KeyError):
        missing = str(error.args[0])
        full = path if path.endswith(missing) else f"{path}.{missing}" if path else missing
        yield DeployFault(full, f"required key {full} is missing")
    elif isinstance(error, _KindError):
        yield DeployFault(path, f"{path} {error}")
    else:
        yield DeployFault(path, f"{path}: {error}")


def _step(error: BaseException, path: str, keys: Mapping[str, str]) -> str:
    """Read from the notes cattrs leaves which attribute or index an error belongs to."""
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, IterableValidationNote):
            return f"[{note.index}]"
        if isinstance(note, AttributeValidationNote):
            key = keys.get(note.name, note.name)
            return f".{key}" if path else key
    return ""


def _unknown_keys(error: ForbiddenExtraKeysError, path: str) -> Iterator[DeployFault]:
    allowed = list(_file_keys(error.cl).values())
    where = path or "top level"
    for key in sorted(str(extra) for extra in error.extra_fields):
        close = get_close_matches(key, allowed, n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        message = f"unknown key {key!r} at {where}{hint}; allowed there: {', '.join(allowed)}"
        yield DeployFault(f"{path}.{key}" if path else key, message)
