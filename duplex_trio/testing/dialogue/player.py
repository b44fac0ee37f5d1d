"""Does the steps of a conversation one after the other. The tasks beside it are `run`'s."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence

import trio
import trio.testing

from duplex_trio.testing.dialogue import steps
from duplex_trio.testing.dialogue.account import Account
from duplex_trio.testing.dialogue.caller import Caller
from duplex_trio.testing.dialogue.judge import Judge, Met, Missed, Verdict
from duplex_trio.testing.dialogue.person import FRAME_MS, Person
from duplex_trio.testing.dialogue.timeline import failure
from duplex_trio.testing.dialogue.words import quoted

ACKNOWLEDGE_S = 0.1


class StepError(Exception):
    """A step failed.

    Args:
        number: which.
        missed: what was expected, and what came instead.
    """

    def __init__(self, number: int, missed: Missed) -> None:
        super().__init__(number, missed)
        self.number, self.missed = number, missed


class Player:
    """One conversation that is being held.

    Args:
        planned: the steps.
        caller: the user's side of the session.
        person: whoever speaks.
        timeout_s: how long a step may take that does not say so itself.
        open_microphone: starts the microphone.

    Attributes:
        account: what has happened.
    """

    def __init__(
        self,
        planned: Sequence[steps.Step],
        caller: Caller,
        person: Person,
        timeout_s: float,
        open_microphone: Callable[[], None],
    ) -> None:
        self.account = Account()
        self._steps = planned
        self._caller = caller
        self._person = person
        self._timeout_s = timeout_s
        self._open_microphone = open_microphone
        self._microphone_open = False
        self._judge = Judge(self.account)
        self._exact = isinstance(trio.lowlevel.current_clock(), trio.testing.MockClock)
        self._begin_s = trio.current_time()
        self._news = trio.lowlevel.ParkingLot()
        self._reached = 0

    @property
    def now_ms(self) -> float:
        """Time since the conversation began."""
        return (trio.current_time() - self._begin_s) * 1000

    # ------------------------------------------------------------------ the tasks

    async def listen(self) -> None:
        """Take the session's events."""
        why = await self._caller.listen(self._observe)
        self.account.end(self.now_ms, why)
        self._news.unpark_all()

    async def hear(self) -> None:
        """Tell the session what the user has heard."""
        while self.account.ended is None:
            await trio.sleep(ACKNOWLEDGE_S)
            for ack in self.account.playback.acknowledgments(self.now_ms / 1000):
                if self.account.ended is None:
                    await self._caller.acknowledge(ack)

    async def microphone(self) -> None:
        """Send what the person says, and silence where they say nothing."""
        due_s = trio.current_time()
        while self.account.ended is None:
            await self._caller.append(self._person.frame())
            if not self._person.speaking:
                self._news.unpark_all()
            due_s += FRAME_MS / 1000
            await trio.sleep_until(due_s)

    async def play(self) -> str | None:
        """Do all steps; returns the text of a failure."""
        try:
            for number, step in enumerate(self._steps, 1):
                self._reached = number
                await self._settle()
                await self._do(number, step)
            await self._finish()
        except StepError as failed:
            return self._failure(failed)
        return None

    # ------------------------------------------------------------------ steps

    async def _do(self, number: int, step: steps.Step) -> None:
        self._judge.begin(number, self.now_ms)
        match step:
            case steps.Say():
                await self._say(number, step)
            case steps.Write(text=text):
                self._note(f"writes {quoted(text)}")
                content = [{"type": "input_text", "text": text}]
                item = {"type": "message", "role": "user", "content": content}
                await self._send({"type": "conversation.item.create", "item": item})
                await self._send({"type": "response.create"})
            case steps.Send(message=message, does=does):
                self._note(does)
                await self._send(dict(message))
            case steps.Wait(seconds=seconds):
                self._note(f"waits {seconds:g} s")
                await self._pass_time(seconds)
            case steps.Drop():
                self._caller.drop()
                self.account.connected = False
                self._note("loses the connection")
            case steps.Resume():
                self._caller.resume()
                await self._until_met(number, step)
                self._note("is back")
            case steps.Returns(output=output):
                await self._until_met(number, step)
                call = self._judge.call
                assert call is not None
                self._note(f"{call.name} returns {quoted(output)}")
                item = {"type": "function_call_output", "call_id": call.call_id, "output": output}
                await self._send({"type": "conversation.item.create", "item": item})
                await self._send({"type": "response.create"})
            case steps.Then():
                await self._then(number, step)
            case steps.AfterHearing():
                await self._until_met(number, step)
                self._note("has heard all of it" if step.ms is None else f"has heard {step.ms:g} ms of it")
            case _:
                await self._until_met(number, step)
                self.account.note(self.now_ms, "ok", str(step))

    async def _say(self, number: int, step: steps.Say) -> None:
        if step.over:
            self._judged(number, self._judge.interrupts(self.now_ms))
        self._caller.tell(step.text)
        length_ms = self._person.speak(step.text, step.pcm)
        self.account.said(self.now_ms)
        self._note(f"{'interrupts' if step.over else 'says'} {quoted(step.text)} ({length_ms:.0f} ms)")
        if not self._microphone_open:
            self._microphone_open = True
            self._open_microphone()
        while self._person.speaking and self.account.ended is None:
            await self._news.park()

    async def _then(self, number: int, step: steps.Then) -> None:
        try:
            result = step.function(self.account)
            if inspect.isawaitable(result):
                await result
        except AssertionError as error:
            raise StepError(
                number, Missed(f"{step} passes", str(error) or "it raised AssertionError")
            ) from error
        self.account.note(self.now_ms, "ok", str(step))

    async def _finish(self) -> None:
        """Wait for the end of answers that said what was expected so far, and for what the last step is told."""
        await self._settle()
        with trio.move_on_after(self._timeout_s):
            while self._judge.unfinished() and self.account.ended is None:
                await self._news.park()
                self._check()
        self._check()
        unexpected = self._judge.unexpected()
        if unexpected is not None:
            raise StepError(0, unexpected)

    async def _until_met(self, number: int, step: steps.Step) -> None:
        within_s = self._timeout_s if step.within_s is None else step.within_s
        if isinstance(step, steps.ExpectsSilence):
            within_s = max(within_s, step.seconds + 1)
        deadline_ms = self.now_ms + within_s * 1000
        while True:
            await self._settle()
            self._check()
            verdict = self._judge.look(step, self.now_ms)
            if isinstance(verdict, Met):
                return
            self._judged(number, verdict)
            if self.now_ms >= deadline_ms or self.account.ended is not None:
                raise StepError(number, self._judge.given_up(step, self.now_ms, within_s))
            until_ms = min(deadline_ms, getattr(verdict, "until_ms", math.inf))
            with trio.move_on_at(self._begin_s + until_ms / 1000):
                await self._news.park()

    async def _pass_time(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            while True:
                await self._news.park()
                self._check()

    # ------------------------------------------------------------------ inner workings

    async def _settle(self) -> None:
        """Let all that happens in this moment be over, where the clock can tell: tasks run in any order."""
        if self._exact:
            await trio.testing.wait_all_tasks_blocked()
        else:
            await trio.lowlevel.checkpoint()

    def _observe(self, message: object) -> None:
        assert isinstance(message, dict)
        self.account.observe(message, self.now_ms)
        self._news.unpark_all()

    async def _send(self, message: dict[str, object]) -> None:
        if self.account.ended is None:
            await self._caller.send(message)

    def _note(self, text: str) -> None:
        self.account.note(self.now_ms, "user", text)

    def _check(self) -> None:
        broken = self._judge.broken_promise()
        if broken is not None:
            raise StepError(*broken)

    def _judged(self, number: int, verdict: Verdict) -> None:
        if isinstance(verdict, Missed):
            raise StepError(number, verdict)

    def _failure(self, failed: StepError) -> str:
        number, missed = failed.number, failed.missed
        name = str(self._steps[number - 1]) if number else "the end of the conversation"
        self.account.note(self.now_ms, "FAILED", name)
        return failure(number, self._steps, missed, self.account, self.now_ms, self._reached)
