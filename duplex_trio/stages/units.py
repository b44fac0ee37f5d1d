"""The values that travel into and out of stages.

Sound is mono `float32` in [-1, 1] as a one-dimensional numpy array; its rate is stated by each class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from attrs import Factory, frozen

Pcm = npt.NDArray[np.float32]
"""Mono samples in [-1, 1], shape (n,)."""


VAD_RATE_HZ = 16_000
VAD_FRAME_SAMPLES = 512
"""One frame of voice activity: 32 ms at `VAD_RATE_HZ`."""


@frozen(eq=False)
class VadBatch:
    """Input of a voice-activity stage: the next frames of several speakers.

    `frames` holds each speaker's sound by the speaker's number: 16 kHz, a multiple of 512 samples (32 ms). A
    number that is new is a speaker who has said nothing before. `gone` are speakers who say nothing more.
    """

    frames: Mapping[int, Pcm]
    gone: Sequence[int] = ()


@frozen(eq=False)
class VadScores:
    """Output of a voice-activity stage, one for each batch.

    For each speaker, in the order of the batch, one speech probability in [0, 1] for each frame, in order.
    """

    probabilities: Sequence[npt.NDArray[np.float32]]


@frozen(eq=False, kw_only=True)
class SpeechSegment:
    """Input of a recognition stage: 16 kHz sound to transcribe as a whole.

    `partial` asks for a quick hypothesis of speech that goes on; the stage may drop a partial that a newer
    unit of the same request supersedes, and does finals before partials.
    """

    pcm: Pcm
    partial: bool = False
    language: str | None = None


@frozen(kw_only=True)
class Transcript:
    """Output of a recognition stage. `text` is empty when the sound held no speech.

    `no_speech_probability` is in [0, 1]; `average_log_probability` is the mean natural-log probability of a
    token; `token_count` is how many tokens were decoded.
    """

    text: str
    partial: bool
    duration_s: float
    no_speech_probability: float = 0.0
    average_log_probability: float = 0.0
    token_count: int = 0


@frozen(kw_only=True)
class ChatCall:
    """A call of a function that the assistant made; `arguments` is the JSON text of an object."""

    name: str
    arguments: str
    call_id: str


@frozen(kw_only=True)
class ChatMessage:
    """One message of a prompt: plain text, and the `data:` URLs of pictures for a model that takes them.

    `calls` are those that an assistant made in it, `call_id` is the call whose result a tool's message is.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    images: tuple[str, ...] = ()
    calls: tuple[ChatCall, ...] = ()
    call_id: str | None = None


@frozen(kw_only=True)
class ChatPrompt:
    """Input of a language-model stage: a conversation to continue with one assistant message."""

    messages: Sequence[ChatMessage]
    tools: Sequence[Mapping[str, Any]] = ()


@frozen(kw_only=True)
class PromptUpdate:
    """Input of a resumable language-model request: goes behind what the model has read, and it answers anew.

    Exactly one of the two is given, and it is at least one token. `token_ids` are taken as they are, control
    tokens too. `text` is plain: the text of a control token in it becomes a space, as in a `ChatMessage`.
    """

    token_ids: Sequence[int] | None = None
    text: str | None = None


@frozen(kw_only=True)
class GenerationParams:
    """Sampling of one language-model request; a `None` leaves the model profile's value in force.

    All of it, `max_tokens` too, holds for each segment of a resumable request.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    repetition_penalty: float | None = None
    max_tokens: int | None = None
    stop: Sequence[str] = ()
    seed: int | None = None
    ignore_eos: bool = False
    extra: Mapping[str, Any] = Factory(dict)


@frozen(kw_only=True)
class TextDelta:
    """Output of a language-model stage: the text generated since the last one (may be empty on the last).

    On the last delta `finish_reason` is `stop`, `length` or `abort`, and `stopped_by_text` says whether it was
    one of the request's stop strings that ended it, and not the model; the token counts are totals of the
    request. Those of a resumable request are totals of its segment: `prompt_tokens` is all that the segment
    builds on, `cached_tokens` how many of these were not computed again.
    """

    text: str
    finish_reason: str | None = None
    stopped_by_text: bool = False
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0


@frozen(kw_only=True)
class SegmentEnd(TextDelta):
    """The last delta of a segment of a resumable request; the request stays and waits for a `PromptUpdate`.

    The next segment builds on the prompt and on what was generated except for the last token (which may be
    the one that ended the segment, such as an end of turn that is no part of the text). A caller whose model
    must remember it begins the update with it.

    Args:
        context_tokens: how many tokens the next segment builds on, its update not counted.
        dropped_token_id: the last token; `None` when the segment has none.
    """

    context_tokens: int
    dropped_token_id: int | None


@frozen(kw_only=True)
class Clause:
    """Input of a synthesis stage: text to be spoken in one breath.

    `speed` is a factor, 1.0 as the voice was made.
    """

    text: str
    voice: str | None = None
    speed: float = 1.0


@frozen(eq=False, kw_only=True)
class SpeechChunk:
    """Output of a synthesis stage: the sound of one clause, and the text it speaks."""

    pcm: Pcm
    sample_rate_hz: int
    text: str


@frozen(kw_only=True)
class TextToEmbed:
    """Input of a sentence encoder: a text whose meaning is wanted as a vector."""

    text: str


@frozen(eq=False, kw_only=True)
class TextEmbedding:
    """Output of a sentence encoder, one for each text: shape (size of the encoder,), of unit length."""

    vector: npt.NDArray[np.float32]
