"""Prove that the engine imports and the packaged models open; run by the installer as a process of its own.

A fresh process sees the packages as a later command will, and an engine that crashes takes only this process
with it. Prints what it looks at; exits with a traceback and a status other than 0 at the first thing that
does not work.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

from duplex_trio.models.cache import ModelCache, cache_root
from duplex_trio.models.catalog import CATALOG, PackagedModel
from duplex_trio.models.packages import locate_packaged

_MODULES = (
    "torch",
    "vllm.v1.engine.llm_engine",
    "ctranslate2",
    "onnxruntime",
    "hibari",
    "num2words",
    "transformers",
)
_ENGINE_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
}


def main() -> int:
    """Check everything; 0 when all is well."""
    os.environ.update(_ENGINE_ENVIRONMENT)
    for name in _MODULES:
        print(f"import {name}", flush=True)
        importlib.import_module(name)
    cache = ModelCache(cache_root())
    for model in CATALOG:
        print(f"open {model.name}", flush=True)
        path = locate_packaged(model, cache)
        if path is None:
            raise FileNotFoundError(f"{model.name} is not in {cache.root}")
        open_model(model, path)
    return 0


def open_model(model: PackagedModel, path: Path) -> None:
    """Read as much of a model as shows that its format is right; raises what the format's own library raises."""
    match model.format:
        case "hf":
            from safetensors import safe_open

            with safe_open(path / "model.safetensors", framework="np") as tensors:
                if not tensors.keys():
                    raise ValueError(f"{path} holds no tensors")
        case "ctranslate2":
            import ctranslate2

            if not ctranslate2.contains_model(str(path)):
                raise ValueError(f"{path} holds no CTranslate2 model")
        case "onnx":
            import onnxruntime

            onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        case "package":
            import hibari

            hibari.Hibari()


if __name__ == "__main__":
    sys.exit(main())
