"""What a declaration names by path: `package.module:name` of a callable that is given the `Pipeline`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

from duplex_trio.deploy.config import SessionMode
from duplex_trio.pipelines.config import PipelineConfig

if TYPE_CHECKING:
    from duplex_trio.pipelines.pipeline import Pipeline

DeclaredKey = Literal["processor", "duplex_plugin", "video_plugin"]


_NEEDED: Mapping[SessionMode, DeclaredKey] = {
    "turn": "processor",
    "duplex": "duplex_plugin",
    "video": "video_plugin",
}


def needed_path(mode: SessionMode) -> DeclaredKey:
    """The path that a pipeline must declare to be served in a mode."""
    return _NEEDED[mode]


class DeclaredPathError(ValueError):
    """A declared path does not lead to what it should.

    Attributes:
        pipeline: the pipeline's name.
        key: `processor`, `duplex_plugin` or `video_plugin`.
        path: what was declared; None if nothing was.
        reason: what is wrong with it.
    """

    def __init__(self, pipeline: str, key: DeclaredKey, path: str | None, reason: str) -> None:
        shown = key if path is None else f"{key} {path!r}"
        super().__init__(f"pipeline {pipeline!r}: {shown} {reason}")
        self.pipeline = pipeline
        self.key = key
        self.path = path
        self.reason = reason


def load_declared(config: PipelineConfig, key: DeclaredKey) -> Callable[[Pipeline], Any]:
    """The callable behind a path; it is imported, not called.

    Raises:
        DeclaredPathError: nothing is declared, the module cannot be imported, it has no such name, or what it has
            cannot be called.
    """
    path: str | None = getattr(config, key)

    def fault(reason: str) -> DeclaredPathError:
        return DeclaredPathError(config.name, key, path, reason)

    if path is None:
        raise fault("is not declared")
    module_name, colon, name = path.partition(":")
    if not colon or not module_name or not name:
        raise fault("must be package.module:name")
    try:
        found: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        # Whatever a model's own module raises, the person at the terminal must learn whose module it is.
        raise fault(f"cannot be imported: {type(error).__name__}: {error}") from error
    for step in name.split("."):
        if not hasattr(found, step):
            raise fault(f"is not there: {module_name} has no {name}")
        found = getattr(found, step)
    if not callable(found):
        raise fault(f"cannot be called: its type is {type(found).__name__}")
    made: Callable[[Pipeline], Any] = found
    return made


def path_faults(config: PipelineConfig) -> list[DeclaredPathError]:
    """What is wrong with the paths that are declared, as far as it shows before they are called."""
    faults = []
    for key in get_args(DeclaredKey):
        try:
            if getattr(config, key) is not None:
                load_declared(config, key)
        except DeclaredPathError as error:
            faults.append(error)
    return faults


def make_declared(pipeline: Pipeline, key: DeclaredKey, kind: type[Any]) -> Any:
    """What a path makes of a pipeline.

    Args:
        pipeline: what the callable is given.
        key: which path.
        kind: what it must make.

    Raises:
        DeclaredPathError: as `load_declared`, or it makes something else. What the callable itself raises comes
            as it is.
    """
    made = load_declared(pipeline.config, key)(pipeline)
    check_kind(pipeline.config, key, made, kind)
    return made


def check_kind(config: PipelineConfig, key: DeclaredKey, made: object, kind: type[Any]) -> None:
    """Check that what a path made is what it must be.

    Raises:
        DeclaredPathError: it is not.
    """
    if not isinstance(made, kind):
        reason = f"makes a thing of type {type(made).__name__}, no {kind.__name__}"
        raise DeclaredPathError(config.name, key, getattr(config, key), reason)
