"""The sentence encoder as a stage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from duplex_trio.models.one_thread import compute_in_one_thread
from duplex_trio.models.text_encoder.encoder import SentenceEncoder
from duplex_trio.stages.port import StageRequest
from duplex_trio.stages.units import TextEmbedding, TextToEmbed
from duplex_trio.stages.worker import SerialWorker, UnitRefused


class SentenceEncoderWorker(SerialWorker):
    """Turns each `TextToEmbed` into one `TextEmbedding`, in the stage's own thread and no other.

    Args:
        folder: a BERT sentence encoder (`config.json`, `tokenizer.json`, `*.safetensors`).
        name: the stage's name in logs and metrics.
    """

    def __init__(self, folder: Path, *, name: str = "text_encoder") -> None:
        super().__init__()
        self.name = name
        self._folder = folder
        self._encoder: SentenceEncoder | None = None

    def load(self) -> None:
        """Load the network and encode once.

        Raises:
            ModelFormatError: the folder holds no such encoder.
        """
        compute_in_one_thread()
        self._encoder = SentenceEncoder(self._folder)
        self._encoder.encode(["a warm-up of some ordinary length"])

    def close(self) -> None:
        """Release the network."""
        self._encoder = None

    def process(self, request: StageRequest, state: None, unit: TextToEmbed) -> Iterator[TextEmbedding]:
        """Encode one text.

        Raises:
            UnitRefused: `invalid_value`, it is no text.
        """
        assert self._encoder is not None
        try:
            vectors = self._encoder.encode([unit.text])
        except ValueError as error:
            raise UnitRefused("invalid_value", f"the text cannot be encoded: {error}") from error
        yield TextEmbedding(vector=vectors[0])
