"""Paths in a declaration: each way to be wrong gives one error that names the pipeline, the key and the path."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import attrs
import pytest

from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.turns import TurnsPipeline, TurnsProcessor
from duplex_trio.models.scripted.turns_plugin import TurnsPlugin
from duplex_trio.pipelines.declared import DeclaredPathError, load_declared
from duplex_trio.plugin.checks import build_checked_plugin

HERE = "duplex_trio.models.scripted.turns"
WRONG = {
    "no module": (
        "nowhere.to.be:found",
        "cannot be imported: ModuleNotFoundError: No module named 'nowhere'",
    ),
    "no name": (f"{HERE}:make_noise", f"is not there: {HERE} has no make_noise"),
    "no name in a class": (f"{HERE}:TurnsPipeline.make", f"is not there: {HERE} has no TurnsPipeline.make"),
    "not callable": (f"{HERE}:MIND", "cannot be called: its type is int"),
    "another kind": (f"{HERE}:TurnsRequest", "makes a thing of type TurnsRequest, no TurnProcessor"),
    "no colon": (HERE, "must be package.module:name"),
    "nothing": (None, "is not declared"),
}


def pipeline(**changes: Any) -> TurnsPipeline:
    class Declared(TurnsPipeline):
        config = attrs.evolve(TurnsPipeline.config, **changes)

    return Declared()


@pytest.mark.parametrize("key", ["processor", "duplex_plugin"])
@pytest.mark.parametrize(("path", "reason"), WRONG.values(), ids=WRONG)
def test_a_path_that_leads_nowhere_is_named(key: str, path: str | None, reason: str) -> None:
    made = pipeline(**{key: path})
    with pytest.raises(DeclaredPathError) as caught:
        made.build_processor() if key == "processor" else made.build_plugin()
    error = caught.value
    assert (error.pipeline, error.key, error.path, error.reason) == ("scripted_turns", key, path, reason)
    shown = key if path is None else f"{key} {path!r}"
    assert str(error) == f"pipeline 'scripted_turns': {shown} {reason}"


def test_a_module_that_fails_to_import_is_named_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it raises."""
    (tmp_path / "broken_model.py").write_text(
        "raise OSError('libsound.so: cannot open shared object file')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(DeclaredPathError, match="libsound") as caught:
        load_declared(pipeline(processor="broken_model:make").config, "processor")
    assert isinstance(caught.value.__cause__, OSError)
    assert "broken_model" not in sys.modules


def test_what_a_factory_raises_comes_as_it_is() -> None:
    """A model that cannot do with its deployment says so itself."""
    with pytest.raises(AssertionError):
        pipeline(processor="duplex_trio.models.cascade.plugin:make_plugin").build_processor()


def test_a_processor_is_no_plugin() -> None:
    """It answers turns, and cannot hold a session; the engine does not begin."""
    made = pipeline(duplex_plugin=f"{HERE}:make_processor")
    with pytest.raises(DeclaredPathError, match="makes a thing of type TurnsProcessor, no DuplexModelPlugin"):
        build_checked_plugin(made, 1)
    with pytest.raises(DeclaredPathError, match="makes a thing of type TurnsProcessor, no DuplexModelPlugin"):
        DuplexOmni(made)


def test_paths_make_another_one_at_each_call() -> None:
    made = pipeline()
    assert type(made.build_processor()) is TurnsProcessor
    assert type(made.build_plugin()) is TurnsPlugin
    assert made.build_plugin() is not made.build_plugin()


def test_a_name_may_be_within_a_class() -> None:
    declared = pipeline(processor=f"{HERE}:TurnsProcessor.plan_turn").config
    assert load_declared(declared, "processor") is TurnsProcessor.plan_turn


def test_the_cascades_plugin_knows_its_pipeline() -> None:
    """What the pipeline knows of its models comes through the path."""
    assert ScriptedPipeline().build_plugin().voices == ("tone",)
