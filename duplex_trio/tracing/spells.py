"""When each stage worked for a response: told by the stage request as it happens, read when the response ends.

Times are seconds of the caller's clock. A request that goes through several stages makes one spell for each of them. A
model that owns its turns answers unit after unit in one request; its spells begin with the unit that made it
speak, so that what it did while it only listened is in none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from attrs import define, field

Outcome = Literal["finished", "aborted", "failed"]
"""How a stage's part ended: by itself, because nobody wanted the rest, or by a fault."""


@define
class StageSpell:
    """The work of one stage for one response.

    Attributes:
        stage: the stage's name.
        begun_s: when the first unit went to it.
        first_output_s: when its first output came; None if none did.
        last_s: when the last thing happened in it.
        ended_s: when it was over; None while it goes on.
        outcome: how it ended; None while it goes on.
        error: the code of the fault.
        outputs: outputs so far.
        input_tokens: tokens read, where the stage tells.
        output_tokens: tokens made, where the stage tells.
        audio_s: seconds of sound made.
    """

    stage: str
    begun_s: float
    first_output_s: float | None = None
    last_s: float = 0.0
    ended_s: float | None = None
    outcome: Outcome | None = None
    error: str | None = None
    outputs: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    audio_s: float = 0.0


@define(eq=False)
class StageSpells:
    """The spells of one stage request, in the order in which they began.

    Args:
        outlives: the request makes one response after another, and listens in between.
    """

    _outlives: bool = False
    _answering: bool = field(init=False)
    _open: dict[str, StageSpell] = field(factory=dict)
    _closed: list[StageSpell] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        """A request of one response is made for that."""
        self._answering = not self._outlives

    def submitted(self, stage: str, now_s: float) -> None:
        """A unit goes to a stage."""
        if stage not in self._open or not self._answering:
            self._open[stage] = StageSpell(stage, now_s, last_s=now_s)

    def output(self, stage: str, figures: Mapping[str, Any], now_s: float, *, finished: bool) -> None:
        """A stage made an output; `figures` are those of `StageFigures`."""
        spell = self._open.get(stage)
        if spell is None:
            return
        spell.outputs += 1
        spell.last_s = now_s
        if spell.first_output_s is None:
            spell.first_output_s = now_s
        spell.input_tokens += figures.get("num_tokens_in", 0)
        spell.output_tokens += figures.get("num_tokens_out", 0)
        spell.audio_s += figures.get("audio_duration_s", 0.0)
        if finished:
            self._close(spell, now_s, "finished")

    def failed(self, stage: str, code: str, now_s: float) -> None:
        """A stage failed, or what it gave did."""
        spell = self._open.get(stage)
        if spell is not None:
            spell.error = code
            self._close(spell, now_s, "failed")

    def over(self, outcome: Outcome, now_s: float) -> None:
        """The request is over, and with it what every stage still did for it."""
        for spell in list(self._open.values()):
            self._close(spell, now_s, outcome)

    def begin_answer(self) -> None:
        """What the stages do from their latest units on is for a response."""
        self._answering = True

    def take(self) -> Iterable[StageSpell]:
        """Hand out the spells for the response that ends, each once, in the order in which they began."""
        taken = [*self._closed, *self._open.values()]
        self._closed.clear()
        if self._outlives:
            self._open.clear()
            self._answering = False
        return sorted(taken, key=lambda spell: spell.begun_s)

    def _close(self, spell: StageSpell, now_s: float, outcome: Outcome) -> None:
        spell.ended_s = spell.last_s = now_s
        spell.outcome = outcome
        del self._open[spell.stage]
        self._closed.append(spell)
