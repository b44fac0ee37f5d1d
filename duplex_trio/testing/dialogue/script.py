"""How a conversation is written down: `script()`, and one call for each step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Self

from attrs import evolve, frozen

from duplex_trio.protocol.sound import Pcm
from duplex_trio.testing.dialogue import steps as kinds
from duplex_trio.testing.dialogue.account import Account
from duplex_trio.testing.dialogue.caller import Session, caller_of
from duplex_trio.testing.dialogue.errors import ConversationError
from duplex_trio.testing.dialogue.person import Voice, tone
from duplex_trio.testing.dialogue.run import run_conversation
from duplex_trio.testing.dialogue.words import QUOTED_MAX, Wanted, Words, clipped, given, quoted

TIMEOUT_S = 10.0


def script(*parts: ConversationScript) -> ConversationScript:
    """A conversation without any step yet, or made of others, one after the other."""
    return ConversationScript(steps=tuple(step for part in parts for step in part.steps))


@frozen(kw_only=True)
class ConversationScript:
    """A conversation as the user plans it, played on a session by `play`.

    Every call returns a longer conversation and leaves this one as it is, so that beginnings can be shared.
    A step begins when the one before it is over. The microphone is open from the first word on: between what
    the user says there is silence, as real time goes.

    Attributes:
        steps: the steps.
    """

    steps: tuple[kinds.Step, ...] = ()

    # ------------------------------------------------------------------ what the user does

    def say(self, text: str, *, pcm: Pcm | None = None) -> Self:
        """The user speaks; the step is over with the last word.

        Args:
            text: the words. A scripted model that `open_session` or `open_client` made hears them; any other
                hears the sound.
            pcm: their sound, float32 at 24 kHz; otherwise `play`'s voice makes it.
        """
        return self._and(kinds.Say(text=text, pcm=pcm))

    def interrupt(self, text: str, *, pcm: Pcm | None = None) -> Self:
        """The same while the assistant speaks (barge-in); fails where nobody speaks."""
        return self._and(kinds.Say(text=text, pcm=pcm, over=True))

    def write(self, text: str) -> Self:
        """The user types a message and wants an answer."""
        return self._and(kinds.Write(text=text))

    def after_hearing(self, ms: float | None = None) -> Self:
        """The user listens until they have heard so many milliseconds of the answer, or all of it."""
        return self._and(kinds.AfterHearing(ms=ms))

    def wait(self, seconds: float) -> Self:
        """Nothing is done for so long."""
        return self._and(kinds.Wait(seconds=seconds))

    def commit(self, *, respond: bool = True) -> Self:
        """The user ends their turn by hand (push to talk), and wants an answer."""
        message = {"type": "input_audio_buffer.commit", "response_create": respond}
        call = "commit()" if respond else "commit(respond=False)"
        return self._and(kinds.Send(message=message, call=call, does="ends the turn by hand"))

    def cancel(self) -> Self:
        """The user presses a stop button: `response.cancel`."""
        return self._and(kinds.Send(message={"type": "response.cancel"}, call="cancel()", does="cancels"))

    def update(self, **session: Any) -> Self:
        """Change fields of the session object: `session.update`."""
        message = {"type": "session.update", "session": session}
        fields = clipped(given(session), QUOTED_MAX)
        return self._and(kinds.Send(message=message, call=f"update({fields})", does=f"updates {fields}"))

    def send(self, message: dict[str, Any]) -> Self:
        """Send any message of the wire."""
        kind = str(message.get("type"))
        return self._and(kinds.Send(message=message, call=f"send({quoted(kind)})", does=f"sends {kind}"))

    def returns(self, output: str) -> Self:
        """Give the output of the function that `expects_call` expected, and ask for more."""
        return self._and(kinds.Returns(output=output))

    def drop(self) -> Self:
        """The network breaks, without a close frame, and stays broken."""
        return self._and(kinds.Drop())

    def resume(self) -> Self:
        """The network works again; the step is over when the session goes on."""
        return self._and(kinds.Resume())

    def then(self, function: Callable[[Account], object | Awaitable[object]]) -> Self:
        """Call a function of the test, which may be async, with the account so far."""
        return self._and(kinds.Then(function=function))

    # ------------------------------------------------------------------ what is expected

    def expects_reply(self, wanted: Wanted = None, *, containing: str | None = None) -> Self:
        """The assistant answers with these words.

        The step is over as soon as they are written down, which is when their sound begins: what comes next may
        interrupt it. That the answer says nothing else is still seen to.

        Args:
            wanted: all that it says; or a compiled pattern that is found in it, or a function that is true of it.
                Anything, if nothing is given.
            containing: a part of it, in whatever case.
        """
        return self._and(kinds.ExpectsReply(words=Words.of(wanted, containing)))

    def expects_transcript(self, wanted: Wanted = None, *, containing: str | None = None) -> Self:
        """The user's turn is understood as these words; see `expects_reply`."""
        return self._and(kinds.ExpectsTranscript(words=Words.of(wanted, containing)))

    def expects_cancelled(self) -> Self:
        """The answer is cut off: cancelled while it was made, or before it was heard to its end."""
        return self._and(kinds.ExpectsCancelled())

    def expects_silence(self, seconds: float) -> Self:
        """The assistant says nothing for so long."""
        return self._and(kinds.ExpectsSilence(seconds=seconds))

    def expects_call(self, name: str, **arguments: Any) -> Self:
        """The assistant calls a function; it may have more arguments than these."""
        return self._and(kinds.ExpectsCall(name=name, arguments=arguments))

    def expects_error(self, code: str) -> Self:
        """The server refuses something. An error that no step expects fails the conversation at its end."""
        return self._and(kinds.ExpectsError(code=code))

    def expects_event(self, type: str, **fields: Any) -> Self:
        """An event comes, behind the one that such a step expected last, with these fields among others."""
        return self._and(kinds.ExpectsEvent(type=type, fields=fields))

    def expects_closed(self) -> Self:
        """The session is over."""
        return self._and(kinds.ExpectsClosed())

    def within(self, seconds: float) -> Self:
        """How long the last step may take.

        Raises:
            ValueError: there is none, or the time is negative.
        """
        if not self.steps:
            raise ValueError("within() is said of the step before it, and there is none")
        return evolve(self, steps=(*self.steps[:-1], evolve(self.steps[-1], within_s=seconds)))

    # ------------------------------------------------------------------ playing it

    async def play(self, session: Session, *, voice: Voice = tone, timeout_s: float = TIMEOUT_S) -> Account:
        """Hold the conversation, and return the account of it.

        May be called again on the same session: what is said then is a new conversation as far as the steps
        are concerned, which know of nothing that was said before.

        Args:
            session: what `open_session` or `open_client` gave, or any client that is open. `drop` needs a
                connection: that of the former two, or a `BreakableClient` to any server.
            voice: makes the sound of what is said: float32 at 24 kHz of a text. A tone by default, which does for
                scripted models.
            timeout_s: how long each expectation may take, in seconds of Trio's clock.

        Raises:
            ConversationError: a step failed. Its text is a timeline of what happened.
            CannotDropError: `drop` was called for, and there is no connection.
        """
        __tracebackhide__ = True
        account, failed = await run_conversation(self.steps, caller_of(session), voice, timeout_s)
        if failed is not None:
            raise ConversationError(failed, account) from None
        return account

    def _and(self, step: kinds.Step) -> Self:
        return evolve(self, steps=(*self.steps, step))

    def __str__(self) -> str:
        return ".".join(["script()", *map(str, self.steps)])
