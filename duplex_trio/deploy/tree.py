"""A deployment file as a tree that remembers where each value is written: from YAML, and merged over another.

What a value is, apart from being a mapping, a list or something else, is not looked at here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml
from attrs import evolve, frozen
from yaml.constructor import ConstructorError

from duplex_trio.deploy.errors import DeployFault, Place, brief

Path = tuple[str | int, ...]
"""Keys and indices from the top to a value."""

VALUES_MAX = 100_000
"""Of a file, aliases counted each time: a file of a few lines can stand for billions of values."""

_MERGE_TAG = "tag:yaml.org,2002:merge"
_MAP_TAG, _LIST_TAG, _TEXT_TAG = "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:str"


@frozen(eq=False)
class Entry:
    """One value.

    Attributes:
        content: a dict or a list of entries, or anything else.
        place: where it is written; that of its key in a mapping.
        path: how one gets to it in the file that holds it.
        plain: it is text that YAML would have read as something else if it looked like it: a number, true, null.
    """

    content: Any
    place: Place
    path: Path = ()
    plain: bool = False

    def find(self, path: Path) -> Entry:
        """The entry at a path, or the one nearest to it that is there."""
        if not path:
            return self
        content = self.content
        if isinstance(content, dict) and path[0] in content:
            return found.find(path[1:]) if isinstance(found := content[path[0]], Entry) else self
        if isinstance(content, list) and isinstance(path[0], int) and path[0] < len(content):
            found = content[path[0]]
            return found.find(path[1:]) if isinstance(found, Entry) else self
        return self

    def get(self, key: str) -> Entry | None:
        """The entry of a key, if this is a mapping that has it."""
        found = self.content.get(key) if isinstance(self.content, dict) else None
        return found if isinstance(found, Entry) else None

    def without(self, *keys: str) -> Entry:
        """The mapping without some keys."""
        return evolve(self, content={key: inner for key, inner in self.content.items() if key not in keys})

    def values(self, resolve: Callable[[Entry], Any]) -> Any:
        """The tree as plain data; `resolve` makes the value of each entry that is no mapping and no list."""
        if isinstance(self.content, dict):
            return {key: inner.values(resolve) for key, inner in self.content.items()}
        if isinstance(self.content, list):
            return [inner.values(resolve) for inner in self.content]
        return resolve(self)


def spell(path: Path) -> str:
    """A path as messages have it: `stages[1].model`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text


class _Unreadable(Exception):
    """A file that makes no tree."""


def read_tree(source: str, text: str) -> tuple[Entry | None, list[DeployFault]]:
    """Read a file's YAML: its tree, if it has one, and what is wrong with it."""
    faults: list[DeployFault] = []
    try:
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            tree = _Builder(source, loader, faults).build(node, (), ()) if node is not None else None
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = " ".join(part for part in (error.context, error.problem) if part)
        place = Place(source) if mark is None else _place(source, mark)
        return None, [*faults, DeployFault("", f"not valid YAML: {said}", place)]
    except yaml.YAMLError as error:
        said = " ".join(str(error).split())
        return None, [*faults, DeployFault("", f"not valid YAML: {said}", Place(source))]
    except RecursionError:
        return None, [*faults, DeployFault("", "values are nested too deeply", Place(source))]
    except _Unreadable as error:
        return None, [*faults, DeployFault("", str(error), Place(source))]
    if tree is None or not isinstance(tree.content, dict):
        return None, [*faults, DeployFault("", "a deployment file must be a mapping of keys", Place(source))]
    return tree, faults


def _place(source: str, mark: Any) -> Place:
    return Place(source, mark.line + 1, mark.column + 1)


class _Builder:
    """Makes entries of YAML's nodes."""

    def __init__(self, source: str, loader: yaml.SafeLoader, faults: list[DeployFault]) -> None:
        self._source = source
        self._loader = loader
        self._faults = faults
        self._count = 0

    def build(self, node: Any, path: Path, within: tuple[int, ...], mark: Any = None) -> Entry:
        self._count += 1
        if self._count > VALUES_MAX:
            raise _Unreadable(f"the file has more than {VALUES_MAX} values")
        place = _place(self._source, mark or node.start_mark)
        if id(node) in within:
            raise ConstructorError(None, None, "a value holds itself", node.start_mark)
        within = (*within, id(node))
        if isinstance(node, yaml.MappingNode) and node.tag == _MAP_TAG:
            return Entry(self._mapping(node, path, within), place, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == _LIST_TAG:
            inner = [self.build(one, (*path, index), within) for index, one in enumerate(node.value)]
            return Entry(inner, place, path)
        plain = isinstance(node, yaml.ScalarNode) and node.style is None and node.tag == _TEXT_TAG
        return Entry(self._value(node), place, path, plain)

    def _mapping(self, node: yaml.MappingNode, path: Path, within: tuple[int, ...]) -> dict[Any, Entry]:
        # YAML asks for unique keys, PyYAML takes the last one: a limit set twice would silently be one of both.
        own: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == _MERGE_TAG:
                continue
            key = self._key(key_node)
            if key in own:
                place = _place(self._source, key_node.start_mark)
                self._faults.append(
                    DeployFault(spell((*path, str(key))), f"the key {key!r} is there twice", place)
                )
            own.add(key)
        self._loader.flatten_mapping(node)
        entries = {}
        for key_node, value_node in node.value:
            key = self._key(key_node)
            step = key if isinstance(key, str) else str(key)
            entries[key] = self.build(value_node, (*path, step), within, key_node.start_mark)
        return entries

    def _key(self, node: Any) -> Any:
        if not isinstance(node, yaml.ScalarNode):
            raise ConstructorError(None, None, "a key must be text", node.start_mark)
        return self._value(node)

    def _value(self, node: Any) -> Any:
        if not isinstance(node, yaml.ScalarNode):
            kind = node.tag.replace("tag:yaml.org,2002:", "!!")
            raise ConstructorError(None, None, f"a deployment file takes no {kind}", node.start_mark)
        try:
            return self._loader.construct_object(node, deep=True)
        except (ValueError, OverflowError, TypeError, KeyError, IndexError, AttributeError) as error:
            # What looks like a date or a number and is none, such as 2024-13-45.
            reason = f"a value cannot be read: {brief(str(error))}"
            raise ConstructorError(None, None, reason, node.start_mark) from None


def merge(base: Entry, over: Entry, nullable: Callable[[Path], bool], path: Path = ()) -> Entry:
    """One tree over another: mappings key by key, `stages` by `stage_id`, everything else as a whole.

    A null takes away what it stands over, unless `nullable` says that null is a value of the key at a path.
    """
    if isinstance(base.content, dict) and isinstance(over.content, dict):
        merged = dict(base.content)
        for key, value in over.content.items():
            below, inner = merged.get(key), (*path, str(key))
            if below is None:
                merged[key] = value
            elif value.content is None and not nullable(inner):
                del merged[key]
            else:
                merged[key] = merge(below, value, nullable, inner)
        return evolve(over, content=merged)
    if path == ("stages",) and isinstance(base.content, list) and isinstance(over.content, list):
        return evolve(over, content=_merge_stages(base.content, over.content, nullable))
    return over


def _merge_stages(
    base: Sequence[Entry], over: Sequence[Entry], nullable: Callable[[Path], bool]
) -> list[Entry]:
    """Merge by `stage_id`; whatever is malformed is kept as it is, for others to refuse."""
    merged = list(base)
    for stage in over:
        index = next((i for i, below in enumerate(merged) if _same_stage(below, stage)), None)
        if index is None:
            merged.append(stage)
        else:
            merged[index] = merge(merged[index], stage, nullable, ("stages", "*"))
    return merged


def stage_id_of(stage: Entry) -> object:
    """The id that a stage has in a file; None where it has none."""
    found = stage.get("stage_id")
    return None if found is None else found.content


def _same_stage(one: Entry, other: Entry) -> bool:
    stage_id = stage_id_of(one)
    return isinstance(stage_id, int) and stage_id == stage_id_of(other)


def distinct_stages(file: Entry, faults: list[DeployFault]) -> Entry:
    """A mapping with the first only of `stages` that have the same id; each further one is a fault."""
    stages = file.get("stages")
    if stages is None or not isinstance(stages.content, list):
        return file
    first: dict[int, Entry] = {}
    kept = []
    for stage in stages.content:
        stage_id, entry = stage_id_of(stage), stage.get("stage_id")
        if not isinstance(stage_id, int) or entry is None or first.setdefault(stage_id, stage) is stage:
            kept.append(stage)
            continue
        path, other = spell(entry.path), spell(first[stage_id].path)
        message = f"{path} must be another one than that of {other}, not {stage_id} again"
        faults.append(DeployFault(path, message, entry.place))
    return evolve(file, content={**file.content, "stages": evolve(stages, content=kept)})


def mapping_of(entry: Entry | None) -> Mapping[Any, Entry]:
    """The entries of a mapping; none of anything else."""
    return entry.content if entry is not None and isinstance(entry.content, dict) else {}
