"""One answer on its way: from the engine's pieces to `TextDelta`s, with the counts and times that go with each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field, frozen

from duplex_trio.stages.remote.pieces import CallWriter, Piece, TokenTotals, read_piece
from duplex_trio.stages.units import TextDelta


@frozen
class MadeDelta:
    """A delta, and the figures about it."""

    delta: TextDelta
    metrics: dict[str, Any]


@define(eq=False)
class RemoteAnswer:
    """One try at one answer.

    The text of each piece is given out at once. The end waits for the counts, which come behind it.

    Args:
        asked_s: when the engine was asked.
        stops: the request's stop strings; they are taken for what ended an answer of an engine that does not tell.

    Attributes:
        over: whether the engine has said all; `end` makes the last delta then.
        ended: whether the text is whole, though counts may follow.
    """

    asked_s: float
    stops: Sequence[str] = ()
    over: bool = False
    totals: TokenTotals = field(factory=TokenTotals)
    _calls: CallWriter = field(factory=CallWriter)
    _reason: str | None = None
    _stopped_by_text: bool = False
    _text_s: float | None = None

    @property
    def ended(self) -> bool:
        """Whether the engine has come to its end."""
        return self._reason is not None

    def take(self, data: str, now_s: float) -> MadeDelta | None:
        """Take the data of one event.

        Raises:
            EngineSaidError: the engine gave up.
            PieceError: it is no piece of an answer.
        """
        piece = read_piece(data, self._calls)
        if piece.totals is not None:
            self.totals = piece.totals
        if piece.finish_reason is not None:
            self._end(piece)
        # Counts that come alone are the last that is told.
        counted = piece.totals is not None and piece.finish_reason is None and not piece.text
        self.over = piece.last or (self.ended and counted)
        if piece.last and not self.ended:
            self._reason = "stop"
        if not piece.text:
            return None
        return MadeDelta(self._delta(piece.text), self._times(now_s))

    def end(self) -> TextDelta:
        """The last delta, with the reason."""
        return self._delta("", finish_reason=self._reason, stopped_by_text=self._stopped_by_text)

    def _end(self, piece: Piece) -> None:
        self._reason = piece.finish_reason
        stopped = piece.stopped_by_text
        self._stopped_by_text = (
            stopped if stopped is not None else self._reason == "stop" and bool(self.stops)
        )

    def _delta(self, text: str, **end: Any) -> TextDelta:
        return TextDelta(
            text=text,
            prompt_tokens=self.totals.prompt,
            cached_tokens=self.totals.cached,
            completion_tokens=self.totals.completion,
            **end,
        )

    def _times(self, now_s: float) -> dict[str, Any]:
        before_s, self._text_s = self._text_s, now_s
        if before_s is None:
            return {"vllm_ttft_ms": (now_s - self.asked_s) * 1000}
        waited_ms = (now_s - before_s) * 1000
        return {"vllm_itls_ms": (waited_ms,), "vllm_tpot_ms": waited_ms}
