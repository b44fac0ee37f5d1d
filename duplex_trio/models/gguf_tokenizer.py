"""Rebuilds a Hugging Face tokenizer folder from the metadata of a GGUF file.

Byte-level BPE only (`tokenizer.ggml.model` = `gpt2`), with the pre-tokenisers named in `PRE_TOKENIZERS`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from duplex_trio.models.gguf_file import CorruptGgufError, Metadata, UnsupportedGgufError

NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4
"""Token types of the GGUF format (`tokenizer.ggml.token_type`)."""

TURN_ENDS = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|endoftext|>", "<|end_of_text|>")
"""Control tokens at which generation ends even where the file names another end-of-sequence token."""


@frozen
class _PreTokenizer:
    pattern: str | None = None
    individual_digits: bool = False
    normalise_nfc: bool = False
    ignore_merges: bool = False


_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{numbers}"
    r"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

PRE_TOKENIZERS: Mapping[str, _PreTokenizer] = {
    "gpt-2": _PreTokenizer(),
    "smollm": _PreTokenizer(individual_digits=True),
    "qwen2": _PreTokenizer(_WORDS.format(numbers=r"\p{N}"), normalise_nfc=True),
    "llama-bpe": _PreTokenizer(_WORDS.format(numbers=r"\p{N}{1,3}"), ignore_merges=True),
}
"""How text is cut before BPE, by `tokenizer.ggml.pre`; the patterns are those of the models themselves."""


@frozen(kw_only=True)
class TokenizerMetadata:
    """The `tokenizer.*` keys of a GGUF file, checked. `end_ids` are the tokens that end a generation."""

    tokens: Sequence[str]
    token_types: Sequence[int]
    merges: Sequence[str]
    pre: str
    bos_id: int | None
    eos_id: int
    padding_id: int | None
    add_bos: bool
    chat_template: str | None
    end_ids: Sequence[int]


def read_tokenizer(metadata: Metadata) -> TokenizerMetadata:
    """Read and check the tokenizer's keys.

    Raises:
        UnsupportedGgufError: not a byte-level BPE, or an unknown pre-tokeniser.
        CorruptGgufError: a key is missing or contradicts another.
    """
    model = metadata.text("tokenizer.ggml.model")
    if model != "gpt2":
        raise UnsupportedGgufError(
            f"tokenizer.ggml.model {model!r} is not supported; only 'gpt2' (byte-level BPE)"
        )
    pre = metadata.text("tokenizer.ggml.pre", "gpt-2")
    if pre not in PRE_TOKENIZERS:
        raise UnsupportedGgufError(
            f"tokenizer.ggml.pre {pre!r} is not supported; known: {', '.join(PRE_TOKENIZERS)}"
        )
    tokens = metadata.texts("tokenizer.ggml.tokens")
    types = metadata.counts("tokenizer.ggml.token_type", [NORMAL] * len(tokens))
    if len(types) != len(tokens):
        raise CorruptGgufError(f"{len(tokens)} tokens but {len(types)} token types")
    eos_id = _token_id(metadata, "eos", tokens)
    if eos_id is None:
        raise CorruptGgufError("metadata key tokenizer.ggml.eos_token_id is missing")
    control = {token: index for index, token in enumerate(tokens) if types[index] == CONTROL}
    ends = [
        eos_id,
        _token_id(metadata, "eot", tokens),
        _token_id(metadata, "eom", tokens),
        *(control.get(token) for token in TURN_ENDS),
    ]
    return TokenizerMetadata(
        tokens=tokens,
        token_types=types,
        merges=metadata.texts("tokenizer.ggml.merges"),
        pre=pre,
        bos_id=_token_id(metadata, "bos", tokens),
        eos_id=eos_id,
        padding_id=_token_id(metadata, "padding", tokens),
        add_bos=bool(metadata.values.get("tokenizer.ggml.add_bos_token", False)),
        chat_template=metadata.optional_text("tokenizer.chat_template"),
        end_ids=list(dict.fromkeys(token_id for token_id in ends if token_id is not None)),
    )


def _token_id(metadata: Metadata, name: str, tokens: Sequence[str]) -> int | None:
    key = f"tokenizer.ggml.{name}_token_id"
    token_id = metadata.values.get(key)
    if token_id is None:
        return None
    if not isinstance(token_id, int) or not 0 <= token_id < len(tokens):
        raise CorruptGgufError(f"{key} {token_id!r} is not one of the {len(tokens)} tokens")
    return token_id


def write_tokenizer(source: TokenizerMetadata, folder: Path, *, context_length: int) -> None:
    """Write tokenizer.json and tokenizer_config.json (with the chat template) into `folder`.

    Raises:
        CorruptGgufError: the merges do not fit the tokens.
    """
    _build(source).save(str(folder / "tokenizer.json"))
    named = {"bos_token": source.bos_id, "eos_token": source.eos_id, "pad_token": source.padding_id}
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context_length,
        "clean_up_tokenization_spaces": False,
        **{name: source.tokens[token_id] for name, token_id in named.items() if token_id is not None},
    }
    if source.chat_template is not None:
        config["chat_template"] = source.chat_template
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2, ensure_ascii=False), "utf-8")


def _build(source: TokenizerMetadata) -> Any:
    from tokenizers import (
        AddedToken,
        Regex,
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        processors,
    )

    pre = PRE_TOKENIZERS[source.pre]
    merges = [(left, right) for left, _, right in (merge.partition(" ") for merge in source.merges)]
    vocabulary = {token: index for index, token in enumerate(source.tokens)}
    if len(vocabulary) != len(source.tokens):
        raise CorruptGgufError("tokenizer.ggml.tokens holds a token twice")
    try:
        bpe = models.BPE(vocabulary, merges, ignore_merges=pre.ignore_merges)
    except Exception as error:  # the library raises bare `Exception` for a merge outside the vocabulary
        raise CorruptGgufError(f"tokenizer.ggml.merges does not fit the tokens: {error}") from error
    tokenizer = Tokenizer(bpe)
    if pre.normalise_nfc:
        tokenizer.normalizer = normalizers.NFC()
    steps: list[Any] = []
    if pre.individual_digits:
        steps.append(pre_tokenizers.Digits(individual_digits=True))
    if pre.pattern is not None:
        steps.append(pre_tokenizers.Split(Regex(pre.pattern), behavior="isolated"))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pre.pattern is None))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(token, normalized=False, special=True) for token in _of_type(source, CONTROL, UNKNOWN)]
    )
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in _of_type(source, USER_DEFINED)])
    if source.add_bos and source.bos_id is not None:
        bos = source.tokens[source.bos_id]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos}:0 $A:0", pair=f"{bos}:0 $A:0 {bos}:1 $B:1", special_tokens=[(bos, source.bos_id)]
        )
    return tokenizer


def _of_type(source: TokenizerMetadata, *wanted: int) -> list[str]:
    return [token for token, kind in zip(source.tokens, source.token_types, strict=True) if kind in wanted]
