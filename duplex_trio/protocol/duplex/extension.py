"""What the duplex dialect adds to OpenAI's events, all of it under the one key `duplex`.

Fields that are None are left out. Times are milliseconds of audio unless the name says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from duplex_trio.protocol.realtime.event_base import OMIT_NULL


@frozen(kw_only=True)
class Playback:
    """How far the sound of a response has come: made, sent, played by the client, and counted as heard.

    Attributes:
        generated_ms: made, in milliseconds.
        sent_ms: sent to the client, in milliseconds.
        played_ms: played by the client, as it says, in milliseconds.
        committed_ms: counted as heard, in milliseconds.
    """

    generated_ms: int = 0
    sent_ms: int = 0
    played_ms: int = 0
    committed_ms: int = 0


@frozen
class AudioTextMark:
    """The first `text_chars` characters of the transcript are spoken by `audio_end_ms` of the sound.

    Attributes:
        text_chars: characters of the transcript.
        audio_end_ms: where in the response's sound they are spoken.
    """

    text_chars: int
    audio_end_ms: int


@frozen(kw_only=True)
class CommitRecord:
    """What became of a commit: `empty` input, no response by design, or input heard over a response.

    Attributes:
        is_speech: whether it was speech.
        empty: whether there was nothing but silence.
        no_response: whether no answer follows.
        overlap_ack: whether it was a short word over an answer, which was dropped.
        overlap_deferred: whether it waits for the answer in progress to end.
        response_create_deferred: whether its own answer follows that.
    """

    is_speech: bool | None = field(default=None, metadata=OMIT_NULL)
    empty: bool | None = field(default=None, metadata=OMIT_NULL)
    no_response: bool | None = field(default=None, metadata=OMIT_NULL)
    overlap_ack: bool | None = field(default=None, metadata=OMIT_NULL)
    overlap_deferred: bool | None = field(default=None, metadata=OMIT_NULL)
    response_create_deferred: bool | None = field(default=None, metadata=OMIT_NULL)


@frozen(kw_only=True)
class RequestMetrics:
    """The wait for an answer and its parts, in milliseconds on the server's clock.

    `ttft_ms` and `ttfp_ms` run from the commit (of a turn without sound: from the request; of a model that
    owns its
    turns: from the latest unit before its answer) to the first text and to the first sound that leaves for
    the client. The others run from the arrival of the last voiced sample to the commit, to the transcript, to
    the start of the request (before the commit when `speculative`), and to the first sound.

    Attributes:
        ttft_ms: from the commit to the first text.
        ttfp_ms: from the commit to the first sound.
        speech_end_to_commit_ms: from the last voiced sample to the commit.
        speech_end_to_request_ms: from there to the start of the model's request.
        speech_end_to_transcript_ms: from there to the transcript.
        speech_end_to_first_audio_ms: from there to the first sound.
        speculative: whether the answer was prepared before the turn was over.
    """

    ttft_ms: float | None = field(default=None, metadata=OMIT_NULL)
    ttfp_ms: float | None = field(default=None, metadata=OMIT_NULL)
    speech_end_to_commit_ms: float | None = field(default=None, metadata=OMIT_NULL)
    speech_end_to_request_ms: float | None = field(default=None, metadata=OMIT_NULL)
    speech_end_to_transcript_ms: float | None = field(default=None, metadata=OMIT_NULL)
    speech_end_to_first_audio_ms: float | None = field(default=None, metadata=OMIT_NULL)
    speculative: bool | None = field(default=None, metadata=OMIT_NULL)


@frozen(kw_only=True)
class EngineFigures:
    """What the engine measured about a response, in milliseconds on the server's clock.

    `barge_in_decide_ms` runs from the arrival of what cancelled it, a command or speech, to the end of its
    epoch; `discarded_audio_ms` is sound that was made and never sent. Of a model that owns its turns: how
    many `units` were answered, what a unit waited for its answer on average, and how many answers missed
    their deadline.

    Attributes:
        barge_in_decide_ms: from what cancelled it to the end of its epoch.
        discarded_audio_ms: sound that was made and never sent.
        units: units that were answered.
        unit_latency_ms: what a unit waited for its answer, on average.
        unit_deadline_misses: answers that came too late.
    """

    barge_in_decide_ms: float | None = field(default=None, metadata=OMIT_NULL)
    discarded_audio_ms: float | None = field(default=None, metadata=OMIT_NULL)
    units: int | None = field(default=None, metadata=OMIT_NULL)
    unit_latency_ms: float | None = field(default=None, metadata=OMIT_NULL)
    unit_deadline_misses: int | None = field(default=None, metadata=OMIT_NULL)


@frozen(kw_only=True)
class DuplexExtension:
    """The value of the key `duplex`.

    `epoch` and `turn_id` are the fence. `cancel_reason` is the precise reason (`client_cancelled`,
    `barge_in`, `turn_detected`, `output_audio_buffer_clear`), `cancelled_epoch` the epoch that ended with it,
    `finish_reason` how a completed response ended. For an audio delta, `format` and `sample_rate_hz` describe
    `delta`, and `audio_duration_ms` is the sound of this response so far, this delta included.
    `stage_metrics` maps a stage's id to its figures, on the first delta of each output of the model so far
    and without lists, at the end in full. `retryable` belongs to errors.

    Attributes:
        session_id: of the session.
        epoch: in force; raised by whatever cancels.
        turn_id: counts the user's turns.
        playback: how far the response's sound has come.
        format: encoding of `delta`.
        sample_rate_hz: of `delta`.
        audio_duration_ms: sound of this response so far, this delta included.
        audio_text_marks: which words are in it.
        model_speak: whether the model decided to speak.
        end_of_turn: whether the model's turn is over.
        finish_reason: how a completed response ended: `stop`, `length`, ...
        cancel_reason: `client_cancelled`, `barge_in`, `turn_detected` or `output_audio_buffer_clear`.
        cancelled_epoch: the epoch that ended with it.
        commit: what became of a commit.
        deleted: whether the history lost an item.
        truncated: whether the history of an item was cut.
        stage_metrics: figures by the stage's id.
        request_metrics: the wait for the answer.
        engine_metrics: what the engine measured.
        retryable: whether sending the same again may work.
    """

    session_id: str | None = field(default=None, metadata=OMIT_NULL)
    epoch: int | None = field(default=None, metadata=OMIT_NULL)
    turn_id: int | None = field(default=None, metadata=OMIT_NULL)
    playback: Playback | None = field(default=None, metadata=OMIT_NULL)
    format: str | None = field(default=None, metadata=OMIT_NULL)
    sample_rate_hz: int | None = field(default=None, metadata=OMIT_NULL)
    audio_duration_ms: int | None = field(default=None, metadata=OMIT_NULL)
    audio_text_marks: tuple[AudioTextMark, ...] | None = field(default=None, metadata=OMIT_NULL)
    model_speak: bool | None = field(default=None, metadata=OMIT_NULL)
    end_of_turn: bool | None = field(default=None, metadata=OMIT_NULL)
    finish_reason: str | None = field(default=None, metadata=OMIT_NULL)
    cancel_reason: str | None = field(default=None, metadata=OMIT_NULL)
    cancelled_epoch: int | None = field(default=None, metadata=OMIT_NULL)
    commit: CommitRecord | None = field(default=None, metadata=OMIT_NULL)
    deleted: bool | None = field(default=None, metadata=OMIT_NULL)
    truncated: bool | None = field(default=None, metadata=OMIT_NULL)
    stage_metrics: Mapping[str, Mapping[str, Any]] | None = field(default=None, metadata=OMIT_NULL)
    request_metrics: RequestMetrics | None = field(default=None, metadata=OMIT_NULL)
    engine_metrics: EngineFigures | None = field(default=None, metadata=OMIT_NULL)
    retryable: bool | None = field(default=None, metadata=OMIT_NULL)
