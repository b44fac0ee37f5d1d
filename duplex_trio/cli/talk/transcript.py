"""The conversation as lines of text: who said what, what of it is still to be heard, and where it was cut.
Pure."""

from __future__ import annotations

from attrs import frozen

from duplex_trio.cli.talk.timeline import Answer, Timeline, UserTurn

YOU, ASSISTANT = "you", "assistant"


@frozen
class Line:
    """One turn of one side.

    Attributes:
        key: of the turn or response, for telling lines apart.
        begin_s: when it began.
        speaker: `YOU` or `ASSISTANT`.
        text: what is certain: a final transcript, or words that have been heard.
        rest: what is not: a transcript that may change, or words that have not been heard (yet).
        cut: whether `rest` will never be heard.
        final: whether nothing of the line changes any more.
    """

    key: str
    begin_s: float
    speaker: str
    text: str
    rest: str
    cut: bool
    final: bool


def lines(timeline: Timeline, now_s: float) -> list[Line]:
    """The lines so far, in order."""
    found = [_user_line(turn) for turn in timeline.turns.values()]
    found += [_answer_line(timeline, answer, now_s) for answer in timeline.answers.values()]
    said = [line for line in found if line.text or line.rest or not line.final]
    return sorted(said, key=lambda line: line.begin_s)


def _user_line(turn: UserTurn) -> Line:
    final = turn.transcript is not None
    text = turn.text.strip()
    return Line(
        key=turn.item_id,
        begin_s=turn.begin_s,
        speaker=YOU,
        text=text if final else "",
        rest="" if final else text,
        cut=False,
        final=final,
    )


def _answer_line(timeline: Timeline, answer: Answer, now_s: float) -> Line:
    heard = answer.heard_text(timeline.cursor.played_ms(answer.response_id, now_s))
    text = answer.text
    over = timeline.over_s(answer, now_s) is not None
    cut = timeline.cursor.cut_s(answer.response_id) is not None
    if answer.written or (over and not cut):
        heard = text
    return Line(
        key=answer.response_id,
        begin_s=answer.created_s,
        speaker=ASSISTANT,
        text=heard.strip(),
        rest=text[len(heard) :].rstrip() if heard else text.strip(),
        cut=cut,
        final=over,
    )
