"""Deployment files: following `base_config`, applying `platforms`, and what there is to say about the result."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
from attrs import frozen

from duplex_trio.deploy.config import DeployConfig, StageDeploy
from duplex_trio.deploy.errors import DeployError, DeployFault, Finding, Place, brief
from duplex_trio.deploy.platforms import PLATFORMS, detect_platform, unknown_platform
from duplex_trio.deploy.sources import Source, is_path, open_source
from duplex_trio.deploy.structure import FILE_ONLY, nullable, structure_deploy
from duplex_trio.deploy.tree import Entry, distinct_stages, mapping_of, merge, read_tree, spell
from duplex_trio.deploy.tree import Path as KeyPath
from duplex_trio.deploy.variables import VariableError, substituted


@frozen(kw_only=True)
class Document:
    """A deployment, and where each of its values is written.

    Attributes:
        config: what it says.
        source: its name or path.
        platform: the one whose sections were applied.
        sources: the files it is made of, the one that was named last.
        platforms: those that some of the files have a section for.
        tree: what the files say together.
    """

    config: DeployConfig
    source: str
    platform: str
    sources: tuple[str, ...]
    platforms: tuple[str, ...]
    tree: Entry

    def locate(self, finding: Finding) -> DeployFault:
        """Say of a finding where it is written, and what its file calls the key."""
        path: KeyPath = tuple(finding.key.split(".")) if finding.key else ()
        if finding.stage_id is not None:
            index = self._index(finding.stage_id)
            if index is None:
                return DeployFault("", str(finding), Place(self.source))
            path = ("stages", index, *path)
        spelled, place = located(self.tree, path)
        return DeployFault(spelled, f"{spelled} {finding.message}" if spelled else finding.message, place)

    def told(self, findings: Iterable[Finding]) -> tuple[list[DeployFault], list[DeployFault]]:
        """What is to be told of findings, each once and with its place: faults, and notes."""
        faults: list[DeployFault] = []
        notes: list[DeployFault] = []
        for finding in findings:
            fault = self.locate(finding)
            told = faults if finding.level == "fault" else notes
            elsewhere = finding.own and fault.place is not None and fault.place.source != self.source
            if fault not in told and not elsewhere:
                told.append(fault)
        return faults, notes

    def _index(self, stage_id: int) -> int | None:
        ids = [stage.stage_id for stage in self.config.stages]
        return ids.index(stage_id) if stage_id in ids else None


def load_deploy(
    name_or_path: str | Path, *, platform: str | None = None, environment: Mapping[str, str] | None = None
) -> DeployConfig:
    """Load a deployment by bundled name or file path; see `read_deploy`.

    Raises:
        DeployError: naming every fault and the file that it is in.
    """
    return read_deploy(name_or_path, platform=platform, environment=environment).config


def read_deploy(
    name_or_path: str | Path, *, platform: str | None = None, environment: Mapping[str, str] | None = None
) -> Document:
    """Load a deployment by bundled name or file path, with the places of its values.

    A value with a path separator or a YAML suffix is a path, everything else a bundled name. `base_config` in
    a file names another deployment (a path is relative to the file); its keys are merged under the file's,
    stages by `stage_id`, and null takes an inherited key away. A path in `video` is relative to its file too, and
    what it names is not read here. The section of a file's `platforms` for this
    platform is merged over the file's other keys before anything extends it. References to environment
    variables are replaced last, so that those of a value which another file overrides need not be set.

    Args:
        name_or_path: the deployment.
        platform: `cpu`, `cuda`, ...; what this machine has by default.
        environment: variables to refer to; those of this process by default.

    Raises:
        DeployError: naming every fault and the file that it is in.
    """
    if platform is not None and platform not in PLATFORMS:
        raise DeployError(str(name_or_path), [DeployFault("", f"platform {unknown_platform(platform)}")])
    platform = detect_platform() if platform is None else platform
    environment = os.environ if environment is None else environment
    faults: list[DeployFault] = []
    source, chain = _chain(str(name_or_path), environment, faults)
    if not chain:
        raise DeployError(source, faults)
    tree = _with_section(chain[0], platform, faults)
    for file in chain[1:]:
        tree = merge(tree, _with_section(file, platform, faults), nullable)
    config = _config(tree, environment, faults)
    if config is not None:
        config = _with_video_beside(config, tree)
    if faults or config is None:
        raise DeployError(source, sorted(faults, key=lambda fault: fault.place or Place(source)))
    named = {name: None for file in chain for name in mapping_of(file.get("platforms"))}
    sources = tuple(file.place.source for file in chain)
    return Document(
        config=config, source=source, platform=platform, sources=sources, platforms=tuple(named), tree=tree
    )


def with_models(deploy: DeployConfig, models: Mapping[int, str]) -> DeployConfig:
    """Return the deployment with other model references, by stage id; stages it did not mention are added."""
    ids = [stage.stage_id for stage in deploy.stages]
    stages: list[StageDeploy] = [
        attrs.evolve(stage, model=models.get(stage.stage_id, stage.model)) for stage in deploy.stages
    ]
    stages += [StageDeploy(stage_id=key, model=model) for key, model in models.items() if key not in ids]
    return attrs.evolve(deploy, stages=tuple(sorted(stages, key=lambda stage: stage.stage_id)))


def located(tree: Entry, path: KeyPath) -> tuple[str, Place]:
    """What the file that holds it calls the key at a path of the merged tree, and where it is."""
    for length in range(len(path), 0, -1):
        entry = tree.find(path[:length])
        if entry is not tree.find(path[: length - 1]):
            return spell((*entry.path, *path[length:])), entry.place
    return spell(path), tree.place


def _chain(
    reference: str, environment: Mapping[str, str], faults: list[DeployFault]
) -> tuple[str, list[Entry]]:
    """The name of a deployment, and the trees of it and of what it extends, the last base first.

    Empty when one cannot be read: what its keys are is unknown then.
    """
    first = source = open_source(reference, folder=Path())
    seen: list[Source] = []
    chain: list[Entry] = []
    while True:
        seen.append(source)
        tree, found = read_tree(source.name, source.text)
        faults += found
        if tree is None:
            return first.name, []
        chain.insert(0, distinct_stages(tree, faults))
        base = tree.get("base_config")
        if base is None:
            return first.name, chain
        try:
            named = substituted(base, environment)
            if named is None:
                return first.name, chain
            if not isinstance(named, str):
                raise VariableError(f"must be text, not {brief(named)}")
            source = open_source(named, folder=source.folder)
            if source.key in [one.key for one in seen]:
                circle = " -> ".join([*(one.name for one in seen), source.name])
                raise VariableError(f"goes in a circle: {circle}")
        except VariableError as error:
            faults.append(DeployFault("base_config", f"base_config {error}", base.place))
            return first.name, []
        except DeployError as error:
            said = "; ".join(str(fault) for fault in error.faults)
            faults.append(DeployFault("base_config", f"base_config {error.source}: {said}", base.place))
            return first.name, []


def _with_section(file: Entry, platform: str, faults: list[DeployFault]) -> Entry:
    """A file's own keys with its section for a platform over them."""
    own = file.without(*FILE_ONLY)
    platforms = file.get("platforms")
    if platforms is None or platforms.content is None:
        return own
    if not isinstance(platforms.content, dict):
        message = f"platforms must be a mapping, not {_shown(platforms)}"
        faults.append(DeployFault("platforms", message, platforms.place))
        return own
    for name, section in platforms.content.items():
        path = f"platforms.{name}"
        if name not in PLATFORMS:
            faults.append(DeployFault(path, f"{path} {unknown_platform(name)}", section.place))
        elif section.content is not None and not isinstance(section.content, dict):
            message = f"{path} must be a mapping, not {_shown(section)}"
            faults.append(DeployFault(path, message, section.place))
        elif section.content is not None:
            section = distinct_stages(section, faults)
            for key in FILE_ONLY:
                if (inner := section.get(key)) is not None:
                    message = f"{path}.{key} must be at the top level of the file"
                    faults.append(DeployFault(f"{path}.{key}", message, inner.place))
            if name == platform:
                own = merge(own, section.without(*FILE_ONLY), nullable)
    return own


def _config(tree: Entry, environment: Mapping[str, str], faults: list[DeployFault]) -> DeployConfig | None:
    unset: list[Place] = []

    def resolve(entry: Entry) -> Any:
        try:
            return substituted(entry, environment)
        except VariableError as error:
            path = spell(entry.path)
            faults.append(DeployFault(path, f"{path} {error}", entry.place))
            unset.append(entry.place)
            return None

    config, problems = structure_deploy(tree.values(resolve))
    for problem in problems:
        path, place = located(tree, problem.path)
        if place not in unset:
            faults.append(DeployFault(path, problem.say(path), place))
    return config


def _with_video_beside(config: DeployConfig, tree: Entry) -> DeployConfig:
    """A path in `video` starts from the folder of the file that has it, as one in `base_config` does."""
    entry = tree.get("video")
    if config.video is None or entry is None or not is_path(config.video):
        return config
    folder = Path(entry.place.source).parent if is_path(entry.place.source) else Path()
    return attrs.evolve(config, video=str(folder / Path(config.video).expanduser()))


def _shown(entry: Entry) -> str:
    return brief(entry.values(lambda inner: inner.content))
