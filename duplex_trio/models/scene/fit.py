"""Fit the readout to the packaged sentence encoder: `python -m duplex_trio.models.scene.fit`.

Needed after a change of the vocabulary or the captions. Takes half a minute, is decided by its seed, and writes
`readout.npz` beside this file.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from duplex_trio.models.catalog import MINILM
from duplex_trio.models.references import resolve_reference
from duplex_trio.models.scene.captions import captions
from duplex_trio.models.scene.readout import PACKAGED, PROBE, fit_readout, save_readout
from duplex_trio.models.text_encoder.encoder import SentenceEncoder

CAPTIONS = 3000
_BATCH = 64


def main(arguments: list[str] | None = None) -> int:
    """Fit and write; 0."""
    parser = argparse.ArgumentParser(description="Fit the scene renderer's readout to a sentence encoder.")
    parser.add_argument("--encoder", default=MINILM.name, help="packaged name, folder or hub id")
    parser.add_argument("--captions", type=int, default=CAPTIONS)
    parser.add_argument("--out", type=Path, default=PACKAGED)
    chosen = parser.parse_args(arguments)
    folder = resolve_reference(chosen.encoder, MINILM.kind).path
    assert folder is not None
    encoder = SentenceEncoder(folder)
    texts, labels = captions(chosen.captions)
    vectors = np.concatenate([encoder.encode(texts[at : at + _BATCH]) for at in range(0, len(texts), _BATCH)])
    readout = fit_readout(vectors, labels, encoder.encode([PROBE])[0])
    save_readout(readout, chosen.out)
    right = float(((readout.read(vectors) > 0.5) == (labels > 0.5)).mean())
    print(f"{len(texts)} captions, {100 * right:.1f} % of their labels read right: {chosen.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
