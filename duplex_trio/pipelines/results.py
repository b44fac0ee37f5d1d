"""What a model's outputs mean, in terms a session understands.

A plugin's data plane turns each delivered stage output into any number of these values; the session turns
them into events. Sound is mono float32 at the plugin's output rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from duplex_trio.stages.units import Pcm


@frozen(eq=False, kw_only=True)
class SpeechResult:
    """A stretch of assistant speech and the text it speaks (empty when the text came before).

    The text is `aligned` with the sound if by the end of `pcm` all of `text` has been spoken. A model that
    cannot tell where in its sound a word is says so once; the text of such a response counts as heard only
    when all of its sound was.
    """

    pcm: Pcm
    sample_rate_hz: int
    text: str
    aligned: bool = True


@frozen(kw_only=True)
class TextResult:
    """Assistant text for a response without sound."""

    text: str


@frozen(kw_only=True)
class UserTranscript:
    """What the model heard the user say in the turn; final for the turn's sound.

    Of sound whose turn ends without one the conversation has no words, and the client is told that none come.
    From a model that owns its turns it is the words of the latest committed item, and is not shown if nothing
    was committed since the last one.
    """

    text: str
    audio_duration_s: float
    language: str | None = None


@frozen(kw_only=True)
class ListenResult:
    """The model chose not to speak. `reason` is shown in `response.listen`."""

    reason: str
    model_listen: bool = True


@frozen
class SegmentEnd:
    """A model that owns its turns has answered one unit while it speaks, and goes on with the next one."""


@frozen(kw_only=True)
class TokenUsage:
    """Tokens of the model's turn so far, totals like those of `TurnEnd`; the latest counts.

    For the `usage` of a response that does not come to its end. Of a model that answers turns it takes effect as
    the stage's output comes in, ahead of results that wait for a slow client, so it may be said with each token.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


@frozen(kw_only=True)
class TurnEnd:
    """The model's turn is over. Token counts are totals of the turn; `finish_reason` is `stop` or `length`."""

    finish_reason: str = "stop"
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


@frozen(kw_only=True)
class ModelFailure:
    """The turn failed. `code` is a wire error code."""

    code: str
    message: str


@frozen(kw_only=True)
class FunctionCallResult:
    """The model wants a function called. `arguments` is JSON text; without `call_id` the session makes one.

    The client's answer is an item of the conversation; see `runtime_config_for_function_output`. Where the
    arguments are known piece by piece, a model that answers turns says `FunctionCallBegin`, any number of
    `FunctionCallArguments` and `FunctionCallEnd` instead.
    """

    name: str
    arguments: str
    call_id: str | None = None


@frozen(kw_only=True)
class FunctionCallBegin:
    """The model begins a call, and its arguments follow.

    There is one call at a time. One that has not ended when its turn has, or when another begins, is incomplete: the
    client is told so, and need not answer it.
    """

    name: str
    call_id: str | None = None


@frozen
class FunctionCallArguments:
    """The next piece of the arguments of the call in progress, which are JSON text as a whole."""

    delta: str


@frozen
class FunctionCallEnd:
    """The arguments of the call in progress are complete, and the client may make it."""


@frozen(kw_only=True)
class ModelContext:
    """Text that the model is to remember of its turn; it comes back in `commit_model_context`."""

    text: str


@frozen(kw_only=True)
class ModelNote:
    """What the model tells its own plugin; it comes back in `runtime_config_after_model_output`.

    Nothing of it reaches the client.
    """

    metadata: Mapping[str, Any]


@frozen(kw_only=True)
class ClientNote:
    """What the model tells the client and the protocol has no word for; the duplex dialect shows it.

    `event` is a JSON object of at most 64 KiB; another one fails its turn.
    """

    event: Mapping[str, Any]


ModelResult = (
    SpeechResult
    | TextResult
    | UserTranscript
    | ListenResult
    | SegmentEnd
    | TokenUsage
    | TurnEnd
    | ModelFailure
    | FunctionCallResult
    | FunctionCallBegin
    | FunctionCallArguments
    | FunctionCallEnd
    | ModelContext
    | ModelNote
    | ClientNote
)


@frozen
class StageSnapshot:
    """Figures of one output of one stage: `stage` is its id as text, units end the names of the figures."""

    stage: str
    figures: Mapping[str, Any]


@frozen(kw_only=True)
class DeliveredOutput:
    """What a request delivers to its session: the results of one stage output.

    `snapshots` are the figures of all outputs of all stages since the delivery before, this one included.
    """

    request_id: str
    stage_id: int
    results: tuple[ModelResult, ...]
    finished: bool = False
    snapshots: tuple[StageSnapshot, ...] = ()
