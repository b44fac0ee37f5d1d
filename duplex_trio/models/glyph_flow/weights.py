"""The weights that ship with the package: where they are, what they must be, and how they are read and written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duplex_trio.models.glyph_flow.network import GlyphNet

WEIGHTS = Path(__file__).parent / "data" / "glyph_flow.safetensors"
"""The network that ships with the package, in half precision."""

WEIGHTS_SHA256 = "e472585d76f24aee1d92ef952a951b909a370bda96788690f2c35371023133b4"
"""Of that file: another one is refused."""

WEIGHTS_BYTES_MAX = 8_000_000
"""What the package has room for."""


class WeightsError(Exception):
    """The weights are not there, or are not the network's."""


def card_path(weights: Path) -> Path:
    """The model card beside a file of weights."""
    return weights.with_suffix(".json")


def load_network(path: Path | None = None) -> GlyphNet:
    """Read a network, ready to sample.

    Args:
        path: another file than the packaged one, such as one just trained; only the packaged one has a known hash.

    Raises:
        WeightsError: the file is missing, is not the packaged one, or does not fit the network.
    """
    from safetensors.torch import load

    from duplex_trio.models.glyph_flow.network import GlyphNet

    file = WEIGHTS if path is None else path
    try:
        data = file.read_bytes()
    except OSError as error:
        raise WeightsError(f"the weights of glyph_flow cannot be read: {error}") from error
    if path is None and hashlib.sha256(data).hexdigest() != WEIGHTS_SHA256:
        raise WeightsError(f"{file} is not what was packaged: its SHA-256 is another one")
    network = GlyphNet()
    try:
        network.load_state_dict({name: tensor.float() for name, tensor in load(data).items()}, strict=True)
    except Exception as error:  # safetensors and torch raise various types for a file that is not theirs
        raise WeightsError(f"{file} does not hold this network: {error}") from error
    network.eval().requires_grad_(False)
    return network


def save_network(network: GlyphNet, path: Path, card: Mapping[str, Any]) -> None:
    """Write a network in half precision, and its model card beside it.

    Raises:
        WeightsError: it would be larger than the package has room for.
    """
    import torch
    from safetensors.torch import save

    data = save(
        {name: tensor.to(torch.float16).contiguous() for name, tensor in network.state_dict().items()}
    )
    if len(data) > WEIGHTS_BYTES_MAX:
        raise WeightsError(f"{len(data)} bytes of weights are more than {WEIGHTS_BYTES_MAX}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    full = {**card, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    card_path(path).write_text(json.dumps(full, indent=2) + "\n")
