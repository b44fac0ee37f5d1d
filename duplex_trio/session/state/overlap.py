"""What to do with sound that comes while the assistant speaks: one decision table, first matching row wins.

Owns the table and nothing else: `decide_overlap` is a pure function from a frozen situation to a frozen
decision. Who asks, and who carries the decision out, is the session's `overlap` module; whether sound is
speech was decided before (`speech_verdict`, or the detector).

Two places read the table for appends of any length, though it was made for appends that are an utterance
each. A client's `listen` keeps sound whose length it does not state, because how long an utterance gets
cannot be told from a piece of it; a commit of too little of it is an acknowledgement anyway. And nothing is
deferred for a model that owns its turns, because it hears all the time and decides for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

from attrs import frozen

from duplex_trio.protocol.duplex import AppendHints
from duplex_trio.protocol.duplex.session import OverlapPolicy
from duplex_trio.session.state.speech_verdict import acknowledges

OverlapAction = Literal["listen", "barge_in", "drop"]
OverlapCancelReason = Literal["turn_detected", "barge_in"]


@frozen(kw_only=True)
class OverlapSituation:
    """Sound during a response, and everything that decides what becomes of it. Times are ms of sound.

    Attributes:
        policy: the session's.
        supports_barge_in: whether the model can be interrupted.
        owns_turns: whether the model decides itself when to speak.
        hints: what the client says about the sound.
        speech: the verdict about it.
        vad_started: whether the server's detector found the start of speech in it; None without a detector.
        vision_follow: it carries images for a model that needs no sound with them.
        duration_ms: its length, as the client states it, else measured.
        overlap_speech_ms: speech over the response before it.
        short_ack_ms: up to this long, speech may be an acknowledgement.
        barge_in_ms: from here on, speech takes the turn, where length decides.
    """

    policy: OverlapPolicy
    supports_barge_in: bool
    owns_turns: bool
    hints: AppendHints
    speech: bool
    vad_started: bool | None = None
    vision_follow: bool = False
    duration_ms: float
    overlap_speech_ms: float
    short_ack_ms: float
    barge_in_ms: float

    @property
    def total_ms(self) -> float:
        """Speech over the response with this sound."""
        return self.overlap_speech_ms + self.duration_ms


@frozen(kw_only=True)
class OverlapRuling:
    """What becomes of the sound.

    Attributes:
        action: whether the response goes on and the sound is heard, the response is cut, or the sound is not
        heard.
        reason: which rule decided.
        buffer: whether the sound enters the input.
        defer: whether a model that answers turns hears of it only behind the response.
        force_listen: whether a model that owns its turns is asked to listen.
        cancel_reason: why the response is cut, if it is.
        duration_ms: length of the sound.
        overlap_speech_ms: speech over the response from here on.
        refused: the client asked for a barge-in that the model does not know.
    """

    action: OverlapAction
    reason: str
    buffer: bool
    defer: bool = False
    force_listen: bool = False
    cancel_reason: OverlapCancelReason | None = None
    duration_ms: float
    overlap_speech_ms: float
    refused: bool = False


@frozen
class OverlapRow:
    """One row of the table."""

    number: str
    applies: Callable[[OverlapSituation], bool]
    decide: Callable[[OverlapSituation], OverlapRuling]


def decide_overlap(situation: OverlapSituation) -> OverlapRuling:
    """The decision of the first row that applies; the last one always does."""
    for row in ROWS:
        if row.applies(situation):
            return row.decide(situation)
    raise AssertionError("the last row applies to everything")


Count = Literal["keep", "reset", "add", "add_speech"]
"""What a row does to the speech over the response."""


def _counted(s: OverlapSituation, count: Count) -> float:
    if count == "reset":
        return 0.0
    adds = count == "add" or (count == "add_speech" and s.speech)
    return s.total_ms if adds else s.overlap_speech_ms


def _listen(
    s: OverlapSituation,
    reason: str,
    *,
    buffer: bool,
    count: Count,
    defer: bool = False,
    **more: Any,
) -> OverlapRuling:
    return OverlapRuling(
        action="listen",
        reason=reason,
        buffer=buffer,
        defer=defer and not s.owns_turns,
        duration_ms=s.duration_ms,
        overlap_speech_ms=_counted(s, count),
        **more,
    )


def _drop(s: OverlapSituation, reason: str, *, count: Count) -> OverlapRuling:
    return OverlapRuling(
        action="drop",
        reason=reason,
        buffer=False,
        duration_ms=s.duration_ms,
        overlap_speech_ms=_counted(s, count),
    )


def _barge_in(s: OverlapSituation, reason: str, *, count: Count, detected: bool = False) -> OverlapRuling:
    return OverlapRuling(
        action="barge_in",
        reason=reason,
        buffer=True,
        cancel_reason="turn_detected" if detected else "barge_in",
        duration_ms=s.duration_ms,
        overlap_speech_ms=_counted(s, count),
    )


def _asked_unsupported(s: OverlapSituation) -> OverlapRuling:
    return _listen(s, "barge_in_unsupported", buffer=s.speech, defer=True, count="add_speech", refused=True)


def _asked_to_listen(s: OverlapSituation) -> OverlapRuling:
    word = (s.hints.overlap_action or "").strip().lower()
    long_enough = s.hints.duration_ms is None or s.duration_ms > s.short_ack_ms
    return _listen(
        s,
        "client_overlap_action",
        buffer=word == "listen" and s.speech and long_enough,
        defer=True,
        count="reset",
    )


def _speech_cuts(s: OverlapSituation) -> OverlapRuling:
    detected = s.vad_started is True
    if detected:
        reason = "server_vad_speech_started"
    else:
        reason = "barge_in_on_speech" if s.owns_turns else "policy_barge_in_on_speech"
    return _barge_in(s, reason, count="add", detected=detected)


def _long_speech(s: OverlapSituation) -> OverlapRuling:
    if s.supports_barge_in:
        return _barge_in(s, "long_overlap_speech", count="add")
    return _listen(s, "long_overlap_speech", buffer=True, defer=True, count="add")


ROWS: Final[Sequence[OverlapRow]] = (
    OverlapRow("1", lambda s: not s.supports_barge_in and s.hints.asks_barge_in, _asked_unsupported),
    OverlapRow(
        "2",
        lambda s: s.hints.overlap_intent == "barge_in",
        lambda s: _barge_in(s, "client_overlap_action", count="keep"),
    ),
    OverlapRow("3", lambda s: s.hints.overlap_intent == "listen", _asked_to_listen),
    OverlapRow(
        "4",
        lambda s: s.hints.overlap_intent == "drop",
        lambda s: _drop(s, "client_overlap_action", count="reset"),
    ),
    OverlapRow(
        "5", lambda s: s.hints.force_barge_in, lambda s: _barge_in(s, "client_force_barge_in", count="keep")
    ),
    OverlapRow(
        "6a",
        lambda s: (
            s.owns_turns
            and s.supports_barge_in
            and s.speech
            and s.policy == "barge_in_on_speech"
            and s.vad_started is not False
        ),
        _speech_cuts,
    ),
    OverlapRow(
        "6b",
        lambda s: s.owns_turns,
        lambda s: _listen(
            s,
            "auto_response_continuous",
            buffer=True,
            count="add_speech",
            force_listen=s.hints.force_listen,
        ),
    ),
    OverlapRow(
        "7",
        lambda s: s.hints.force_listen,
        lambda s: _listen(s, "client_force_listen", buffer=s.speech, defer=True, count="reset"),
    ),
    OverlapRow(
        "8",
        lambda s: not s.speech and s.vision_follow,
        lambda s: _listen(s, "vision_follow", buffer=True, count="keep"),
    ),
    OverlapRow("9", lambda s: not s.speech, lambda s: _drop(s, "silence_or_noise", count="keep")),
    OverlapRow(
        "10",
        lambda s: acknowledges(s.hints.transcript),
        lambda s: _listen(s, "short_ack_transcript", buffer=False, defer=True, count="reset"),
    ),
    OverlapRow(
        "11",
        lambda s: s.policy == "listen_only",
        lambda s: _listen(s, "policy_listen_only", buffer=True, defer=True, count="add"),
    ),
    OverlapRow(
        "12",
        lambda s: s.policy == "barge_in_on_speech" and not s.supports_barge_in,
        lambda s: _listen(s, "barge_in_unsupported", buffer=True, defer=True, count="add"),
    ),
    OverlapRow(
        "13",
        lambda s: s.policy == "barge_in_on_speech" and s.vad_started is False,
        lambda s: _listen(s, "server_vad_utterance_active", buffer=True, count="add", force_listen=True),
    ),
    OverlapRow("14", lambda s: s.policy == "barge_in_on_speech", _speech_cuts),
    OverlapRow(
        "15",
        lambda s: s.duration_ms <= s.short_ack_ms and s.total_ms <= s.short_ack_ms,
        lambda s: _listen(s, "short_ack", buffer=True, defer=True, count="add"),
    ),
    OverlapRow("16", lambda s: s.total_ms >= s.barge_in_ms, _long_speech),
    OverlapRow(
        "17",
        lambda s: True,
        lambda s: _listen(s, "accumulating_overlap_speech", buffer=True, defer=True, count="add"),
    ),
)
"""The table, in order.

Rows 15 to 17 are the policy `by_duration`, by which only the length of speech decides.
"""
