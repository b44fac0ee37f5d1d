"""Session settings for models whose sessions have a shape of their own (wire.md 9.5).

A preset is a `SessionConfig` with what its model wants; `attrs.evolve(preset, ...)` changes the rest. A server
refuses what its model does not do, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from duplex_trio.clients.config import AudioFormat, SessionConfig

PERSONAPLEX_VOICE = "NATF2.pt"
"""The voice that PersonaPlex's own server takes by default; there are NATF0-3, NATM0-3, VARF0-4 and VARM0-4."""


def default_preset(*, instructions: str | None = None, voice: str | None = None) -> SessionConfig:
    """A cascade, or any model that is driven by the server's turn detection.

    pcm16 at 16 kHz in, at 24 kHz out; the server decides when the user's turn is over, and an answer is over as
    soon as the user speaks.

    Args:
        instructions: the system prompt.
        voice: name of a voice of the model.
    """
    return SessionConfig(instructions=instructions, voice=voice)


def minicpm_o_4_5(*, instructions: str | None = None, ref_audio: str | None = None) -> SessionConfig:
    """MiniCPM-o 4.5: it decides by itself when to speak, and hears pictures with the sound.

    pcm16 at 16 kHz in, in units of one second; pcm16 at 24 kHz out. What is spoken over an answer is heard and
    does not cut it (`listen_only`); only what was acknowledged as heard is remembered (`ack_only`).

    Args:
        instructions: the system prompt.
        ref_audio: a voice to imitate, as `reference_audio_data_url` makes it.
    """
    return SessionConfig(
        auto_response=True,
        overlap_policy="listen_only",
        playback_commit_policy="ack_only",
        instructions=instructions,
        ref_audio=ref_audio,
        extra_body={"force_listen_count": 0},
    )


def personaplex(persona: str | None = None, *, voice: str = PERSONAPLEX_VOICE) -> SessionConfig:
    """PersonaPlex and Moshi: one stream in, one stream out, and no turns.

    32-bit float samples at 24 kHz in, in units of 80 ms, as the model takes them without resampling; pcm16 at 24 kHz
    out.

    Args:
        persona: who it is, as a system prompt; it cannot be changed while the session goes on.
        voice: a voice file of the model's.
    """
    return SessionConfig(
        modalities=("audio",),
        input_audio=AudioFormat("pcm_f32le", 24_000),
        output_audio=AudioFormat("pcm16", 24_000),
        auto_response=True,
        instructions=persona,
        voice=voice,
    )


def nemotron_voicechat(
    *, instructions: str | None = None, tools: Sequence[Mapping[str, Any]] = ()
) -> SessionConfig:
    """Nemotron VoiceChat: it decides by itself when to speak, and calls functions.

    32-bit float samples at 16 kHz in, pcm16 at 22.05 kHz out.

    Args:
        instructions: the system prompt.
        tools: functions that it may call; its plugin takes them as `realtime_tools`.
    """
    return SessionConfig(
        input_audio=AudioFormat("pcm_f32le", 16_000),
        output_audio=AudioFormat("pcm16", 22_050),
        auto_response=True,
        instructions=instructions,
        extra_body={"realtime_tools": [dict(tool) for tool in tools]} if tools else {},
    )
