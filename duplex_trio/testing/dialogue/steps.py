"""The steps of a conversation as data: what the user does, and what is expected of the session.

`str()` of a step is the call that makes it, so that one that fails can be named.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from attrs import Factory, field, frozen
from attrs.validators import ge, optional

from duplex_trio.protocol.sound import Pcm
from duplex_trio.testing.dialogue.words import Words, given, quoted

if TYPE_CHECKING:
    from duplex_trio.testing.dialogue.account import Account


@frozen(kw_only=True)
class Step:
    """One step.

    Attributes:
        within_s: how long it may take; what `play` says otherwise.
    """

    within_s: float | None = field(default=None, validator=optional(ge(0)))


# ------------------------------------------------------------------ what the user does


@frozen(kw_only=True)
class Say(Step):
    """The user speaks, and is silent then.

    Attributes:
        text: the words.
        pcm: their sound at 24 kHz, instead of what the voice makes of them.
        over: whether that is to be an interruption.
    """

    text: str
    pcm: Pcm | None = field(default=None, eq=False, repr=False)
    over: bool = False

    def __str__(self) -> str:
        return f"{'interrupt' if self.over else 'say'}({quoted(self.text)})"


@frozen(kw_only=True)
class Write(Step):
    """The user types a message and wants an answer."""

    text: str

    def __str__(self) -> str:
        return f"write({quoted(self.text)})"


@frozen(kw_only=True)
class AfterHearing(Step):
    """The user listens; to the end of the answer where `ms` is None."""

    ms: float | None = field(validator=optional(ge(0)))

    def __str__(self) -> str:
        return "after_hearing()" if self.ms is None else f"after_hearing(ms={self.ms:g})"


@frozen(kw_only=True)
class Wait(Step):
    """Time passes."""

    seconds: float = field(validator=ge(0))

    def __str__(self) -> str:
        return f"wait({self.seconds:g})"


@frozen(kw_only=True)
class Drop(Step):
    """The network breaks."""

    def __str__(self) -> str:
        return "drop()"


@frozen(kw_only=True)
class Resume(Step):
    """The network is there again, and the client comes back."""

    def __str__(self) -> str:
        return "resume()"


@frozen(kw_only=True)
class Returns(Step):
    """The output of the function that was called last, and the wish to hear more."""

    output: str

    def __str__(self) -> str:
        return f"returns({quoted(self.output)})"


@frozen(kw_only=True)
class Send(Step):
    """Any message of the wire.

    Attributes:
        message: its JSON object.
        call: how the step is written.
        does: what it does, for the timeline.
    """

    message: Mapping[str, Any]
    call: str
    does: str

    def __str__(self) -> str:
        return self.call


@frozen(kw_only=True)
class Then(Step):
    """Whatever a function of the test does or checks."""

    function: Callable[[Account], object | Awaitable[object]]

    def __str__(self) -> str:
        return f"then({getattr(self.function, '__name__', '...')})"


# ------------------------------------------------------------------ what is expected


@frozen(kw_only=True)
class ExpectsReply(Step):
    """The assistant says these words in an answer that no step before has spoken of."""

    words: Words

    def __str__(self) -> str:
        return f"expects_reply({self.words.arguments})"


@frozen(kw_only=True)
class ExpectsTranscript(Step):
    """What the user said was understood as these words."""

    words: Words

    def __str__(self) -> str:
        return f"expects_transcript({self.words.arguments})"


@frozen(kw_only=True)
class ExpectsCancelled(Step):
    """The answer is cut off."""

    def __str__(self) -> str:
        return "expects_cancelled()"


@frozen(kw_only=True)
class ExpectsSilence(Step):
    """The assistant says nothing for so long, from now on."""

    seconds: float = field(validator=ge(0))

    def __str__(self) -> str:
        return f"expects_silence({self.seconds:g})"


@frozen(kw_only=True)
class ExpectsCall(Step):
    """The assistant calls a function, with these arguments among others."""

    name: str
    arguments: Mapping[str, Any] = Factory(dict)

    def __str__(self) -> str:
        return f"expects_call({', '.join(filter(None, [quoted(self.name), given(self.arguments)]))})"


@frozen(kw_only=True)
class ExpectsError(Step):
    """The server refuses something."""

    code: str

    def __str__(self) -> str:
        return f"expects_error({quoted(self.code)})"


@frozen(kw_only=True)
class ExpectsEvent(Step):
    """An event comes whose fields are these, among others."""

    type: str
    fields: Mapping[str, Any] = Factory(dict)

    def __str__(self) -> str:
        return f"expects_event({', '.join(filter(None, [quoted(self.type), given(self.fields)]))})"


@frozen(kw_only=True)
class ExpectsClosed(Step):
    """The session is over."""

    def __str__(self) -> str:
        return "expects_closed()"
