"""Presets are sessions that a server understands; what a model does not do is refused by its name."""

from __future__ import annotations

from pathlib import Path

import attrs
import numpy as np
import pytest
import trio
from trio.testing import MockClock

from duplex_trio.clients import (
    DuplexProtocolError,
    InlineDuplexClient,
    SessionConfig,
    default_preset,
    minicpm_o_4_5,
    nemotron_voicechat,
    personaplex,
    reference_audio_data_url,
)
from duplex_trio.models.scripted.native import NativePipeline
from duplex_trio.protocol.duplex.audio import write_wav
from duplex_trio.protocol.duplex.session import SessionDefaults, apply_patch, default_config
from duplex_trio.testing import scripted_omni

TOOL = {"type": "function", "name": "look_up", "parameters": {"type": "object"}}
PRESETS = {
    "minicpm-o": minicpm_o_4_5(instructions="Be brief."),
    "personaplex": personaplex("You enjoy having a good conversation."),
    "nemotron": nemotron_voicechat(tools=[TOOL]),
}


def parsed(config: SessionConfig, *, owns_turns: bool = True) -> dict[str, object]:
    """The session as a server reads it, of a model that owns its turns and takes any voice."""
    defaults = SessionDefaults(model="m", voice="v", owns_turns=owns_turns)
    session = apply_patch(
        default_config(defaults, "duplex"), config.to_session_payload(None), dialect="duplex"
    )
    return attrs.asdict(session, recurse=False)


@pytest.mark.parametrize(
    ("preset", "encoding", "rate_hz", "out_hz"),
    [
        ("minicpm-o", "pcm16", 16_000, 24_000),
        ("personaplex", "pcm_f32le", 24_000, 24_000),
        ("nemotron", "pcm_f32le", 16_000, 22_050),
    ],
)
def test_a_server_reads_them(preset: str, encoding: str, rate_hz: int, out_hz: int) -> None:
    config = PRESETS[preset]
    assert (config.input_audio.encoding, config.input_audio.sample_rate_hz) == (encoding, rate_hz)
    assert config.output_audio.sample_rate_hz == out_hz
    session = parsed(config)
    assert str(rate_hz) in str(session)
    assert str(out_hz) in str(session)


def test_what_their_models_want_is_in_them() -> None:
    minicpm = minicpm_o_4_5(ref_audio="data:audio/wav;base64,AAAA").to_session_payload("minicpm")
    assert minicpm["overlap_policy"] == "listen_only"
    assert minicpm["playback_commit_policy"] == "ack_only"
    assert minicpm["extra_body"] == {"force_listen_count": 0, "auto_response": True}
    assert minicpm["ref_audio"].startswith("data:audio/wav")
    plex = personaplex("A pirate.").to_session_payload(None)
    assert (plex["voice"], plex["instructions"], plex["modalities"]) == ("NATF2.pt", "A pirate.", ["audio"])
    nemotron = nemotron_voicechat(tools=[TOOL]).to_session_payload(None)
    assert nemotron["extra_body"]["realtime_tools"] == [TOOL]
    assert "realtime_tools" not in nemotron_voicechat().to_session_payload(None)["extra_body"]


async def test_the_default_opens_a_session(autojump_clock: MockClock) -> None:
    async with (
        scripted_omni() as omni,
        InlineDuplexClient(omni, config=default_preset(instructions="Hi")) as client,
    ):
        assert client.session_info["instructions"] == "Hi"


@pytest.mark.parametrize("preset", ["minicpm-o", "nemotron"])
async def test_a_model_that_owns_its_turns_takes_them(autojump_clock: MockClock, preset: str) -> None:
    async with (
        scripted_omni(pipeline=NativePipeline()) as omni,
        InlineDuplexClient(omni, config=PRESETS[preset]) as client,
    ):
        await client.append_audio(bytes(client.config.input_audio.byte_count(100)))
        await trio.sleep(0.1)
        assert not client.closed


async def test_a_model_that_is_driven_by_turns_refuses_one_that_owns_them(autojump_clock: MockClock) -> None:
    async with scripted_omni() as omni:
        with pytest.raises(DuplexProtocolError) as refused:
            async with InlineDuplexClient(omni, config=PRESETS["minicpm-o"]):
                pass
        assert "auto_response" in str(refused.value)


def test_a_voice_to_imitate_is_any_recording(tmp_path: Path) -> None:
    write_wav(tmp_path / "me.wav", [np.zeros(48_000, np.float32)] * 2, 48_000)
    url = reference_audio_data_url(tmp_path / "me.wav")
    assert url.startswith("data:audio/wav;base64,UklGR")
    assert len(url) == pytest.approx((32_000 + 44) * 4 / 3, rel=0.01)
    with pytest.raises(ValueError, match=r"nothing\.wav: No such file"):
        reference_audio_data_url(tmp_path / "nothing.wav")
