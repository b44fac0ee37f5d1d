"""The overlap table row by row, and that the first row that applies decides about everything."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.protocol.duplex import AppendHints
from duplex_trio.session.state.overlap import (
    ROWS,
    OverlapRuling,
    OverlapSituation,
    decide_overlap,
)

SHORT_MS, LONG_MS = 700.0, 1200.0


def situation(**values: Any) -> OverlapSituation:
    """400 ms of speech over the response of a model that can be interrupted, behind 100 ms of it before."""
    hints = {
        name: values.pop(name)
        for name in list(values)
        if hasattr(AppendHints(), name) and name != "duration_ms"
    }
    if "stated_ms" in values:
        hints["duration_ms"] = values["duration_ms"] = values.pop("stated_ms")
    standard: dict[str, Any] = {
        "policy": "listen_only",
        "supports_barge_in": True,
        "owns_turns": False,
        "speech": True,
        "duration_ms": 400.0,
        "overlap_speech_ms": 100.0,
        "short_ack_ms": SHORT_MS,
        "barge_in_ms": LONG_MS,
    }
    return OverlapSituation(hints=AppendHints(**hints), **{**standard, **values})


def ruling(**values: Any) -> tuple[str, str, bool, bool, float]:
    """Action, reason, whether the sound is buffered, whether it is deferred, and the speech over the response."""
    made = decide_overlap(situation(**values))
    return made.action, made.reason, made.buffer, made.defer, made.overlap_speech_ms


NO_BARGE_IN = {"supports_barge_in": False}
NATIVE = {"owns_turns": True}
CUTS = {"policy": "barge_in_on_speech"}


@pytest.mark.parametrize("asks", [{"overlap_action": "barge_in"}, {"force_barge_in": True}])
def test_row_1(asks: dict[str, Any]) -> None:
    """A barge-in that the model does not know: refused, and listened to."""
    listened = ("listen", "barge_in_unsupported", True, True, 500.0)
    assert ruling(**NO_BARGE_IN, **asks) == listened
    assert ruling(**NO_BARGE_IN, **asks, speech=False) == (
        "listen",
        "barge_in_unsupported",
        False,
        True,
        100.0,
    )
    assert decide_overlap(situation(**NO_BARGE_IN, **asks)).refused
    assert ruling(**NO_BARGE_IN, **NATIVE, **asks) == ("listen", "barge_in_unsupported", True, False, 500.0)


@pytest.mark.parametrize("word", ["barge_in", "interrupt", "cancel", " Cancel "])
@pytest.mark.parametrize("speech", [False, True])
def test_row_2(word: str, speech: bool) -> None:
    """The client says to cut it."""
    made = decide_overlap(situation(overlap_action=word, speech=speech, force_listen=True))
    assert (made.action, made.reason, made.buffer) == ("barge_in", "client_overlap_action", True)
    assert made.cancel_reason == "barge_in"


@pytest.mark.parametrize("word", ["listen", "continue", "continue_output", "ack"])
def test_row_3(word: str) -> None:
    """The client says to go on: only what it says to listen to is kept, if it is speech and long enough."""
    kept = word == "listen"
    assert ruling(overlap_action=word) == ("listen", "client_overlap_action", kept, True, 0.0)
    assert ruling(overlap_action=word, speech=False)[2] is False
    assert ruling(overlap_action=word, stated_ms=700.0)[2] is False
    assert ruling(overlap_action=word, stated_ms=701.0)[2] is kept
    assert ruling(overlap_action=word, **NATIVE)[3] is False


@pytest.mark.parametrize("word", ["drop", "ignore", "silence"])
@pytest.mark.parametrize("more", [{}, NATIVE, {"force_barge_in": True}])
def test_row_4(word: str, more: dict[str, Any]) -> None:
    """The client says that it is nothing."""
    assert ruling(overlap_action=word, **more) == ("drop", "client_overlap_action", False, False, 0.0)


@pytest.mark.parametrize(
    "more", [{}, NATIVE, {"speech": False}, {"force_listen": True}, {"overlap_action": "what"}]
)
def test_row_5(more: dict[str, Any]) -> None:
    """The client forces a barge-in."""
    made = decide_overlap(situation(force_barge_in=True, **more))
    assert (made.action, made.reason, made.cancel_reason) == ("barge_in", "client_force_barge_in", "barge_in")


def test_row_6a() -> None:
    """A model that owns its turns is cut by speech only where the policy says so."""
    detected = decide_overlap(situation(**NATIVE, **CUTS, vad_started=True))
    assert (detected.action, detected.reason) == ("barge_in", "server_vad_speech_started")
    assert (detected.cancel_reason, detected.overlap_speech_ms) == ("turn_detected", 500.0)
    loud = decide_overlap(situation(**NATIVE, **CUTS))
    assert (loud.action, loud.reason, loud.cancel_reason) == ("barge_in", "barge_in_on_speech", "barge_in")


@pytest.mark.parametrize(
    "more",
    [
        {},
        {**CUTS, "vad_started": False},
        {**CUTS, "speech": False},
        {**CUTS, **NO_BARGE_IN},
        {"policy": "by_duration"},
    ],
)
def test_row_6b(more: dict[str, Any]) -> None:
    """Otherwise it hears everything, and is asked to listen if the client forces that."""
    heard_ms = 500.0 if more.get("speech", True) else 100.0
    assert ruling(**NATIVE, **more) == ("listen", "auto_response_continuous", True, False, heard_ms)
    assert not decide_overlap(situation(**NATIVE, **more)).force_listen
    assert decide_overlap(situation(**NATIVE, force_listen=True, **more)).force_listen


@pytest.mark.parametrize("policy", ["listen_only", "barge_in_on_speech", "by_duration"])
@pytest.mark.parametrize("speech", [False, True])
def test_row_7(policy: str, speech: bool) -> None:
    """The client forces listening, whatever the policy."""
    made = ruling(policy=policy, speech=speech, force_listen=True, vad_started=True)
    assert made == ("listen", "client_force_listen", speech, True, 0.0)


def test_row_8() -> None:
    """Images without speech, for a model that may go without sound."""
    assert ruling(speech=False, vision_follow=True) == ("listen", "vision_follow", True, False, 100.0)
    assert ruling(vision_follow=True)[1] == "policy_listen_only"


@pytest.mark.parametrize("more", [{}, CUTS, NO_BARGE_IN, {"transcript": "yes"}, {"policy": "by_duration"}])
def test_row_9(more: dict[str, Any]) -> None:
    """What is not speech is dropped."""
    assert ruling(speech=False, **more) == ("drop", "silence_or_noise", False, False, 100.0)


@pytest.mark.parametrize("more", [{}, CUTS, NO_BARGE_IN, {"policy": "by_duration", "duration_ms": 5000.0}])
def test_row_10(more: dict[str, Any]) -> None:
    """Words that only acknowledge, by the client's transcript."""
    assert ruling(transcript="Go on!", **more) == ("listen", "short_ack_transcript", False, True, 0.0)


@pytest.mark.parametrize("more", [{}, NO_BARGE_IN, {"vad_started": True}, {"transcript": "stop"}])
def test_row_11(more: dict[str, Any]) -> None:
    """The policy is to listen."""
    assert ruling(**more) == ("listen", "policy_listen_only", True, True, 500.0)


@pytest.mark.parametrize("vad_started", [None, False, True])
def test_row_12(vad_started: bool | None) -> None:
    """The policy is to cut, and the model cannot be."""
    made = ruling(**CUTS, **NO_BARGE_IN, vad_started=vad_started)
    assert made == ("listen", "barge_in_unsupported", True, True, 500.0)
    assert not decide_overlap(situation(**CUTS, **NO_BARGE_IN)).refused


def test_row_13() -> None:
    """The detector is in the middle of an utterance: it has had its say when that began."""
    assert ruling(**CUTS, vad_started=False) == ("listen", "server_vad_utterance_active", True, False, 500.0)
    assert decide_overlap(situation(**CUTS, vad_started=False)).force_listen


@pytest.mark.parametrize(
    ("vad_started", "reason", "cancel_reason"),
    [(True, "server_vad_speech_started", "turn_detected"), (None, "policy_barge_in_on_speech", "barge_in")],
)
def test_row_14(vad_started: bool | None, reason: str, cancel_reason: str) -> None:
    """The policy is to cut."""
    made = decide_overlap(situation(**CUTS, vad_started=vad_started))
    assert (made.action, made.reason, made.cancel_reason) == ("barge_in", reason, cancel_reason)
    assert (made.buffer, made.overlap_speech_ms) == (True, 500.0)


def test_row_15() -> None:
    """By duration: what is short so far may be an acknowledgement."""
    made = {"policy": "by_duration", "overlap_speech_ms": 300.0}
    assert ruling(**made) == ("listen", "short_ack", True, True, 700.0)
    assert ruling(**made, duration_ms=401.0)[1] == "accumulating_overlap_speech"


@pytest.mark.parametrize(
    ("supported", "action", "cancel_reason"), [(True, "barge_in", "barge_in"), (False, "listen", None)]
)
def test_row_16(supported: bool, action: str, cancel_reason: str | None) -> None:
    """By duration: enough speech takes the turn, from a model that gives it."""
    made = decide_overlap(
        situation(policy="by_duration", overlap_speech_ms=800.0, supports_barge_in=supported)
    )
    assert (made.action, made.reason, made.cancel_reason) == (action, "long_overlap_speech", cancel_reason)
    assert (made.buffer, made.overlap_speech_ms) == (True, 1200.0)


def test_row_17() -> None:
    """By duration: between the two it adds up."""
    made = {"policy": "by_duration", "overlap_speech_ms": 799.0}
    assert ruling(**made) == ("listen", "accumulating_overlap_speech", True, True, 1199.0)


def test_the_rows_are_all_here() -> None:
    """Each has a test of its number in this file."""
    numbers = [row.number for row in ROWS]
    assert numbers == ["1", "2", "3", "4", "5", "6a", "6b", *(str(n) for n in range(7, 18))]
    assert all(f"test_row_{number}" in globals() for number in numbers)


SITUATIONS = st.builds(
    OverlapSituation,
    policy=st.sampled_from(["listen_only", "barge_in_on_speech", "by_duration"]),
    supports_barge_in=st.booleans(),
    owns_turns=st.booleans(),
    hints=st.builds(
        AppendHints,
        overlap_action=st.sampled_from([None, "barge_in", "listen", "ack", "drop", "nonsense"]),
        force_barge_in=st.booleans(),
        force_listen=st.booleans(),
        transcript=st.sampled_from([None, "yes", "stop"]),
        duration_ms=st.none() | st.floats(0, 3000),
    ),
    speech=st.booleans(),
    vad_started=st.sampled_from([None, False, True]),
    vision_follow=st.booleans(),
    duration_ms=st.floats(0, 3000),
    overlap_speech_ms=st.floats(0, 3000),
    short_ack_ms=st.floats(0, 3000),
    barge_in_ms=st.floats(0, 3000),
)


@given(SITUATIONS)
def test_the_first_row_that_applies_decides(made: OverlapSituation) -> None:
    """Whatever the situation there is one, the decision is its own, and deciding changes nothing."""
    before = attrs.asdict(made)
    applying = [row for row in ROWS if row.applies(made)]
    assert applying[-1] is ROWS[-1]
    decision = decide_overlap(made)
    assert decision == applying[0].decide(made)
    assert attrs.asdict(made) == before


@given(SITUATIONS)
def test_decisions_are_consistent(made: OverlapSituation) -> None:
    """Only a barge-in cancels, none comes from a model without it, and nothing counts speech backwards."""
    decision: OverlapRuling = decide_overlap(made)
    assert (decision.cancel_reason is not None) == (decision.action == "barge_in")
    assert made.supports_barge_in or decision.action != "barge_in"
    assert decision.overlap_speech_ms in (0.0, made.overlap_speech_ms, made.total_ms)
    assert not (decision.defer and made.owns_turns)
    assert decision.action != "drop" or not decision.buffer
    assert decision.action != "barge_in" or decision.buffer
