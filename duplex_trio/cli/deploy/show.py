"""A deployment as a file again: what it says after inheritance and platform, and where each value comes from.

References to environment variables stay references, so that no value from outside the file is shown; values that
may be secret are hidden. What is printed can be loaded again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import yaml

from duplex_trio.deploy import (
    DeployConfig,
    Document,
    DuplexSessionDeploy,
    SessionMode,
    StageDeploy,
    VideoSessionDeploy,
)
from duplex_trio.deploy.keys import SECRET, default_of, file_key
from duplex_trio.deploy.stage import RemoteDeploy
from duplex_trio.deploy.tree import Entry
from duplex_trio.deploy.variables import refers

HIDDEN = "<hidden>"
_TELLING = re.compile(r"(^|[_-])(token|key|secret|password|authorization)s?$", re.IGNORECASE)
"""Names of values in free mappings, such as `engine_args`, that are nobody's business."""

_CLASSES: Mapping[str, type[Any]] = {
    "duplex_session": DuplexSessionDeploy,
    "video_session": VideoSessionDeploy,
    "stages": StageDeploy,
    "remote": RemoteDeploy,
}


@attrs.frozen(kw_only=True)
class _Shown:
    """A value: a dict or list of further ones, or plain data; `written` is how a file has it, `origin` which file."""

    value: Any
    written: str = ""
    origin: str = ""


def as_data(document: Document, mode: SessionMode, *, every: bool = False) -> dict[str, Any]:
    """The deployment as plain data, with what it is made of."""
    return {
        "deployment": document.source,
        "platform": document.platform,
        "files": list(document.sources),
        "config": _plain(_shown_config(document, mode, every)),
    }


def as_yaml(document: Document, mode: SessionMode, *, every: bool = False) -> str:
    """The deployment as a file, each value with the place that it comes from."""
    made_of = ", ".join(reversed(document.sources))
    head = f"# {document.source} on {document.platform}; made of {made_of}\n"
    lines = list(_mapping_lines(_shown_config(document, mode, every).value, ""))
    width = min(60, max(len(text) for text, origin in lines if origin))
    return head + "".join(
        f"{text:<{width}}  # {origin}\n" if origin else f"{text}\n" for text, origin in lines
    )


def _shown_config(document: Document, mode: SessionMode, every: bool) -> _Shown:
    shown = _of_class(document.tree, DeployConfig, every)
    if document.tree.get("session_mode") is None:
        default = _Shown(value=mode, written=mode, origin=f"default of pipeline {document.config.pipeline}")
        shown.value["session_mode"] = default
    order = {file_key(attribute): None for attribute in attrs.fields(DeployConfig)}
    return attrs.evolve(shown, value={key: shown.value[key] for key in order if key in shown.value})


def _of_class(entry: Entry, cls: type[Any], every: bool) -> _Shown:
    """A mapping whose keys a class has."""
    shown: dict[Any, _Shown] = {}
    attribute: attrs.Attribute[Any]
    for attribute in attrs.fields(cls):
        key = file_key(attribute)
        inner = entry.get(key)
        if inner is not None:
            shown[key] = _of_key(key, inner, bool(attribute.metadata.get(SECRET)), every)
        elif every and attribute.default is not attrs.NOTHING:
            shown[key] = _of_default(key, attribute)
    return _Shown(value=shown)


def _of_key(key: str, entry: Entry, secret: bool, every: bool) -> _Shown:
    cls = _CLASSES.get(key)
    if cls is not None and isinstance(entry.content, dict):
        return _of_class(entry, cls, every)
    if cls is not None and isinstance(entry.content, list):
        return _Shown(value=[_of_class(inner, cls, every) for inner in entry.content])
    return _free(entry, secret)


def _free(entry: Entry, secret: bool) -> _Shown:
    """A value whose shape is nobody's business here."""
    origin = str(entry.place).rpartition(":")[0]
    if isinstance(entry.content, dict):
        items = entry.content.items()
        return _Shown(value={key: _free(one, secret or _tells(key)) for key, one in items}, origin=origin)
    if isinstance(entry.content, list):
        return _Shown(value=[_free(inner, secret) for inner in entry.content], origin=origin)
    if refers(entry):
        written = entry.content if entry.plain else _quoted(entry.content)
        return _Shown(value=entry.content, written=written, origin=origin)
    value = HIDDEN if secret and entry.content is not None else entry.content
    return _Shown(value=value, written=_scalar(value), origin=origin)


def _tells(key: object) -> bool:
    return isinstance(key, str) and bool(_TELLING.search(key))


def _of_default(key: str, attribute: attrs.Attribute[Any]) -> _Shown:
    value = default_of(attribute)
    if attrs.has(type(value)):
        inner = {file_key(one): _of_default(file_key(one), one) for one in attrs.fields(type(value))}
        return _Shown(value=inner)
    plain = list(value) if isinstance(value, tuple) else value
    return _Shown(value=plain, written=_scalar(plain), origin="default")


def _plain(shown: _Shown) -> Any:
    if isinstance(shown.value, dict):
        return {key: _plain(one) if isinstance(one, _Shown) else one for key, one in shown.value.items()}
    if isinstance(shown.value, list):
        return [_plain(one) if isinstance(one, _Shown) else one for one in shown.value]
    return shown.value


def _mapping_lines(values: Mapping[Any, _Shown], indent: str) -> Iterator[tuple[str, str]]:
    for key, shown in values.items():
        name = _scalar(key)
        if isinstance(shown.value, dict) and shown.value:
            yield f"{indent}{name}:", ""
            yield from _mapping_lines(shown.value, indent + "  ")
        elif isinstance(shown.value, list) and shown.value:
            yield f"{indent}{name}:", ""
            yield from _list_lines(shown.value, indent + "  ")
        else:
            yield f"{indent}{name}: {shown.written or _scalar(shown.value)}", shown.origin


def _list_lines(values: list[_Shown], indent: str) -> Iterator[tuple[str, str]]:
    for shown in values:
        if isinstance(shown.value, dict) and shown.value:
            inner = _mapping_lines(shown.value, indent + "  ")
        elif isinstance(shown.value, list) and shown.value:
            inner = _list_lines(shown.value, indent + "  ")
        else:
            yield f"{indent}- {shown.written or _scalar(shown.value)}", shown.origin
            continue
        text, origin = next(inner)
        yield f"{indent}- {text.lstrip()}", origin
        yield from inner


def _scalar(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, str) and not value.isprintable():
        return _quoted(value)
    text: str = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=float("inf"))
    return text.removesuffix("\n").removesuffix("\n...").replace("\n", " ")


def _quoted(text: str) -> str:
    quoted: str = yaml.safe_dump(text, default_style='"', allow_unicode=True, width=float("inf"))
    return quoted.removesuffix("\n")
