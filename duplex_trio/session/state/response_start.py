"""A response as it begins: the ways of its session, and over them what the client wants of this one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from duplex_trio.protocol.duplex import (
    Modality,
    ResponseAudio,
    ResponseAudioOutput,
    ResponseCreateOptions,
)
from duplex_trio.protocol.duplex.audio import AudioFormat, AudioOutputEncoder, parse_format, wire_format
from duplex_trio.protocol.duplex.session import DialectName, DuplexSessionConfig
from duplex_trio.session.state.response import Response

if TYPE_CHECKING:
    from duplex_trio.session.state.engine_session import DuplexEngineSession

MODALITIES: Sequence[Modality] = ("text", "audio")


def new_response(
    session: DuplexEngineSession, turn_id: int, options: ResponseCreateOptions | None, now_s: float
) -> Response:
    """Make a response that has no item yet.

    Args:
        session: the session.
        turn_id: the turn that makes the response.
        options: what the client wants of this response, if anything.
        now_s: the session's clock.
    """
    config = session.config
    response_id = f"resp-{session.session_id}-{session.epoch}-{session.new_id('')[:8]}"
    modalities = modalities_of(config, options)
    voice = (options.voice if options is not None else None) or config.voice or session.default_voice
    output_format = output_format_of(config, options, session.dialect)
    sound = ResponseAudio(output=ResponseAudioOutput(format=wire_format(output_format), voice=voice))
    limit = options.max_output_tokens if options is not None else None
    outside = options is not None and options.conversation == "none"
    return Response(
        response_id=response_id,
        item_id=f"item_{response_id}",
        session_id=session.session_id,
        epoch=session.epoch,
        turn_id=turn_id,
        created_s=now_s,
        encoder=AudioOutputEncoder(
            output_format,
            session.output_sample_rate_hz,
            speed=_speed_of(config, options) if session.stretches_speech else 1.0,
        ),
        modalities=modalities,
        conversation_id=None if outside else session.conversation_id,
        new_id=session.new_id,
        audio=sound if "audio" in modalities else None,
        max_output_tokens=limit if limit is not None else config.max_output_tokens or "inf",
        metadata=options.metadata if options is not None else None,
        stage_metrics=session.held_metrics,
        extended=session.dialect == "duplex",
        message_index=None,
    )


def modalities_of(config: DuplexSessionConfig, options: ResponseCreateOptions | None) -> tuple[Modality, ...]:
    """The modalities of a response: its own, else the session's."""
    own = options.output_modalities if options is not None else None
    return own if own else tuple(name for name in MODALITIES if name in config.output_modalities)


def output_format_of(
    config: DuplexSessionConfig, options: ResponseCreateOptions | None, dialect: DialectName
) -> AudioFormat:
    """The format of a response's sound: its own, else the session's. What it leaves out is the session's.

    As in OpenAI's protocol it may be any that a session can have, G.711 too.

    Raises:
        RealtimeError: `unsupported_audio_format`, or `bad_event` for a rate.
    """
    if options is None or options.output_format is None:
        return config.output_format
    return parse_format(
        options.output_format,
        direction="output",
        param="response.audio.output.format",
        current=config.output_format,
        duplex_names=dialect == "duplex",
    )


def _speed_of(config: DuplexSessionConfig, options: ResponseCreateOptions | None) -> float:
    return (options.speed if options is not None else None) or config.speed or 1.0
