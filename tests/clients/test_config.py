from __future__ import annotations

from typing import Any

import pytest

from duplex_trio.clients import AudioFormat, SessionConfig

ALWAYS = {
    "modalities": ["audio", "text"],
    "input_audio_format": "pcm16",
    "output_audio_format": "pcm16",
    "sample_rate_hz": 16000,
    "audio": {"input": {"sample_rate_hz": 16000}, "output": {"sample_rate_hz": 24000}},
}


@pytest.mark.parametrize(
    ("config", "added"),
    [
        (SessionConfig(), {}),
        (SessionConfig(instructions=""), {"instructions": ""}),
        (SessionConfig(turn_detection=None), {"turn_detection": None}),
        (SessionConfig(turn_detection={"type": "server_vad"}), {"turn_detection": {"type": "server_vad"}}),
        (SessionConfig(auto_response=False), {"extra_body": {"auto_response": False}}),
        (
            SessionConfig(auto_response=True, extra_body={"knob": 1}),
            {"extra_body": {"knob": 1, "auto_response": True}},
        ),
        (
            SessionConfig(tools=[{"name": "f"}], tool_choice="auto"),
            {"tools": [{"name": "f"}], "tool_choice": "auto"},
        ),
        (SessionConfig(transcription={"language": "en"}), {"input_audio_transcription": {"language": "en"}}),
    ],
)
def test_only_what_was_declared_is_sent(config: SessionConfig, added: dict[str, Any]) -> None:
    assert config.to_session_payload(None) == ALWAYS | added
    assert config.to_session_payload("m") == ALWAYS | added | {"model": "m"}


@pytest.mark.parametrize(
    ("audio", "byte_count", "duration_ms"),
    [
        (AudioFormat("pcm16", 16000), 640, 20),
        (AudioFormat("pcm_f32le", 16000), 1280, 20),
        (AudioFormat("g711_ulaw", 8000), 160, 20),
        (AudioFormat("pcm16", 22050), 2, 1000 / 22050),
    ],
)
def test_bytes_and_time_convert(audio: AudioFormat, byte_count: int, duration_ms: float) -> None:
    assert audio.duration_ms(byte_count) == pytest.approx(duration_ms)
    assert audio.byte_count(duration_ms + 1e-9) == byte_count


def test_an_encoding_with_headers_has_no_sample_size() -> None:
    with pytest.raises(ValueError, match="no fixed sample size"):
        _ = AudioFormat("wav", 24000).bytes_per_sample
    with pytest.raises(ValueError, match="positive"):
        AudioFormat("pcm16", 0)
