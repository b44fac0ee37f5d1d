from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from duplex_trio.clients import AudioFormat
from duplex_trio.clients.files import encode_pcm, load_wav
from duplex_trio.protocol.duplex.audio import write_wav


def test_a_stereo_recording_of_another_rate_becomes_mono_at_the_sessions_rate(tmp_path: Path) -> None:
    path = tmp_path / "in.wav"
    tone = np.sin(2 * np.pi * 440 * np.arange(44_100, dtype=np.float32) / 44_100) * 0.5
    write_wav(path, [tone, tone], 44_100)
    pcm = load_wav(path, 16_000)
    assert len(pcm) == pytest.approx(16_000, abs=1)
    spectrum = np.abs(np.fft.rfft(pcm[:16_000]))
    assert int(spectrum.argmax()) == 440
    assert np.abs(pcm[1000:-1000]).max() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(b"not a wav", "not a WAV file"), (b"", "not a WAV file"), (None, "No such file")],
)
def test_a_bad_recording_is_named(tmp_path: Path, content: bytes | None, complaint: str) -> None:
    path = tmp_path / "bad.wav"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=complaint) as caught:
        load_wav(path, 16_000)
    assert "bad.wav" in str(caught.value)


def test_a_recording_without_sound_is_refused(tmp_path: Path) -> None:
    write_wav(tmp_path / "empty.wav", np.zeros(0, np.float32), 16_000)
    with pytest.raises(ValueError, match="no sound"):
        load_wav(tmp_path / "empty.wav", 16_000)
    write_wav(tmp_path / "instant.wav", np.zeros(4, np.float32), 2_000_000)
    with pytest.raises(ValueError, match="no sound"):
        load_wav(tmp_path / "instant.wav", 16_000)


def test_sound_is_encoded_as_the_session_declared() -> None:
    pcm = np.array([0.0, 0.5, -1.0], np.float32)
    assert encode_pcm(pcm, AudioFormat("pcm16", 16_000)) == np.array([0, 16384, -32768], "<i2").tobytes()
    assert encode_pcm(pcm, AudioFormat("pcm_f32le", 16_000)) == pcm.tobytes()
    with pytest.raises(ValueError, match="g711_ulaw"):
        encode_pcm(pcm, AudioFormat("g711_ulaw", 8_000))
