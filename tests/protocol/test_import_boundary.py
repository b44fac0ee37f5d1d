import subprocess
import sys

import pytest

FOREIGN = (
    "trio",
    "asyncio",
    "torch",
    "vllm",
    "transformers",
    "onnxruntime",
    "ctranslate2",
    "hypercorn",
    "openai",
)
MODULES = (
    "duplex_trio.protocol.duplex",
    "duplex_trio.protocol.dialects",
    "duplex_trio.protocol.duplex.session",
)


@pytest.mark.slow
def test_the_protocol_loads_no_runtime():
    code = (
        f"import sys, importlib\nfor name in {MODULES}: importlib.import_module(name)\n"
        f"print([name for name in {FOREIGN} if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_door_opens_to_every_name_it_lists():
    import duplex_trio.protocol.duplex as door

    assert all(hasattr(door, name) for name in door.__all__)
    assert len(set(door.__all__)) == len(door.__all__)
