"""Recognise a model in a folder or file on disk: which format it has, and whether that suits the wanted kind.

Only names and a file's first bytes are looked at; loading is the business of the stages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from attrs import frozen

from duplex_trio.models.catalog import KIND_NAMES, ModelFormat, ModelKind
from duplex_trio.models.errors import ModelFormatError, UnknownModelError

EXPECTED: dict[ModelKind, str] = {
    "llm": "a Hugging Face folder (config.json and *.safetensors) or one GGUF file",
    "asr": "a Whisper model in CTranslate2 form (a folder with model.bin, config.json and tokenizer.json)",
    "tts": "a voice of hibari as an ONNX file",
    "vad": "Silero VAD for 16 kHz as an ONNX file",
    "text-encoder": "a BERT sentence encoder (a folder with config.json, tokenizer.json and *.safetensors)",
}

_GGUF_MAGIC = b"GGUF"


@frozen
class LocalModel:
    """A model found on disk. A "gguf" has to be converted before it can be loaded."""

    path: Path
    format: ModelFormat | Literal["gguf"]


def recognise(path: Path, kind: ModelKind) -> LocalModel:
    """The model of the wanted kind at `path`, a folder or a file.

    Raises UnknownModelError when nothing is there, ModelFormatError when it is something else.
    """
    if not path.exists():
        raise UnknownModelError(f"{path} does not exist.")
    match kind:
        case "llm":
            found = _language_model(path)
        case "asr":
            found = _recogniser(path)
        case "tts" | "vad":
            found = _onnx(path)
        case "text-encoder":
            found = _sentence_encoder(path)
    if found is None:
        raise ModelFormatError(
            f"{path} is not a {KIND_NAMES[kind]} that can be used here: expected {EXPECTED[kind]}."
        )
    return found


def _language_model(path: Path) -> LocalModel | None:
    if path.is_file():
        return LocalModel(path, "gguf") if _is_gguf(path) else None
    if (path / "config.json").is_file() and any(path.glob("*.safetensors")):
        return LocalModel(path, "hf")
    files = sorted(path.glob("*.gguf"))
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise ModelFormatError(f"{path} holds several GGUF files ({names}). Name the one you want.")
    return LocalModel(files[0], "gguf") if files and _is_gguf(files[0]) else None


def _recogniser(path: Path) -> LocalModel | None:
    if all((path / name).is_file() for name in ("model.bin", "config.json", "tokenizer.json")):
        return LocalModel(path, "ctranslate2")
    if (path / "config.json").is_file() and any(path.glob("*.safetensors")):
        raise ModelFormatError(
            f"{path} is a Hugging Face folder; speech recognition needs it converted once: "
            f"`ct2-transformers-converter --model {path} --output_dir NEW_FOLDER --copy_files "
            "tokenizer.json`. Then use NEW_FOLDER."
        )
    return None


def _sentence_encoder(path: Path) -> LocalModel | None:
    if all((path / name).is_file() for name in ("config.json", "tokenizer.json")) and any(
        path.glob("*.safetensors")
    ):
        return LocalModel(path, "hf")
    return None


def _onnx(path: Path) -> LocalModel | None:
    if path.is_file():
        return LocalModel(path, "onnx") if path.suffix == ".onnx" else None
    files = sorted(path.glob("*.onnx"))
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise ModelFormatError(f"{path} holds several ONNX files ({names}). Name the one you want.")
    return LocalModel(files[0], "onnx") if files else None


def _is_gguf(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_GGUF_MAGIC)) == _GGUF_MAGIC
    except OSError as error:
        raise ModelFormatError(f"{path} cannot be read ({error.strerror}).") from error
