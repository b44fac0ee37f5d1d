from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from duplex_trio.clients.media import audio_data_url, image_data_url, read_pcm16_wav, write_pcm16_wav
from duplex_trio.protocol.duplex.audio import write_wav


def test_bytes_become_data_urls() -> None:
    assert audio_data_url(b"abc") == "data:audio/wav;base64,YWJj"
    assert image_data_url(b"abc", "image/png") == "data:image/png;base64,YWJj"


def test_samples_come_back_as_they_were_written(tmp_path: Path) -> None:
    write_pcm16_wav(tmp_path / "a.wav", b"\x01\x00\xff\x7f", 24_000)
    assert read_pcm16_wav(tmp_path / "a.wav", 24_000) == b"\x01\x00\xff\x7f"


def test_another_rate_or_more_channels_are_refused(tmp_path: Path) -> None:
    write_pcm16_wav(tmp_path / "a.wav", bytes(4), 24_000)
    with pytest.raises(ValueError, match=r"a\.wav: 1 channels of 16 bits at 24000 Hz"):
        read_pcm16_wav(tmp_path / "a.wav", 16_000)
    write_wav(tmp_path / "b.wav", [np.zeros(8, np.float32)] * 2, 16_000)
    with pytest.raises(ValueError, match="2 channels"):
        read_pcm16_wav(tmp_path / "b.wav", 16_000)


@pytest.mark.parametrize("content", [None, b"", b"not a wav"])
def test_what_is_no_wav_file_is_named(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "bad.wav").write_bytes(content)
    with pytest.raises(ValueError, match=r"bad\.wav"):
        read_pcm16_wav(tmp_path / "bad.wav", 16_000)


def test_half_samples_and_no_rate_are_not_written(tmp_path: Path) -> None:
    for pcm, rate_hz in ((b"abc", 16_000), (b"ab", 0)):
        with pytest.raises(ValueError):
            write_pcm16_wav(tmp_path / "a.wav", pcm, rate_hz)


def test_a_wav_file_that_ends_in_its_header_is_named(tmp_path: Path) -> None:
    write_pcm16_wav(tmp_path / "whole.wav", bytes(4), 16_000)
    (tmp_path / "cut.wav").write_bytes((tmp_path / "whole.wav").read_bytes()[:30])
    with pytest.raises(ValueError, match=r"cut\.wav: not a WAV file of 16-bit samples: it is cut short"):
        read_pcm16_wav(tmp_path / "cut.wav", 16_000)
