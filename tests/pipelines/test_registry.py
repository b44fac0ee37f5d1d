"""Pipelines of other packages: found by their entry points, and told apart by the packages that have them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from duplex_trio.deploy import DeployConfig
from duplex_trio.pipelines.registry import (
    GROUP,
    AmbiguousPipelineError,
    BrokenPipelineError,
    PipelineUnavailableError,
    UnknownPipelineError,
    load_pipeline,
    pipeline_config,
    pipeline_names,
    pipeline_origins,
)
from duplex_trio.pipelines.topology import TopologyError
from duplex_trio.testing.distributions import install

MODEL = """
from duplex_trio.models.scripted.turns import TurnsPipeline
import attrs

class Mine(TurnsPipeline):
    config = attrs.evolve(TurnsPipeline.config, name="{name}")

class Headless(TurnsPipeline):
    config = attrs.evolve(TurnsPipeline.config, name="headless", stages=())

class Undeclared(TurnsPipeline):
    config = {{"name": "undeclared"}}

THING = 3
"""
Announce = Callable[..., None]


@pytest.fixture
def announce(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Announce:
    """Install a package `name` whose module holds `text`, with a pipeline of each value."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(name: str, text: str = MODEL, **values: str) -> None:
        module = name.replace("-", "_")
        points = {point: f"{module}:{value}" for point, value in values.items()}
        called = next(iter(values))
        files = {f"{module}.py": text.format(name=called)}
        install(tmp_path, name, files=files, announces={GROUP: points}, version="2.1")

    return make


def test_a_pipeline_of_another_package_is_found_and_made(announce: Announce) -> None:
    announce("registry-one", mine="Mine")
    assert "mine" in pipeline_names()
    assert pipeline_config("mine").name == "mine"
    assert load_pipeline(DeployConfig(pipeline="mine")).build_processor().voices == ("tone",)


def test_the_list_says_where_each_comes_from(announce: Announce) -> None:
    """Also of those that cannot be used; nothing is imported for it."""
    announce("registry-two", "raise SystemExit(3)", theirs="Mine")
    origins = {origin.name: origin for origin in pipeline_origins()}
    assert str(origins["theirs"]) == "registry-two 2.1 (registry_two:Mine)"
    assert origins["cascade"].distribution == "duplex-trio"
    assert [origin.name for origin in pipeline_origins()] == sorted(
        origin.name for origin in pipeline_origins()
    )


def test_two_packages_with_one_name_are_told_apart(announce: Announce) -> None:
    """The error names both; what only one of them has still works."""
    announce("registry-three", both="Mine", alone="Headless")
    announce("registry-four", both="Mine")
    with pytest.raises(AmbiguousPipelineError) as caught:
        pipeline_config("both")
    assert str(caught.value) == (
        "several packages have a pipeline 'both': registry-four 2.1 (registry_four:Mine) and"
        " registry-three 2.1 (registry_three:Mine); uninstall all but one"
    )
    assert [origin.distribution for origin in caught.value.origins] == ["registry-four", "registry-three"]
    assert pipeline_names().count("both") == 1
    assert pipeline_config("cascade").name == "cascade"


def test_a_package_that_takes_a_name_of_ours_is_named(announce: Announce) -> None:
    announce("registry-five", cascade="Mine")
    with pytest.raises(AmbiguousPipelineError, match=r"duplex-trio .* and registry-five 2\.1"):
        load_pipeline(DeployConfig(pipeline="cascade"))


def test_a_package_that_is_found_twice_is_one(
    announce: Announce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as an editable install that is also in the working directory."""
    announce("registry-six", mine="Mine")
    again = tmp_path / "again"
    install(again, "registry-six", files={}, announces={GROUP: {"mine": "registry_six:Mine"}}, version="2.1")
    monkeypatch.syspath_prepend(again)
    assert pipeline_config("mine").name == "mine"


BROKEN = {
    "import fails": (
        "import nowhere_at_all",
        "Mine",
        "cannot be imported: ModuleNotFoundError: No module named 'nowhere_at_all'",
    ),
    "import ends the program": ("raise SystemExit(3)", "Mine", "cannot be imported: SystemExit: 3"),
    "name missing": (MODEL, "Other", "cannot be imported: AttributeError: "),
    "no class": (MODEL, "THING", "is no subclass of duplex_trio.pipelines.pipeline.Pipeline"),
    "another class": (MODEL, "attrs.Factory", "is no subclass of duplex_trio.pipelines.pipeline.Pipeline"),
    "no declaration": (MODEL, "Undeclared", "declares no PipelineConfig as its `config`"),
    "another name": (
        MODEL.replace("{name}", "called"),
        "Mine",
        "calls itself 'called' in its PipelineConfig",
    ),
}


@pytest.mark.parametrize(("text", "value", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_pipeline_that_is_none_is_named_with_its_package(
    announce: Announce, request: pytest.FixtureRequest, text: str, value: str, reason: str
) -> None:
    """Others go on working."""
    name = "registry-broken-" + request.node.callspec.id.replace(" ", "-")
    announce(name, text, broken=value)
    with pytest.raises(BrokenPipelineError) as caught:
        pipeline_config("broken")
    module = name.replace("-", "_")
    assert str(caught.value).startswith(f"pipeline 'broken' of {name} 2.1 ({module}:{value}) {reason}")
    assert isinstance(caught.value, PipelineUnavailableError)
    assert caught.value.origin.distribution == name
    assert pipeline_config("scripted").name == "scripted"


def test_a_pipeline_that_is_declared_wrongly_is_not_made(announce: Announce) -> None:
    """Before anything of it is built."""
    announce("registry-seven", mine="Mine", headless="Headless")
    with pytest.raises(TopologyError, match="'headless' is declared wrongly: it has no stages"):
        load_pipeline(DeployConfig(pipeline="headless"))


def test_an_unknown_name_gets_a_hint() -> None:
    with pytest.raises(UnknownPipelineError) as caught:
        pipeline_config("scripted_turn")
    assert caught.value.name == "scripted_turn"
    assert str(caught.value).startswith(
        "there is no pipeline 'scripted_turn' (did you mean scripted_turns?); there are cascade, glyph_flow"
    )
