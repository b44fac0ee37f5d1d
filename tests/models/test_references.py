"""How a reference is read: packaged names, folders and files of each kind, and what the errors tell people."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path

import pytest
from attrs import evolve

from duplex_trio.models.cache import MANIFEST_NAME, ModelCache, cache_root
from duplex_trio.models.catalog import CATALOG, ModelKind, find_packaged
from duplex_trio.models.hub import HubReference, parse_hub_reference
from duplex_trio.models.references import (
    ModelFormatError,
    ModelIntegrityError,
    ModelNotInstalledError,
    ModelStorageError,
    UnknownModelError,
    resolve_reference,
)


@pytest.fixture
def cache(tmp_path: Path) -> ModelCache:
    return ModelCache(tmp_path / "cache")


def make(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_bytes(b"GGUF" if name.endswith(".gguf") else b"x")
    return folder


def publish_silero(cache: ModelCache) -> Path:
    """Something in the place of the packaged detector, with a manifest that fits it."""
    model = find_packaged("silero")
    assert model is not None

    def build(target: Path) -> None:
        target.mkdir()
        (target / model.members[0].file_name).write_bytes(b"weights")

    return cache.publish(
        cache.packaged_folder(model), build, model=model.name, origin="test", licence="MIT", format="onnx"
    )


def test_every_kind_has_a_packaged_model_with_unique_names() -> None:
    assert {model.kind for model in CATALOG} == {"llm", "asr", "tts", "vad", "text-encoder"}
    assert len({model.name for model in CATALOG}) == len(CATALOG)


@pytest.mark.parametrize("model", CATALOG, ids=lambda model: model.name)
def test_a_packaged_model_is_not_fetched_without_being_told_to(model: object, cache: ModelCache) -> None:
    missing = tuple(evolve(entry, source="data") for entry in CATALOG)
    entry = next(entry for entry in missing if entry.name == getattr(model, "name", None))
    with pytest.raises(ModelNotInstalledError, match="duplex-trio install cpu"):
        resolve_reference(entry.name, entry.kind, cache=cache, catalog=missing)
    assert not (cache.root / "downloads").exists()


def test_a_stored_packaged_model_resolves_to_its_file(cache: ModelCache) -> None:
    folder = publish_silero(cache)
    found = resolve_reference("silero", "vad", cache=cache)
    assert found.path == folder / "silero_vad_16k_op15.onnx"
    assert (found.name, found.licence, found.format, found.package) == ("silero", "MIT", "onnx", None)


def test_a_stored_file_of_the_wrong_size_is_an_integrity_error(cache: ModelCache) -> None:
    folder = publish_silero(cache)
    (folder / "silero_vad_16k_op15.onnx").write_bytes(b"cut")
    with pytest.raises(ModelIntegrityError, match=r"silero_vad_16k_op15\.onnx has 3 bytes instead of 7"):
        resolve_reference("silero", "vad", cache=cache)


def test_a_missing_file_is_an_integrity_error(cache: ModelCache) -> None:
    folder = publish_silero(cache)
    (folder / "silero_vad_16k_op15.onnx").unlink()
    with pytest.raises(ModelIntegrityError, match="is missing"):
        resolve_reference("silero", "vad", cache=cache)


@pytest.mark.parametrize("content", [b"", b"{", b'{"model": 1}', b"[]"])
def test_an_unreadable_manifest_is_an_integrity_error(cache: ModelCache, content: bytes) -> None:
    folder = publish_silero(cache)
    (folder / MANIFEST_NAME).write_bytes(content)
    with pytest.raises(ModelIntegrityError, match="cannot be read"):
        resolve_reference("silero", "vad", cache=cache)


def test_a_thorough_check_finds_changed_content_of_the_same_size(cache: ModelCache) -> None:
    folder = publish_silero(cache)
    (folder / "silero_vad_16k_op15.onnx").write_bytes(b"WEIGHTS")
    assert cache.check(folder) is not None
    with pytest.raises(ModelIntegrityError, match="has changed"):
        cache.check(folder, thorough=True)


@pytest.mark.parametrize(
    ("reference", "kind", "message"),
    [
        ("smolm2-135m", "llm", "Did you mean smollm2-135m?"),
        ("smolm2-135m", "llm", "Packaged ones: smollm2-135m"),
        ("nonsense", "asr", "no speech recogniser called 'nonsense'"),
        ("silero", "llm", "silero is a voice activity detector, not a language model"),
        ("./nothing-here", "llm", "does not exist"),
        ("nothing-here.gguf", "llm", "There is no file"),
        ("", "llm", "no language model called ''"),
    ],
)
def test_an_unknown_reference_says_what_would_be_known(
    reference: str, kind: ModelKind, message: str, cache: ModelCache
) -> None:
    with pytest.raises(UnknownModelError) as caught:
        resolve_reference(reference, kind, cache=cache)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "names", "format", "leaf"),
    [
        ("llm", ("config.json", "model.safetensors"), "hf", ""),
        ("llm", ("config.json", "model-00001-of-00002.safetensors"), "hf", ""),
        ("asr", ("model.bin", "config.json", "tokenizer.json"), "ctranslate2", ""),
        ("vad", ("detector.onnx",), "onnx", "detector.onnx"),
        ("tts", ("voice.onnx", "README.md"), "onnx", "voice.onnx"),
    ],
)
def test_a_local_folder_is_recognised(
    tmp_path: Path, cache: ModelCache, kind: ModelKind, names: tuple[str, ...], format: str, leaf: str
) -> None:
    folder = make(tmp_path / "my-model", *names)
    found = resolve_reference(str(folder), kind, cache=cache)
    assert (found.path, found.format, found.name) == (folder / leaf, format, "my-model")
    assert found.licence is None


def test_a_packaged_name_wins_over_a_folder_of_that_name(
    tmp_path: Path, cache: ModelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "smollm2-135m", "config.json", "model.safetensors")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelNotInstalledError):
        resolve_reference("smollm2-135m", "llm", cache=cache)
    assert resolve_reference("./smollm2-135m", "llm", cache=cache).path == tmp_path / "smollm2-135m"


def test_a_folder_that_looks_like_a_hub_id_is_a_folder(
    tmp_path: Path, cache: ModelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "org" / "name", "config.json", "model.safetensors")
    monkeypatch.chdir(tmp_path)
    assert resolve_reference("org/name", "llm", cache=cache).path == tmp_path / "org" / "name"


@pytest.mark.parametrize(
    ("kind", "names", "message"),
    [
        ("llm", ("config.json",), "expected a Hugging Face folder"),
        ("llm", ("a.gguf", "b.gguf"), "several GGUF files (a.gguf, b.gguf)"),
        ("asr", ("config.json", "model.safetensors"), "ct2-transformers-converter"),
        ("asr", ("model.bin",), "expected a Whisper model"),
        ("vad", (), "expected Silero VAD"),
        ("vad", ("a.onnx", "b.onnx"), "several ONNX files"),
        ("tts", ("voice.bin",), "expected a voice"),
    ],
)
def test_a_folder_of_another_format_says_what_was_expected(
    tmp_path: Path, cache: ModelCache, kind: ModelKind, names: tuple[str, ...], message: str
) -> None:
    folder = make(tmp_path / "odd", *names)
    with pytest.raises(ModelFormatError) as caught:
        resolve_reference(str(folder), kind, cache=cache)
    assert message in str(caught.value)


def test_a_file_that_only_claims_to_be_gguf_is_refused(tmp_path: Path, cache: ModelCache) -> None:
    (tmp_path / "fake.gguf").write_bytes(b"no magic")
    with pytest.raises(ModelFormatError):
        resolve_reference(str(tmp_path / "fake.gguf"), "llm", cache=cache)


def test_a_gguf_file_that_was_converted_before_is_not_converted_again(
    tmp_path: Path, cache: ModelCache
) -> None:
    (tmp_path / "mine.gguf").write_bytes(b"GGUF and the rest")
    digest = hashlib.sha256(b"GGUF and the rest").hexdigest()
    folder = cache.publish(
        cache.converted_folder(digest), Path.mkdir, model="mine", origin="test", licence=None, format="hf"
    )
    found = resolve_reference(str(tmp_path / "mine.gguf"), "llm", cache=cache)
    assert (found.path, found.format, found.name) == (folder, "hf", "mine.gguf")


@pytest.mark.models
def test_a_broken_gguf_file_is_a_format_error_and_leaves_nothing(tmp_path: Path, cache: ModelCache) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF" + bytes(64))
    with pytest.raises(ModelFormatError, match=r"broken\.gguf cannot be converted"):
        resolve_reference(str(tmp_path / "broken.gguf"), "llm", cache=cache)
    assert not (cache.root / "converted").exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("org/name", HubReference("org/name", None)),
        ("org/name/sub/model.Q4.gguf", HubReference("org/name", "sub/model.Q4.gguf")),
        ("org/name/notes.txt", None),
        ("name", None),
        ("https://host/org/name", None),
    ],
)
def test_hub_ids(text: str, expected: HubReference | None) -> None:
    assert parse_hub_reference(text) == expected


def test_the_cache_folder_follows_the_environment(tmp_path: Path) -> None:
    assert cache_root({"DUPLEX_TRIO_CACHE": str(tmp_path)}) == tmp_path
    assert cache_root({"DUPLEX_TRIO_CACHE": "~/models"}) == Path.home() / "models"
    assert cache_root({}).name == "duplex-trio"


def test_a_failed_build_leaves_nothing_and_the_next_one_succeeds(cache: ModelCache) -> None:
    folder = cache.converted_folder("0" * 64)

    def build(target: Path) -> None:
        target.mkdir()
        (target / "half").write_bytes(b"half")
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError):
        cache.publish(folder, build, model="m", origin="o", licence=None, format="hf")
    assert not folder.exists()
    assert list((cache.root / "tmp").iterdir()) == []

    cache.publish(folder, lambda target: target.mkdir(), model="m", origin="o", licence=None, format="hf")
    assert json.loads((folder / MANIFEST_NAME).read_text())["files"] == {}


@pytest.mark.parametrize(
    ("number", "message"),
    [(errno.ENOSPC, "is full"), (errno.EROFS, "cannot be written"), (errno.EACCES, "cannot be written")],
)
def test_a_disk_that_cannot_take_the_files_is_a_storage_error(
    cache: ModelCache, number: int, message: str
) -> None:
    def build(target: Path) -> None:
        raise OSError(number, os.strerror(number))

    with pytest.raises(ModelStorageError, match=message) as caught:
        cache.publish(cache.converted_folder("1"), build, model="m", origin="o", licence=None, format="hf")
    assert "DUPLEX_TRIO_CACHE" in str(caught.value)
    assert list((cache.root / "tmp").iterdir()) == []


def test_other_os_errors_stay_what_they_are(cache: ModelCache) -> None:
    def build(target: Path) -> None:
        raise OSError(errno.EIO, "input/output error")

    with pytest.raises(OSError, match="input/output error"):
        cache.publish(cache.converted_folder("1"), build, model="m", origin="o", licence=None, format="hf")


def test_a_damaged_folder_is_replaced(cache: ModelCache) -> None:
    folder = publish_silero(cache)
    (folder / "silero_vad_16k_op15.onnx").write_bytes(b"WEIGHTS")
    publish_silero(cache)
    assert cache.check(folder, thorough=True) is not None


def test_only_old_leftovers_are_removed(cache: ModelCache) -> None:
    with cache.work_folder() as work:
        modified = work.stat().st_mtime
        cache.remove_leftovers(modified + 3600)
        assert work.exists()
        cache.remove_leftovers(modified + 25 * 3600)
        assert not work.exists()
