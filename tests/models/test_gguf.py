from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duplex_trio.models.gguf import CorruptGgufError, GgufError, UnsupportedGgufError, convert_gguf

pytestmark = pytest.mark.models

HIDDEN, INNER, LAYERS, HEADS, KEY_VALUE_HEADS, HEAD = 64, 96, 2, 4, 2, 16
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
USER_TOKEN = "<tool_call>"


def byte_alphabet() -> list[str]:
    from tokenizers.pre_tokenizers import ByteLevel

    return sorted(ByteLevel.alphabet())


def tokens_and_merges() -> tuple[list[str], list[str]]:
    merges = ["h e", "l l", "he ll", "hell o", "Ġ hello", "1 2"]
    return [*SPECIALS, USER_TOKEN, *byte_alphabet(), "he", "ll", "hell", "hello", "Ġhello", "12"], merges


def model_weights(architecture: str, *, tied: bool) -> dict[str, np.ndarray]:
    """Weights by their names in a model folder: small whole numbers, which bfloat16 holds exactly."""
    vocabulary = len(tokens_and_merges()[0])
    random = np.random.default_rng(7)
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (vocabulary, HIDDEN),
        "model.norm.weight": (HIDDEN,),
    }
    if not tied:
        shapes["lm_head.weight"] = (vocabulary, HIDDEN)
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}"
        for name, rows in (("q", HEADS * HEAD), ("k", KEY_VALUE_HEADS * HEAD), ("v", KEY_VALUE_HEADS * HEAD)):
            shapes[f"{prefix}.self_attn.{name}_proj.weight"] = (rows, HIDDEN)
            if architecture == "qwen2":
                shapes[f"{prefix}.self_attn.{name}_proj.bias"] = (rows,)
        shapes[f"{prefix}.self_attn.o_proj.weight"] = (HIDDEN, HEADS * HEAD)
        shapes[f"{prefix}.mlp.gate_proj.weight"] = (INNER, HIDDEN)
        shapes[f"{prefix}.mlp.up_proj.weight"] = (INNER, HIDDEN)
        shapes[f"{prefix}.mlp.down_proj.weight"] = (HIDDEN, INNER)
        shapes[f"{prefix}.input_layernorm.weight"] = (HIDDEN,)
        shapes[f"{prefix}.post_attention_layernorm.weight"] = (HIDDEN,)
    return {name: random.integers(-100, 100, shape).astype(np.float32) for name, shape in shapes.items()}


def gguf_name(name: str) -> str:
    fixed = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    if name in fixed:
        return fixed[name]
    _, _, layer, *middle, last = name.split(".")
    short = {
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
    }[".".join(middle)]
    return f"blk.{layer}.{short}.{last}"


def interleave(rows: np.ndarray, heads: int) -> np.ndarray:
    """Lay out rows as a llama GGUF does: within each head, row i then row i + head/2, for i = 0, 1, ..."""
    head = len(rows) // heads
    order = [
        h * head + offset + i for h in range(heads) for i in range(head // 2) for offset in (0, head // 2)
    ]
    return rows[order]


class Draft:
    """A GGUF file about to be written; tests change one thing in it."""

    def __init__(self, architecture: str = "llama", *, tied: bool = True) -> None:
        self.architecture = architecture
        self.weights = model_weights(architecture, tied=tied)
        tokens, merges = tokens_and_merges()
        types = [3] * len(SPECIALS) + [4] + [1] * (len(tokens) - len(SPECIALS) - 1)
        self.keys: dict[str, Any] = {
            f"{architecture}.block_count": LAYERS,
            f"{architecture}.context_length": 512,
            f"{architecture}.embedding_length": HIDDEN,
            f"{architecture}.feed_forward_length": INNER,
            f"{architecture}.attention.head_count": HEADS,
            f"{architecture}.attention.head_count_kv": KEY_VALUE_HEADS,
            f"{architecture}.attention.layer_norm_rms_epsilon": 1e-5,
            f"{architecture}.rope.freq_base": 50000.0,
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "qwen2" if architecture == "qwen2" else "smollm",
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": types,
            "tokenizer.ggml.merges": merges,
            "tokenizer.ggml.bos_token_id": 1,
            "tokenizer.ggml.eos_token_id": 2,
            "tokenizer.ggml.padding_token_id": 0,
            "tokenizer.chat_template": TEMPLATE,
        }
        self.tensors = {gguf_name(name): self._stored(name, rows) for name, rows in self.weights.items()}
        self.quantised: set[str] = set()

    def _stored(self, name: str, rows: np.ndarray) -> np.ndarray:
        if self.architecture == "llama" and ".q_proj" in name:
            return interleave(rows, HEADS)
        if self.architecture == "llama" and ".k_proj" in name:
            return interleave(rows, KEY_VALUE_HEADS)
        return rows

    def write(self, path: Path) -> Path:
        import gguf

        writer = gguf.GGUFWriter(path, self.architecture)
        for key, value in self.keys.items():
            if isinstance(value, list):
                writer.add_array(key, value)
            elif isinstance(value, bool):
                writer.add_bool(key, value)
            elif isinstance(value, int):
                writer.add_uint32(key, value)
            elif isinstance(value, float):
                writer.add_float32(key, value)
            else:
                writer.add_string(key, value)
        for name, rows in self.tensors.items():
            if name in self.quantised:
                kind = gguf.GGMLQuantizationType.Q8_0
                writer.add_tensor(name, gguf.quantize(rows, kind), raw_dtype=kind)
            else:
                writer.add_tensor(name, rows)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path


def tokenizer_of(folder: Path) -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def read_json(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return content


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_every_tensor_arrives_under_its_name_and_in_the_models_row_order(
    tmp_path: Path, architecture: str, tied: bool
) -> None:
    import torch
    from safetensors.torch import load_file

    draft = Draft(architecture, tied=tied)
    folder = convert_gguf(draft.write(tmp_path / "m.gguf"), tmp_path / "out")
    converted = load_file(folder / "model.safetensors")
    assert set(converted) == set(draft.weights)
    for name, rows in draft.weights.items():
        assert converted[name].dtype == torch.bfloat16
        assert np.array_equal(converted[name].float().numpy(), rows), name


def test_configuration_states_the_sizes_of_the_file(tmp_path: Path) -> None:
    draft = Draft("qwen2", tied=False)
    folder = convert_gguf(draft.write(tmp_path / "m.gguf"), tmp_path / "out")
    config = read_json(folder / "config.json")
    assert config["architectures"] == ["Qwen2ForCausalLM"]
    assert config["tie_word_embeddings"] is False
    assert (config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]) == (64, 96, 2)
    assert (config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]) == (4, 2, 16)
    assert config["max_position_embeddings"] == 512
    assert config["vocab_size"] == len(tokens_and_merges()[0])
    assert config["rms_norm_eps"] == 1e-5
    assert config["rope_parameters"] == {"rope_type": "default", "rope_theta": 50000.0}
    generation = read_json(folder / "generation_config.json")
    assert generation["eos_token_id"] == [2, 0], "the end of a turn, and the end of a text"


def test_transformers_reads_the_folder(tmp_path: Path) -> None:
    from transformers import AutoConfig, AutoTokenizer

    folder = convert_gguf(Draft().write(tmp_path / "m.gguf"), tmp_path / "out")
    config = AutoConfig.from_pretrained(folder)
    assert config.rope_parameters["rope_theta"] == 50000.0
    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = tokenizer.apply_chat_template([{"role": "user", "content": "hello"}], tokenize=False)
    assert text == "<|im_start|>user\nhello<|im_end|>\n"
    assert tokenizer.eos_token_id == 2


def test_quantised_tensors_become_the_nearest_bfloat16(tmp_path: Path) -> None:
    import gguf
    import torch
    from safetensors.torch import load_file

    draft = Draft()
    draft.quantised = {"blk.0.ffn_up.weight"}
    folder = convert_gguf(draft.write(tmp_path / "m.gguf"), tmp_path / "out")
    original = draft.weights["model.layers.0.mlp.up_proj.weight"]
    kind = gguf.GGMLQuantizationType.Q8_0
    expected = torch.tensor(gguf.dequantize(gguf.quantize(original, kind), kind)).to(torch.bfloat16)
    assert torch.equal(load_file(folder / "model.safetensors")["model.layers.0.mlp.up_proj.weight"], expected)


@pytest.mark.parametrize(
    "text", ["hello hello", "", "a 12 b", "naïve façade — 你好 🙂\n\n\tx", "<tool_call>hello"]
)
@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_text_survives_the_tokenizer(tmp_path: Path, architecture: str, text: str) -> None:
    tokenizer = tokenizer_of(convert_gguf(Draft(architecture).write(tmp_path / "m.gguf"), tmp_path / "out"))
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


@pytest.mark.parametrize(
    ("pre", "digits"),
    [("smollm", ["1", "2"]), ("qwen2", ["1", "2"]), ("gpt-2", ["12"]), ("llama-bpe", ["12"])],
)
def test_numbers_are_cut_as_the_pre_tokeniser_says(tmp_path: Path, pre: str, digits: list[str]) -> None:
    draft = Draft()
    draft.keys["tokenizer.ggml.pre"] = pre
    tokenizer = tokenizer_of(convert_gguf(draft.write(tmp_path / "m.gguf"), tmp_path / "out"))
    assert tokenizer.encode("hello12").tokens == ["hello", *digits]


def test_special_tokens_are_whole_and_ordinary_ones_follow_the_merges(tmp_path: Path) -> None:
    tokenizer = tokenizer_of(convert_gguf(Draft().write(tmp_path / "m.gguf"), tmp_path / "out"))
    encoded = tokenizer.encode("<|im_start|>hello hello<tool_call><|im_end|>")
    assert encoded.tokens == ["<|im_start|>", "hello", "Ġhello", "<tool_call>", "<|im_end|>"]
    assert encoded.ids[0] == 1
    assert encoded.ids[-1] == 2
    assert tokenizer.decode(encoded.ids) == "hello hello<tool_call>", (
        "control tokens are skipped, others kept"
    )


@pytest.mark.parametrize("add_bos", [True, False])
def test_beginning_of_sequence_is_added_where_the_file_says_so(tmp_path: Path, add_bos: bool) -> None:
    draft = Draft()
    draft.keys["tokenizer.ggml.add_bos_token"] = add_bos
    tokenizer = tokenizer_of(convert_gguf(draft.write(tmp_path / "m.gguf"), tmp_path / "out"))
    assert tokenizer.encode("hello").tokens == (["<|im_start|>"] if add_bos else []) + ["hello"]
    assert tokenizer.encode("hello", add_special_tokens=False).tokens == ["hello"]


def llama3_factors(factor: float) -> np.ndarray:
    """Llama 3.1: waves under 2048 tokens unchanged, over 8192 divided, a linear blend between."""
    result = []
    for i in range(0, HEAD, 2):
        wavelength = 2 * np.pi * 50000.0 ** (i / HEAD)
        if wavelength < 8192 / 4:
            result.append(1.0)
        elif wavelength > 8192:
            result.append(factor)
        else:
            smooth = (8192 / wavelength - 1) / 3
            result.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(result, dtype=np.float32)


def test_rotary_factors_of_llama_3_become_its_scaling(tmp_path: Path) -> None:
    draft = Draft()
    draft.tensors["rope_freqs.weight"] = llama3_factors(32.0)
    folder = convert_gguf(draft.write(tmp_path / "m.gguf"), tmp_path / "out")
    assert read_json(folder / "config.json")["rope_parameters"] == {
        "rope_type": "llama3",
        "rope_theta": 50000.0,
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }


def test_other_rotary_factors_are_refused(tmp_path: Path) -> None:
    draft = Draft()
    draft.tensors["rope_freqs.weight"] = np.linspace(1, 2, HEAD // 2, dtype=np.float32)
    with pytest.raises(UnsupportedGgufError, match=r"rope_freqs\.weight"):
        convert_gguf(draft.write(tmp_path / "m.gguf"), tmp_path / "out")


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("tokenizer.ggml.model", "llama", "'llama'"),
        ("tokenizer.ggml.pre", "tekken", "'tekken'"),
        ("llama.rope.scaling.type", "yarn", "'yarn'"),
    ],
)
def test_what_is_not_known_is_named(tmp_path: Path, key: str, value: str, named: str) -> None:
    draft = Draft()
    draft.keys[key] = value
    with pytest.raises(UnsupportedGgufError, match=named):
        convert_gguf(draft.write(tmp_path / "m.gguf"), tmp_path / "out")


def test_an_unknown_architecture_is_named(tmp_path: Path) -> None:
    draft = Draft()
    draft.architecture = "gemma2"
    with pytest.raises(UnsupportedGgufError, match=r"'gemma2' is not supported; supported: llama, qwen2"):
        convert_gguf(draft.write(tmp_path / "m.gguf"), tmp_path / "out")


def test_an_unknown_tensor_is_named(tmp_path: Path) -> None:
    draft = Draft()
    draft.tensors["blk.0.ffn_gate_inp.weight"] = np.zeros((4, HIDDEN), dtype=np.float32)
    with pytest.raises(UnsupportedGgufError, match=r"blk\.0\.ffn_gate_inp\.weight"):
        convert_gguf(draft.write(tmp_path / "m.gguf"), tmp_path / "out")


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("tokenizer.ggml.eos_token_id", 99999, "eos_token_id"),
        ("tokenizer.ggml.token_type", [1, 1], "token types"),
        ("tokenizer.ggml.merges", ["h e", "absent token"], "merges"),
        ("llama.embedding_length", 32, "shape"),
        ("llama.block_count", 3, r"blk\.2\..* is missing"),
        ("llama.block_count", 2**31, r"blk\.2\..* is missing"),
        ("llama.block_count", "two", "block_count"),
        ("llama.vocab_size", 10, "vocabulary of 10"),
        ("llama.attention.key_length", 15, "must be even"),
        ("llama.rope.freq_base", -1.0, "freq_base"),
        ("tokenizer.ggml.tokens", "hello", "tokens"),
        ("tokenizer.ggml.tokens", ["a", "a"], "token types"),
        ("tokenizer.chat_template", 3, "chat_template"),
    ],
)
def test_a_contradiction_is_named(tmp_path: Path, key: str, value: Any, named: str) -> None:
    draft = Draft()
    draft.keys[key] = value
    with pytest.raises(CorruptGgufError, match=named):
        convert_gguf(draft.write(tmp_path / "m.gguf"), tmp_path / "out")


@pytest.mark.parametrize(
    "key",
    ["llama.block_count", "llama.context_length", "tokenizer.ggml.tokens", "tokenizer.ggml.eos_token_id"],
)
def test_a_missing_key_is_named(tmp_path: Path, key: str) -> None:
    draft = Draft()
    del draft.keys[key]
    with pytest.raises(CorruptGgufError, match=key):
        convert_gguf(draft.write(tmp_path / "m.gguf"), tmp_path / "out")


def test_a_file_cut_short_anywhere_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    whole = Draft().write(tmp_path / "m.gguf").read_bytes()
    cut = tmp_path / "cut.gguf"
    for size in [0, 3, 4, 8, *range(16, len(whole) - 32, len(whole) // 40)]:
        cut.write_bytes(whole[:size])
        with pytest.raises(CorruptGgufError):
            convert_gguf(cut, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cut.gguf", "m.gguf"]


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "m.gguf"
    other.write_bytes(b"PK\x03\x04" + bytes(1000))
    with pytest.raises(CorruptGgufError, match="magic"):
        convert_gguf(other, tmp_path / "out")


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, 9000), value=st.integers(0, 255))
def test_a_damaged_byte_gives_a_typed_error_or_a_folder(
    tmp_path_factory: pytest.TempPathFactory, position: int, value: int
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    path = Draft().write(folder / "m.gguf")
    content = bytearray(path.read_bytes())
    content[position] = value
    path.write_bytes(content)
    try:
        convert_gguf(path, folder / "out")
    except GgufError:
        assert not (folder / "out").exists()
    else:
        assert (folder / "out" / "model.safetensors").exists()


def test_a_failure_while_writing_leaves_nothing(tmp_path: Path) -> None:
    source = Draft().write(tmp_path / "m.gguf")

    def give_up(share: float) -> None:
        if share > 0.5:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        convert_gguf(source, tmp_path / "cache" / "out", progress=give_up)
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_folder_that_exists_is_kept(tmp_path: Path) -> None:
    source = Draft().write(tmp_path / "m.gguf")
    folder = convert_gguf(source, tmp_path / "out")
    stamp = (folder / "model.safetensors").stat().st_mtime_ns
    source.unlink()
    assert convert_gguf(source, tmp_path / "out") == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == stamp


def test_a_folder_that_another_process_finished_first_is_kept(tmp_path: Path) -> None:
    source = Draft().write(tmp_path / "m.gguf")

    def other_process(share: float) -> None:
        if share > 0.5:
            (tmp_path / "out").mkdir(exist_ok=True)
            (tmp_path / "out" / "config.json").write_text("{}")

    convert_gguf(source, tmp_path / "out", progress=other_process)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["config.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.gguf", "out"]


def test_progress_rises_from_nothing_to_done(tmp_path: Path) -> None:
    shares: list[float] = []
    convert_gguf(Draft().write(tmp_path / "m.gguf"), tmp_path / "out", progress=shares.append)
    assert shares[0] == 0.0
    assert shares[-1] == 1.0
    assert shares == sorted(shares)
    assert len(shares) > 10


def test_the_packaged_model_converts_and_its_tokenizer_speaks_the_template(llm_folder: Path) -> None:
    from safetensors import safe_open

    config = read_json(llm_folder / "config.json")
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert config["tie_word_embeddings"] is True
    with safe_open(llm_folder / "model.safetensors", "pt") as weights:
        assert len(weights.keys()) == 272
    tokenizer = tokenizer_of(llm_folder)
    text = "In 2024 the naïve café sold 12 pies.\n\tBravo! 你好 🙂"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
    assert tokenizer.encode("<|im_start|>user\nHi<|im_end|>").ids == [1, 4093, 198, 26843, 2]
