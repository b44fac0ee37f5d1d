"""Deployment files: finding one, following `base_config`, applying `platforms`, overriding models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import yaml
from yaml.constructor import ConstructorError

from duplex_trio.deploy.config import DeployConfig, StageDeploy
from duplex_trio.deploy.errors import DeployError, DeployFault
from duplex_trio.deploy.named import SUFFIX, deployment
from duplex_trio.deploy.structure import StructureError, structure_deploy

_MERGE_TAG = "tag:yaml.org,2002:merge"


class _UniqueKeysLoader(yaml.SafeLoader):
    """YAML asks for unique keys, PyYAML takes the last one: a limit set twice would silently be one of both."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: list[Any] = []
        for key_node, _ in node.value:
            if key_node.tag == _MERGE_TAG:
                continue
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise ConstructorError(None, None, f"the key {key!r} is there twice", key_node.start_mark)
            seen.append(key)
        return super().construct_mapping(node, deep)


def load_deploy(name_or_path: str | Path, *, platform: str = "cpu") -> DeployConfig:
    """Load a deployment by name or file path.

    A value with a path separator or a YAML suffix is a path, everything else a name (see `named`). `base_config` in
    a file names another deployment (a path is relative to the file); its keys are merged under the file's,
    stages by `stage_id`. The section of `platforms` called `platform` is merged last.

    Raises:
        DeployError: naming the file and every fault in it.
    """
    source, data = _read(str(name_or_path), relative_to=Path())
    merged = _inherit(source, data, seen=(source,))
    platforms = merged.pop("platforms", None) or {}
    _require_mapping(source, "platforms", platforms)
    section = platforms.get(platform) or {}
    _require_mapping(source, f"platforms.{platform}", section)
    try:
        return structure_deploy(_merge(merged, section))
    except StructureError as error:
        raise DeployError(source, error.faults) from error


def with_models(deploy: DeployConfig, models: Mapping[int, str]) -> DeployConfig:
    """Return the deployment with other model references, by stage id; stages it did not mention are added."""
    ids = [stage.stage_id for stage in deploy.stages]
    stages: list[StageDeploy] = [
        attrs.evolve(stage, model=models.get(stage.stage_id, stage.model)) for stage in deploy.stages
    ]
    stages += [StageDeploy(stage_id=key, model=model) for key, model in models.items() if key not in ids]
    return attrs.evolve(deploy, stages=tuple(sorted(stages, key=lambda stage: stage.stage_id)))


def _error(source: str, path: str, message: str) -> DeployError:
    return DeployError(source, [DeployFault(path, message)])


def _require_mapping(source: str, path: str, value: object) -> None:
    if not isinstance(value, dict):
        raise _error(source, path, f"{path} must be a mapping, not {value!r}")


def _read(reference: str, *, relative_to: Path) -> tuple[str, dict[str, Any]]:
    """Read one file; the first value is how it is called in messages."""
    if "/" in reference or "\\" in reference or reference.endswith((SUFFIX, ".yml")):
        path = relative_to / Path(reference).expanduser()
        source = str(path)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise _error(source, "", f"cannot read the deployment file: {reason}") from error
    else:
        source = reference
        text = deployment(reference).read_text()
    return source, _parse(source, text)


def _parse(source: str, text: str) -> dict[str, Any]:
    try:
        data = yaml.load(text, Loader=_UniqueKeysLoader)  # noqa: S506  (a safe loader)
    except yaml.YAMLError as error:
        raise _error(source, "", "not valid YAML: " + " ".join(str(error).split())) from error
    if not isinstance(data, dict):
        raise _error(source, "", "a deployment file must be a mapping of keys")
    return data


def _inherit(source: str, data: dict[str, Any], *, seen: Sequence[str]) -> dict[str, Any]:
    base = data.pop("base_config", None)
    if base is None:
        return data
    if not isinstance(base, str):
        raise _error(source, "base_config", f"base_config must be text, not {base!r}")
    base_source, base_data = _read(base, relative_to=Path(source).parent)
    if base_source in seen:
        circle = " -> ".join((*seen, base_source))
        raise _error(source, "base_config", f"base_config goes in a circle: {circle}")
    return _merge(_inherit(base_source, base_data, seen=(*seen, base_source)), data)


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            merged[key] = _merge(below, value)
        elif key == "stages" and isinstance(below, list) and isinstance(value, list):
            merged[key] = _merge_stages(below, value)
        else:
            merged[key] = value
    return merged


def _merge_stages(base: list[Any], over: list[Any]) -> list[Any]:
    """Merge by `stage_id`; whatever is malformed is kept as it is, for the structuring to refuse."""
    merged = list(base)
    for stage in over:
        index = next((i for i, below in enumerate(merged) if _same_stage(below, stage)), None)
        if index is None:
            merged.append(stage)
        else:
            merged[index] = _merge(merged[index], stage)
    return merged


def _same_stage(one: object, other: object) -> bool:
    return isinstance(one, dict) and isinstance(other, dict) and one.get("stage_id") == other.get("stage_id")
