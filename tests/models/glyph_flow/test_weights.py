"""The weights that ship: the ones that were meant, small enough, with a model card, and in what is distributed."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path

import pytest

from duplex_trio.models.glyph_flow import weights
from duplex_trio.models.glyph_flow.weights import WEIGHTS, WeightsError, card_path

torch = pytest.importorskip("torch")

from duplex_trio.models.glyph_flow.network import GlyphNet, parameter_count  # noqa: E402

ROOT = Path(__file__).parents[3]


def test_they_are_the_networks_and_small_enough() -> None:
    network = weights.load_network()
    assert not any(parameter.requires_grad for parameter in network.parameters())
    assert all(tensor.isfinite().all() for tensor in network.state_dict().values())
    assert WEIGHTS.stat().st_size <= weights.WEIGHTS_BYTES_MAX


def test_the_card_tells_how_they_were_made() -> None:
    card = json.loads(card_path(WEIGHTS).read_text())
    assert card["sha256"] == weights.WEIGHTS_SHA256
    assert card["bytes"] == WEIGHTS.stat().st_size
    assert card["parameters"] == parameter_count(GlyphNet())
    assert card["command"].startswith("python -m duplex_trio.models.glyph_flow.train ")
    assert card["data"]["licence"] == "SIL Open Font License 1.1"
    assert {"seed", "steps", "loss", "date", "torch", "text_encoder"} <= set(card)


def test_changed_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = tmp_path / "w.safetensors"
    data = bytearray(WEIGHTS.read_bytes())
    data[-1] ^= 1
    changed.write_bytes(data)
    monkeypatch.setattr(weights, "WEIGHTS", changed)
    with pytest.raises(WeightsError, match="not what was packaged"):
        weights.load_network()


def test_missing_ones_are_told(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="cannot be read"):
        weights.load_network(tmp_path / "none.safetensors")


@pytest.mark.parametrize("fault", ["missing", "extra", "shape", "garbage"])
def test_what_is_not_the_network_is_refused(tmp_path: Path, fault: str) -> None:
    from safetensors.torch import save

    state = {name: tensor.contiguous() for name, tensor in GlyphNet().state_dict().items()}
    match fault:
        case "missing":
            del state["no_prompt"]
        case "extra":
            state["more"] = torch.zeros(1)
        case "shape":
            state["no_prompt"] = torch.zeros(3)
    path = tmp_path / "w.safetensors"
    path.write_bytes(b"garbage" if fault == "garbage" else save(state))
    with pytest.raises(WeightsError, match="does not hold this network"):
        weights.load_network(path)


def test_too_large_a_network_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "WEIGHTS_BYTES_MAX", 1000)
    with pytest.raises(WeightsError, match="more than 1000"):
        weights.save_network(GlyphNet(), tmp_path / "w.safetensors", {})
    assert not list(tmp_path.iterdir())


def test_they_are_part_of_what_is_distributed() -> None:
    """Hatchling takes what lies in the package, unless git ignores it or a rule leaves it out."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    build = project["tool"]["hatch"]["build"]
    assert build["targets"]["wheel"]["packages"] == ["duplex_trio"]
    rules = [build, *build["targets"].values()]
    assert not any(key in rule for rule in rules for key in ("exclude", "only-include", "artifacts"))
    for path in (WEIGHTS, card_path(WEIGHTS)):
        assert path.is_relative_to(ROOT / "duplex_trio")
        ignored = subprocess.run(["git", "check-ignore", "-q", str(path)], cwd=ROOT, check=False)
        assert ignored.returncode != 0, f"{path} is ignored"
