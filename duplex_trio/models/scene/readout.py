"""How much of each thing a prompt speaks of: a linear readout of the sentence encoder, fitted to captions.

One logistic regression for each thing, over the vector of the text. The one for the packaged encoder is fitted
beforehand (`fit.py`) and lies beside this file; for any other encoder it is fitted when the model is first used.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import frozen

from duplex_trio.models.scene.captions import Labels
from duplex_trio.models.scene.vocabulary import NAMES

Vectors = npt.NDArray[np.float32]

PACKAGED = Path(__file__).parent / "readout.npz"
PROBE = "a quiet harbour on a windy morning"
"""By the vector of this text a readout knows the encoder that it was fitted to."""
SAME_ENCODER = 0.999
"""Cosine from which two vectors of the probe are of one encoder: numbers differ a little between machines."""

_STEPS = 300
_RATE = 0.05
_DECAY = 2e-4
_RARE = 3.0
"""How much more a caption counts that speaks of a thing: most speak of three things out of fifty."""


@frozen(eq=False)
class Readout:
    """Weights of a fitted readout.

    Attributes:
        weights: shape (size of the vectors, things), float32.
        bias: shape (things,).
        probe: the vector of `PROBE` by the encoder that it was fitted to.
    """

    weights: Vectors
    bias: Vectors
    probe: Vectors

    def read(self, vector: Vectors) -> Vectors:
        """The probability of each thing, in 0..1, in the order of `NAMES`."""
        logits = vector @ self.weights + self.bias
        probabilities: Vectors = (1.0 / (1.0 + np.exp(-logits))).astype(np.float32)
        return probabilities

    def suits(self, probe: Vectors) -> bool:
        """Whether the encoder that made this vector of the probe is the one that this was fitted to."""
        return probe.shape == self.probe.shape and float(probe @ self.probe) >= SAME_ENCODER


def load_readout(path: Path = PACKAGED) -> Readout:
    """Read a readout that `save_readout` wrote.

    Raises:
        ValueError: it was fitted to another vocabulary.
    """
    with np.load(path, allow_pickle=False) as arrays:
        if tuple(arrays["names"].tolist()) != NAMES:
            raise ValueError(
                f"{path} was fitted to another vocabulary: run `python -m duplex_trio.models.scene.fit`"
            )
        return Readout(
            arrays["weights"].astype(np.float32),
            arrays["bias"].astype(np.float32),
            arrays["probe"].astype(np.float32),
        )


def save_readout(readout: Readout, path: Path) -> None:
    """Write a readout; the weights in half precision, which changes probabilities by less than a thousandth."""
    arrays: dict[str, Any] = {
        "weights": readout.weights.astype(np.float16),
        "bias": readout.bias,
        "probe": readout.probe,
        "names": np.array(NAMES),
    }
    np.savez_compressed(path, **arrays)


def fit_readout(vectors: Vectors, labels: Labels, probe: Vectors) -> Readout:
    """Fit by gradient descent (Adam) on the weighted cross-entropy; the same arrays give the same readout.

    Args:
        vectors: of captions, shape (captions, size).
        labels: shape (captions, things), in 0..1.
        probe: the vector of `PROBE`.
    """
    count, size = vectors.shape
    inputs = np.concatenate([vectors, np.ones((count, 1), np.float32)], axis=1)
    importance = 1.0 + (_RARE - 1.0) * labels
    weights = np.zeros((size + 1, labels.shape[1]), np.float32)
    weights[-1] = -2.0
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, _STEPS + 1):
        predicted = 1.0 / (1.0 + np.exp(-(inputs @ weights)))
        gradient = inputs.T @ ((predicted - labels) * importance) / count
        gradient[:-1] += _DECAY * weights[:-1]
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        rate = _RATE * (1.0 if step < _STEPS * 0.7 else 0.2) * 4.0
        weights -= rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    return Readout(weights[:-1].astype(np.float32), weights[-1].astype(np.float32), probe)
