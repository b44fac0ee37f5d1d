"""How long things took: which answer belongs to which utterance, the wait for it in its parts, and how fast a
barge-in was.

All waits are measured where the user is: from the last voiced sample of an utterance to the first sample of
its answer that is played, and from the first voiced sample of an interruption to the last sample of the
answer it cuts. The parts of a wait come from the server's own figures where it sends them
(`duplex.request_metrics`, `duplex.stage_metrics`), else from the times at which its events arrived.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from duplex_trio.cli.talk.scenario import AnswerProgress, Said
from duplex_trio.cli.talk.timeline import Answer, Timeline, UserTurn

END_OF_TURN, RECOGNITION, FIRST_CLAUSE, SYNTHESIS, TRANSPORT = (
    "end of turn",
    "recognition",
    "first clause",
    "synthesis",
    "transport",
)
PARTS = (END_OF_TURN, RECOGNITION, FIRST_CLAUSE, SYNTHESIS, TRANSPORT)
"""The parts of a wait, in order: silence that ends the turn (VAD hang-over), recognition, language model up
to its first clause, synthesis of that clause, and whatever lies between the server and the ear."""


@frozen
class Wait:
    """The wait for an answer in ms, and its parts by name; they add up to `total_ms`."""

    total_ms: float
    parts: Mapping[str, float]


@frozen
class Interruption:
    """A barge-in in ms: from the user's first voiced sample to silence, of which `detection_ms` until the
    server said that it hears speech."""

    total_ms: float
    detection_ms: float | None


@frozen
class Exchange:
    """One utterance with what came of it. `interrupted` is the answer that it cut, if it cut one."""

    said: Said
    transcript: str
    answer: Answer | None
    answer_text: str
    heard_text: str
    was_cut: bool
    wait: Wait | None
    interruption: Interruption | None

    @property
    def answered(self) -> bool:
        """Whether there is an answer with content."""
        return self.answer is not None and bool(self.answer_text.strip() or self.answer.audio_ms)


def answer_progress(timeline: Timeline, said: Sequence[Said], now_s: float) -> AnswerProgress:
    """How the answer to the last utterance is coming along; `said` on the clock of the timeline."""
    answer = _answer_to(timeline, said, len(said) - 1) if said else None
    if answer is None:
        return AnswerProgress()
    first_s = timeline.first_heard_s(answer)
    heard_s = first_s if first_s is not None and first_s <= now_s else None
    return AnswerProgress(first_heard_s=heard_s, over_s=timeline.over_s(answer, now_s))


def exchanges(timeline: Timeline, said: Sequence[Said], now_s: float) -> list[Exchange]:
    """Every utterance with its answer and figures, as known at `now_s`; `said` on the clock of the
    timeline."""
    return [_exchange(timeline, said, index, now_s) for index in range(len(said))]


def said_by_turns(timeline: Timeline) -> list[Said]:
    """The user's turns as utterances, for a live microphone of which nothing else is known.

    A turn begins when the server said that it hears speech; its speech ended as long before the turn did as
    the answer's figures say.
    """
    found = []
    for turn in sorted(timeline.turns.values(), key=lambda turn: turn.begin_s):
        end_s = turn.stopped_s if turn.committed_s is None else turn.committed_s
        if turn.started_s is None or end_s is None:
            continue
        answers = (answer for answer in timeline.answers.values() if answer.created_s >= end_s)
        figures = next((answer.request_metrics for answer in answers), {})
        speech_end_s = end_s - (_number(figures, "speech_end_to_commit_ms") or 0.0) / 1000
        found.append(Said("microphone", turn.started_s, turn.started_s, speech_end_s, end_s))
    return found


def _exchange(timeline: Timeline, said: Sequence[Said], index: int, now_s: float) -> Exchange:
    own = said[index]
    answer = _answer_to(timeline, said, index)
    turns = _turns_of(timeline, said, index)
    heard, was_cut = "", False
    if answer is not None:
        cut_s = timeline.cursor.cut_s(answer.response_id)
        was_cut = cut_s is not None
        heard = answer.heard_text(timeline.cursor.played_ms(answer.response_id, now_s)) or answer.written
        if timeline.over_s(answer, now_s) is not None and not was_cut:
            heard = answer.text
    return Exchange(
        said=own,
        transcript=" ".join(turn.text.strip() for turn in turns).strip(),
        answer=answer,
        answer_text=answer.text if answer is not None else "",
        heard_text=heard,
        was_cut=was_cut,
        wait=_wait(timeline, own, answer, turns),
        interruption=_interruption(timeline, said, index, turns),
    )


def _answer_to(timeline: Timeline, said: Sequence[Said], index: int) -> Answer | None:
    """The last answer that began between the end of this utterance and the beginning of the next one."""
    begin_s = said[index].speech_end_s
    end_s = said[index + 1].speech_start_s if index + 1 < len(said) else float("inf")
    own = [answer for answer in timeline.answers.values() if begin_s <= answer.created_s < end_s]
    with_content = [answer for answer in own if answer.first_text_s is not None or answer.audio_ms]
    chosen = with_content or own
    return chosen[-1] if chosen else None


def _turns_of(timeline: Timeline, said: Sequence[Said], index: int) -> list[UserTurn]:
    begin_s = said[index].start_s
    end_s = said[index + 1].start_s if index + 1 < len(said) else float("inf")
    turns = sorted(timeline.turns.values(), key=lambda turn: turn.begin_s)
    return [turn for turn in turns if begin_s <= turn.begin_s < end_s]


def _wait(timeline: Timeline, own: Said, answer: Answer | None, turns: Sequence[UserTurn]) -> Wait | None:
    first_heard_s = timeline.first_heard_s(answer) if answer is not None else None
    if answer is None or first_heard_s is None:
        return None
    total_ms = (first_heard_s - own.speech_end_s) * 1000
    ends_ms = _server_ends_ms(own, answer, turns) or _event_ends_ms(own, answer, turns)
    parts: dict[str, float] = {}
    done_ms = 0.0
    for name, end_ms in zip(PARTS, [*ends_ms, total_ms], strict=True):
        # A part that was over before the one before it (a speculative answer) took no time of its own.
        end_ms = min(max(end_ms, done_ms), max(total_ms, done_ms))
        parts[name] = end_ms - done_ms
        done_ms = end_ms
    return Wait(total_ms, parts)


def _server_ends_ms(own: Said, answer: Answer, turns: Sequence[UserTurn]) -> list[float] | None:
    """When the parts ended, in ms since the end of speech; `None` unless the server says so.

    The server counts from the last sample that it took for speech. That is not quite where the recording's
    speech ends, so its figures are moved to where its commit was seen here.
    """
    figures = answer.request_metrics
    first_audio = _number(figures, "speech_end_to_first_audio_ms")
    commit = _number(figures, "speech_end_to_commit_ms")
    if first_audio is None or commit is None:
        return None
    transcript = _number(figures, "speech_end_to_transcript_ms")
    request = _number(figures, "speech_end_to_request_ms")
    last_stage = max(answer.stage_metrics, default="")
    clause = _number(answer.stage_metrics.get(last_stage, {}), "first_input_ms")
    recognised = commit if transcript is None else transcript
    worded = recognised if request is None or clause is None else request + clause
    seen_s = turns[-1].committed_s if turns else None
    shift = 0.0 if seen_s is None else (seen_s - own.speech_end_s) * 1000 - commit
    return [end + shift for end in (commit, recognised, worded, first_audio)]


def _event_ends_ms(own: Said, answer: Answer, turns: Sequence[UserTurn]) -> list[float]:
    def since_ms(time_s: float | None, default_ms: float) -> float:
        return default_ms if time_s is None else (time_s - own.speech_end_s) * 1000

    last = turns[-1] if turns else None
    stopped = since_ms(last.stopped_s if last else None, 0.0)
    recognised = since_ms(last.transcribed_s if last else None, stopped)
    audio = since_ms(answer.first_audio_s, recognised)
    worded = min(since_ms(answer.first_text_s, audio), audio)
    return [stopped, recognised, worded, audio]


def _interruption(
    timeline: Timeline, said: Sequence[Said], index: int, turns: Sequence[UserTurn]
) -> Interruption | None:
    onset_s = said[index].speech_start_s
    for answer in timeline.answers.values():
        cut_s = timeline.cursor.cut_s(answer.response_id)
        first_heard_s = timeline.first_heard_s(answer)
        if cut_s is None or first_heard_s is None or first_heard_s > onset_s:
            continue
        if onset_s <= cut_s <= said[index].end_s:
            heard = next((turn.started_s for turn in turns if turn.started_s is not None), None)
            detection_ms = None if heard is None else (heard - onset_s) * 1000
            return Interruption((cut_s - onset_s) * 1000, detection_ms)
    return None


def _number(figures: Mapping[str, Any], name: str) -> float | None:
    value = figures.get(name)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
