"""From the plain data of a YAML file to `DeployConfig`, strictly, with the path to the key of every fault.

cattrs does the structuring. The hooks here take away its generosity (`int("5")`, `bool("no")`) and hold each
value to its check, so that one fault hides no other; one walk over the nested errors turns them into `Problem`s.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Any, Literal, TypeVar, get_args, get_origin

import attrs
from attrs import frozen
from cattrs import Converter
from cattrs.errors import (
    AttributeValidationNote,
    ClassValidationError,
    ForbiddenExtraKeysError,
    IterableValidationError,
    IterableValidationNote,
)
from cattrs.gen import make_dict_structure_fn, override

from duplex_trio.deploy.checks import Check
from duplex_trio.deploy.config import DeployConfig
from duplex_trio.deploy.errors import KeyFaultError, brief
from duplex_trio.deploy.keys import READS, file_key
from duplex_trio.deploy.stage import RemoteDeploy, StageDeploy, stage_rules
from duplex_trio.deploy.tree import Path

T = TypeVar("T")

FILE_ONLY = ("base_config", "platforms")
"""Keys of a file that no deployment has: they say what it is made of."""

_RULED = {"execution", "remote", "python", "environment", "devices", "num_replicas"} | {
    f"{kind}_parallel_size" for kind in ("tensor", "pipeline", "data")
}
"""Keys that `stage_rules` looks at; where one of them is faulty by itself, nothing can be said between them."""


@frozen
class Problem:
    """Something wrong with the data at `path`. `say` makes the message of the path as some file has it."""

    path: Path
    say: Callable[[str], str]


class _KindError(ValueError):
    """A value of the wrong kind or outside what is allowed; the path comes from the cattrs notes around it."""


def _strict(kind: type[T], noun: str) -> Callable[[Any, Any], T]:
    def structure(value: Any, _: Any) -> T:
        # bool is a subclass of int, but `max_sessions: yes` is a mistake and not 1.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise _KindError(f"must be {noun}, not {brief(value)}")
        return value

    return structure


def _number(value: Any, _: Any) -> float:
    try:
        number = math.nan if isinstance(value, bool) or not isinstance(value, int | float) else float(value)
    except OverflowError:
        number = math.nan
    if not math.isfinite(number):
        raise _KindError(f"must be a number, not {brief(value)}")
    return number


def _stages(value: Any, _: Any) -> tuple[StageDeploy, ...]:
    if not isinstance(value, list):
        raise _KindError(f"must be a list, not {brief(value)}")
    return tuple(_CONVERTER.structure(value, list[StageDeploy]))


def _one_of(value: Any, kind: Any) -> Any:
    allowed = get_args(kind)
    if not isinstance(value, str) or value not in allowed:
        raise _KindError(f"must be one of {', '.join(allowed)}, not {brief(value)}")
    return value


def _is_literal(kind: Any) -> bool:
    origin: Any = get_origin(kind)
    return origin is Literal


def _mapping(value: Any, kind: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise _KindError(f"must be a mapping with text keys, not {brief(value)}")
    if get_args(kind)[1] is str and not all(isinstance(inner, str) for inner in value.values()):
        raise _KindError(f"must map text to text, not {brief(value)}")
    return dict(value)


def _file_keys(cls: type[Any]) -> Mapping[str, str]:
    """What a file calls each attribute of a class."""
    return {attribute.name: file_key(attribute) for attribute in attrs.fields(cls)}


def _attrs_factory(cls: type[T], converter: Converter) -> Callable[[Any, Any], T]:
    overrides: dict[str, Any] = {
        attribute.name: override(
            rename=file_key(attribute), struct_hook=partial(_checked, converter, attribute)
        )
        for attribute in attrs.fields(cls)  # type: ignore[arg-type]
    }
    build = make_dict_structure_fn(cls, converter, _cattrs_forbid_extra_keys=True, **overrides)

    def structure(value: Any, target: Any) -> T:
        if not isinstance(value, Mapping):
            raise _KindError(f"must be a mapping, not {brief(value)}")
        if not all(isinstance(key, str) for key in value):
            raise _KindError(f"must be a mapping with text keys, not {brief(value)}")
        try:
            return build(value, target)
        except ClassValidationError as error:
            if cls is not StageDeploy:
                raise
            raise _with_rules(error, value) from None

    return structure


def _checked(converter: Converter, attribute: attrs.Attribute[Any], value: Any, kind: Any) -> Any:
    """One value, held to its type and its check."""
    reads = attribute.metadata.get(READS)
    read = reads(value) if reads is not None else value
    made = converter.structure(read, kind)
    check = attribute.validator
    if isinstance(check, Check) and made is not None and not check.holds(made):
        raise _KindError(f"{check.rule}, not {brief(made)}")
    return made


def _with_rules(error: ClassValidationError, value: Mapping[str, Any]) -> ClassValidationError:
    """A stage's error with everything that is wrong between its keys, of which the class tells the first one."""
    single = [inner for inner in error.exceptions if not isinstance(inner, KeyFaultError)]
    faulty = {
        note.name for inner in single for note in _notes(inner) if isinstance(note, AttributeValidationNote)
    }
    between: list[KeyFaultError] = []
    if not faulty & _RULED:
        fields = attrs.fields_dict(StageDeploy)
        reads = {name: fields[name].metadata.get(READS) for name in value if name in fields}
        between = list(
            stage_rules({name: read(value[name]) if read else value[name] for name, read in reads.items()})
        )
    return ClassValidationError(error.message, [*single, *between], error.cl)


def make_converter() -> Converter:
    """Make the strict converter of deployment files."""
    converter = Converter(forbid_extra_keys=True)
    converter.register_structure_hook(int, _strict(int, "a whole number"))
    converter.register_structure_hook(float, _number)
    converter.register_structure_hook(bool, _strict(bool, "true or false"))
    converter.register_structure_hook(str, _strict(str, "text"))
    converter.register_structure_hook_func(_is_literal, _one_of)
    converter.register_structure_hook_func(
        lambda kind: get_origin(kind) is get_origin(Mapping[str, Any]), _mapping
    )
    converter.register_structure_hook_func(lambda kind: kind == tuple[StageDeploy, ...], _stages)
    converter.register_structure_hook_factory(attrs.has, _attrs_factory)
    return converter


_CONVERTER = make_converter()


def structure_deploy(data: Mapping[str, Any]) -> tuple[DeployConfig | None, list[Problem]]:
    """Structure merged file data: the deployment, or every fault found in one pass."""
    try:
        return _CONVERTER.structure(data, DeployConfig), []
    except (ClassValidationError, _KindError) as error:
        return None, list(_problems(error, ()))


def nullable(path: Path) -> bool:
    """Whether null is a value of the key at a path; `stages` is followed by any one step."""
    kinds: dict[str, type[Any]] = {"stages": StageDeploy, "remote": RemoteDeploy}
    cls: type[Any] = DeployConfig
    steps = list(path)
    while steps:
        name = steps.pop(0)
        field = next((one for one in attrs.fields(cls) if file_key(one) == name), None)
        if field is None:
            return False
        if not steps:
            return "None" in str(field.type) or field.type is Any
        if name == "stages":
            steps.pop(0)
            if not steps:
                return False
        inner = kinds.get(str(name)) or field.type
        if not (isinstance(inner, type) and attrs.has(inner)):
            return False
        cls = inner
    return False


def _notes(error: BaseException) -> tuple[Any, ...]:
    return tuple(getattr(error, "__notes__", ()))


def _problems(error: BaseException, path: Path, cls: type[Any] | None = None) -> Iterator[Problem]:
    """What is wrong in an error at `path`, which came up in a class."""
    keys = {} if cls is None else _file_keys(cls)
    if isinstance(error, ClassValidationError | IterableValidationError):
        inside = error.cl if isinstance(error, ClassValidationError) else None
        for inner in error.exceptions:
            yield from _problems(inner, path + _step(inner, inside), inside)
    elif isinstance(error, ForbiddenExtraKeysError):
        yield from _unknown_keys(error, path)
    elif isinstance(error, KeyFaultError):
        full = (*path, *_parsed(keys.get(error.key, error.key)))
        yield _must(full, f"{error.rule}, not {brief(error.value)}")
    elif isinstance(error, KeyError):
        missing = str(error.args[0])
        full = path if path and path[-1] == missing else (*path, missing)
        yield Problem(full, lambda where: f"required key {where} is missing")
    else:
        yield _must(path, str(error))


def _must(path: Path, rule: str) -> Problem:
    return Problem(path, lambda where: f"{where} {rule}" if where else f"a deployment {rule}")


def _parsed(key: str) -> Path:
    """The steps of `stages[1].devices`."""
    return tuple(int(step) if step.isdigit() else step for step in re.findall(r"[^.\[\]]+", key))


def _step(error: BaseException, cls: type[Any] | None) -> Path:
    """Read from the notes cattrs leaves which attribute or index an error belongs to."""
    for note in _notes(error):
        if isinstance(note, IterableValidationNote):
            return (int(note.index),)
        if isinstance(note, AttributeValidationNote):
            return ((_file_keys(cls) if cls is not None else {}).get(note.name, note.name),)
    return ()


def _unknown_keys(error: ForbiddenExtraKeysError, path: Path) -> Iterator[Problem]:
    allowed = [*_file_keys(error.cl).values(), *(FILE_ONLY if error.cl is DeployConfig else ())]
    for key in sorted(str(extra) for extra in error.extra_fields):
        close = get_close_matches(key, allowed, n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        yield Problem((*path, key), partial(_unknown, key, f"{hint}; allowed there: {', '.join(allowed)}"))


def _unknown(key: str, advice: str, where: str) -> str:
    parent = where.removesuffix(key).removesuffix(".") or "top level"
    return f"unknown key {brief(key)} at {parent}{advice}"
