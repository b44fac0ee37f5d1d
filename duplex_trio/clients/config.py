"""What a client asks a session to be, and its rendering as the `session` object of `session.update`.

The server validates; nothing here repeats its rules. A field left at `None` or `SERVER_DEFAULT` is not sent,
so that the server's own default holds (a model that owns its turns wants other defaults than one that is
driven by voice activity).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final, Literal

from attrs import Factory, field, frozen

SAMPLE_BYTES: Mapping[str, int] = {"pcm16": 2, "pcm": 2, "pcm_f32le": 4, "g711_ulaw": 1, "g711_alaw": 1}
"""Bytes of one sample, by wire name; encodings with headers (`wav`) have no fixed size."""


class ServerDefault(Enum):
    """The type of `SERVER_DEFAULT`."""

    SERVER_DEFAULT = "server default"


SERVER_DEFAULT: Final = ServerDefault.SERVER_DEFAULT
"""Says "not declared" where `None` already has a meaning (`turn_detection=None` switches detection off)."""


@frozen
class AudioFormat:
    """Encoding and rate of mono sound on the wire.

    `encoding` is a wire name (`pcm16`, `pcm_f32le`, `g711_ulaw`, ...); the sizes below exist for those in
    `SAMPLE_BYTES`.
    """

    encoding: str = "pcm16"
    sample_rate_hz: int = field(default=16000)

    @sample_rate_hz.validator
    def _positive(self, _attribute: object, value: int) -> None:
        if value <= 0:
            raise ValueError(f"sample_rate_hz must be positive, not {value}")

    @property
    def bytes_per_sample(self) -> int:
        """Size of one sample in bytes.

        Raises:
            ValueError: the encoding has no fixed sample size.
        """
        try:
            return SAMPLE_BYTES[self.encoding]
        except KeyError:
            raise ValueError(f"{self.encoding!r} has no fixed sample size") from None

    def duration_ms(self, byte_count: int) -> float:
        """Length in ms of `byte_count` bytes."""
        return byte_count / self.bytes_per_sample * 1000 / self.sample_rate_hz

    def byte_count(self, duration_ms: float) -> int:
        """Bytes of the whole samples that fit into `duration_ms`."""
        return int(duration_ms * self.sample_rate_hz / 1000) * self.bytes_per_sample


@frozen(kw_only=True)
class SessionConfig:
    """Settings of one session.

    Attributes:
        modalities: what answers consist of, of `audio` and `text`.
        input_audio: how `append_audio` and `stream_pcm` receive sound.
        output_audio: what answers should arrive as; each delta says what it is.
        instructions: the system prompt.
        voice: name of a voice of the model.
        ref_audio: data URL of a voice to imitate, for models that take one.
        turn_detection: a `server_vad` / `semantic_vad` object, `None` for push to talk, or the server's
            default.
        transcription: `input_audio_transcription`, such as `{"language": "en"}`.
        tools, tool_choice: functions that the model may call.
        auto_response: whether the model decides by itself when to talk; the model's own way by default. A
            session of a model that does the other is refused.
        temperature: of sampling.
        max_output_tokens: bound of one answer.
        overlap_policy: `listen_only`, `barge_in_on_speech`, or, without turn detection, `by_duration`.
        playback_commit_policy: `ack_only` or `commit_all_on_done`.
        idle_timeout_s: how long the socket may stay silent.
        metadata: free strings, echoed.
        extra_body: the model's own knobs.
    """

    modalities: Sequence[Literal["audio", "text"]] = ("audio", "text")
    input_audio: AudioFormat = AudioFormat("pcm16", 16000)
    output_audio: AudioFormat = AudioFormat("pcm16", 24000)
    instructions: str | None = None
    voice: str | None = None
    ref_audio: str | None = None
    turn_detection: Mapping[str, Any] | ServerDefault | None = SERVER_DEFAULT
    transcription: Mapping[str, Any] | None = None
    tools: Sequence[Mapping[str, Any]] | None = None
    tool_choice: str | Mapping[str, Any] | None = None
    auto_response: bool | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    overlap_policy: str | None = None
    playback_commit_policy: str | None = None
    idle_timeout_s: float | None = None
    metadata: Mapping[str, str] | None = None
    extra_body: Mapping[str, Any] = Factory(dict)

    def to_session_payload(self, model: str | None) -> dict[str, Any]:
        """The `session` object of `session.update`; `model` is left out when there is none."""
        payload: dict[str, Any] = {
            "modalities": list(self.modalities),
            "input_audio_format": self.input_audio.encoding,
            "output_audio_format": self.output_audio.encoding,
            "sample_rate_hz": self.input_audio.sample_rate_hz,
            "audio": {
                "input": {"sample_rate_hz": self.input_audio.sample_rate_hz},
                "output": {"sample_rate_hz": self.output_audio.sample_rate_hz},
            },
        }
        optional = {
            "model": model,
            "instructions": self.instructions,
            "voice": self.voice,
            "ref_audio": self.ref_audio,
            "input_audio_transcription": self.transcription,
            "tools": None if self.tools is None else list(self.tools),
            "tool_choice": self.tool_choice,
            "temperature": self.temperature,
            "max_output_tokens": self.max_output_tokens,
            "overlap_policy": self.overlap_policy,
            "playback_commit_policy": self.playback_commit_policy,
            "idle_timeout_s": self.idle_timeout_s,
            "metadata": self.metadata,
        }
        payload.update({name: value for name, value in optional.items() if value is not None})
        if self.turn_detection is not SERVER_DEFAULT:
            payload["turn_detection"] = self.turn_detection
        extra = dict(self.extra_body)
        if self.auto_response is not None:
            extra["auto_response"] = self.auto_response
        if extra:
            payload["extra_body"] = extra
        return payload
