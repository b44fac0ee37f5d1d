"""One answer of the cascade on its way from the language model: what is written, spoken and called of it.

Takes the model's text as it comes and gives, in order, what the client is told at once and what is to be
spoken. A call behind words that are still to be spoken waits for them: an empty clause goes through synthesis
behind the words, and what comes of it says that all before it is sound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from attrs import define, field, frozen

from duplex_trio.models.calling.watch import CallResult, CallWatch
from duplex_trio.models.cascade.clauses import ClauseSplitter
from duplex_trio.models.cascade.speech_text import speakable
from duplex_trio.pipelines.requests import TurnInput
from duplex_trio.pipelines.results import ModelResult, SpeechResult, TextResult, TokenUsage, TurnEnd
from duplex_trio.stages.units import Clause, SpeechChunk, TextDelta


@define
class TokenCount:
    """The tokens of an answer, over all requests that it took."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0
    _before: tuple[int, int, int] = (0, 0, 0)

    def note(self, delta: TextDelta) -> None:
        """Keep the totals so far of the request, which every delta carries."""
        prompt, cached, completion = self._before
        self.prompt = prompt + delta.prompt_tokens
        self.cached = cached + delta.cached_tokens
        self.completion = completion + delta.completion_tokens

    def begin_again(self) -> None:
        """Another request adds to what was counted."""
        self._before = (self.prompt, self.cached, self.completion)


@frozen(kw_only=True)
class Spoken:
    """A piece of an answer: what the client is told now, what is to be spoken, and whether that is all of it.

    Where something was to be spoken, the last of the clauses ends it.
    """

    results: Sequence[ModelResult] = ()
    clauses: Sequence[Clause] = ()
    over: bool = False


@define(eq=False)
class Answer:
    """One answer.

    Args:
        turn: what is answered.
        voice: the voice that speaks it.
        sentences_max: most sentences that are spoken; None for no such limit.
        watch: finds the calls in it; None if there is nothing to call.

    Attributes:
        tokens: what it took.
        finish_reason: why the model came to its end.
        retried: whether the model has been told of a fault.
        spoke: whether any of it goes through synthesis.
    """

    turn: TurnInput
    voice: str | None = None
    sentences_max: int | None = None
    watch: CallWatch | None = None
    tokens: TokenCount = field(factory=TokenCount)
    finish_reason: str = "stop"
    retried: bool = False
    spoke: bool = field(default=False, init=False)
    _clauses: ClauseSplitter = field(factory=ClauseSplitter, init=False)
    _sentences: int = field(default=0, init=False)
    _over: bool = field(default=False, init=False)
    _waiting: deque[CallResult] = field(factory=deque, init=False)

    @property
    def fault(self) -> str | None:
        """What was wrong with a call, in words for the model; nothing for an answer that is over without it."""
        return self.watch.fault if self.watch is not None and not self._over else None

    @property
    def usage(self) -> TokenUsage | None:
        """The totals so far; None before the language model has read anything."""
        tokens = self.tokens
        if not tokens.prompt and not tokens.completion:
            return None
        return TokenUsage(
            input_tokens=tokens.prompt, cached_tokens=tokens.cached, output_tokens=tokens.completion
        )

    def end(self) -> TurnEnd:
        """The end of the turn with its totals."""
        return TurnEnd(
            finish_reason=self.finish_reason,
            input_tokens=self.tokens.prompt,
            cached_tokens=self.tokens.cached,
            output_tokens=self.tokens.completion,
        )

    def write(self, delta: TextDelta) -> Spoken:
        """The language model wrote more.

        Nothing comes of what it writes when the answer is over already, as it may be before the model is.
        """
        if self._over:
            return Spoken(over=True)
        self.tokens.note(delta)
        told = self._told(delta)
        reason = delta.finish_reason
        if self.fault is None:
            self._over = reason is not None or (self.watch is not None and self.watch.over)
            self.finish_reason = reason or self.finish_reason
        if "audio" in self.turn.modalities:
            return self._speak(told)
        return Spoken(results=[_shown(piece) for piece in told], over=self._over)

    def speak(self, chunk: SpeechChunk) -> list[ModelResult]:
        """Synthesis made more sound, or came to where a call waits."""
        if not len(chunk.pcm) and not chunk.text:
            return [self._waiting.popleft()] if self._waiting else []
        return [SpeechResult(pcm=chunk.pcm, sample_rate_hz=chunk.sample_rate_hz, text=chunk.text)]

    def begin_again(self, watch: CallWatch | None) -> None:
        """Another request of the language model goes on with the answer."""
        self.retried, self.watch = True, watch
        self.tokens.begin_again()

    def _told(self, delta: TextDelta) -> list[str | CallResult]:
        if self.watch is None:
            return [delta.text] if delta.text else []
        told = self.watch.feed(delta.text)
        if delta.finish_reason is not None:
            told += self.watch.flush(cut=delta.finish_reason == "length", stopped=delta.stopped_by_text)
        return told

    def _speak(self, told: Sequence[str | CallResult]) -> Spoken:
        results: list[ModelResult] = []
        clauses: list[Clause] = []
        for piece in told:
            if isinstance(piece, str):
                clauses += self._spoken(self._clauses.feed(piece))
                continue
            clauses += self._spoken(self._clauses.flush())
            if self.spoke:
                self._waiting.append(piece)
                clauses.append(Clause(text=""))
            else:
                results.append(piece)
        if self._over:
            clauses += self._spoken(self._clauses.flush())
        self._over |= self._said_enough
        if self._over and self.spoke and not clauses:
            clauses.append(Clause(text=""))
        return Spoken(results=results, clauses=clauses, over=self._over)

    @property
    def _said_enough(self) -> bool:
        most = self.sentences_max
        return most is not None and self.turn.max_output_tokens is None and self._sentences >= most

    def _spoken(self, texts: Sequence[str]) -> list[Clause]:
        clauses: list[Clause] = []
        for text in filter(None, map(speakable, texts)):
            if self._said_enough:
                break
            clauses.append(Clause(text=text, voice=self.voice, speed=self.turn.speed))
            self.spoke = True
            self._sentences += text.rstrip("\"')").endswith((".", "!", "?"))
        return clauses


def _shown(piece: str | CallResult) -> ModelResult:
    return TextResult(text=piece) if isinstance(piece, str) else piece
