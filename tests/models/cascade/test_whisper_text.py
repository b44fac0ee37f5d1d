"""Whisper's prompts and text, and how a loop is recognised and undone."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.models.cascade.whisper_text import (
    WhisperTokens,
    language_of_token,
    repetition_start,
    token_limit,
)
from duplex_trio.models.references import resolve_reference


@pytest.mark.parametrize(
    ("text", "once"),
    [
        ("5 5 5", "5"),
        ("a 5 5 5 5 5", "a 5"),
        ("ten of clubs ten of clubs", "ten of clubs"),
        ("so ten of clubs ten of clubs ten of", "so ten of clubs"),
        ("i know , i know , i know .", "i know"),
        ("so , ten of , clubs . ten of clubs !", "so , ten of , clubs"),
        ("... ... ...", "..."),
        ("a b a b a", "a b"),
    ],
)
def test_a_repetition_at_the_end_begins_after_its_first_time(text: str, once: str) -> None:
    keys = ["".join(c for c in word if c.isalnum()) for word in text.split()]
    start = repetition_start(keys)
    assert " ".join(text.split()[:start]) == once
    assert start is not None


@pytest.mark.parametrize("text", ["", "a", "very very", "a b c d", "5 5 5 a", "a b a b c", "no , no ,"])
def test_what_only_sounds_alike_is_none(text: str) -> None:
    assert repetition_start(["".join(c for c in word if c.isalnum()) for word in text.split()]) is None


@given(st.lists(st.sampled_from(["", "a", "b", "c"]), max_size=60))
def test_what_is_left_does_not_repeat_the_same_again(keys: list[str]) -> None:
    start = repetition_start(keys)
    assert start is None or 0 < start < len(keys)
    assert start is None or any(keys[:start]) == any(keys)


@pytest.mark.parametrize(("seconds", "limit"), [(0.0, 8), (1.0, 15), (2.5, 25), (30.0, 218)])
def test_the_limit_follows_the_length_of_the_sound(seconds: float, limit: int) -> None:
    assert token_limit(seconds) == limit


def test_language_tokens_are_read_and_others_refused() -> None:
    assert language_of_token("<|en|>") == "en"
    assert language_of_token("<|haw|>") == "haw"
    with pytest.raises(ValueError, match="transcribe"):
        language_of_token("<|transcribe|>")


def test_a_folder_without_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json"):
        WhisperTokens(tmp_path, multilingual=False)


@pytest.fixture(scope="module")
def folder() -> Path:
    path = resolve_reference("whisper-tiny.en", "asr").path
    assert path is not None
    return path


@pytest.mark.models
def test_an_english_only_prompt_names_no_language(folder: Path) -> None:
    tokens = WhisperTokens(folder, multilingual=False)
    assert tokens.languages == {"en"}
    assert tokens.prompt("en") == [50257, 50362]


@pytest.mark.models
def test_a_multilingual_prompt_names_language_and_task(folder: Path) -> None:
    tokens = WhisperTokens(folder, multilingual=True)
    assert {"en", "de", "zh", "haw"} <= tokens.languages
    assert "transcribe" not in tokens.languages
    assert tokens.prompt("de") == [50257, 50260, 50358, 50362]


@pytest.mark.models
def test_text_leaves_special_tokens_out(folder: Path) -> None:
    tokens = WhisperTokens(folder, multilingual=False)
    assert tokens.text([50257, 50362, 18435, 612, 13, 50256]) == "Hello there."


@pytest.mark.models
def test_keys_look_through_case_spaces_and_punctuation(folder: Path) -> None:
    tokens = WhisperTokens(folder, multilingual=False)
    assert tokens.keys([18435, 612, 13, 15496]) == ["hello", "there", "", "hello"]


@pytest.mark.models
def test_another_tokenizer_is_refused(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models

    Tokenizer(models.WordLevel({"hello": 0}, unk_token="hello")).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ValueError, match="startoftranscript"):
        WhisperTokens(tmp_path, multilingual=False)
