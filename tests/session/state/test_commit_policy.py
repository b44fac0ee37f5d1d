"""What a commit comes to, row by row."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.session.state.commit_policy import CommitAction, CommitSituation, decide_commit

REFUSE_EMPTY = CommitAction.REFUSE_EMPTY
SILENT = CommitAction.SILENT
ACKNOWLEDGE = CommitAction.ACKNOWLEDGE
DEFER = CommitAction.DEFER_ACTIVE_RESPONSE
START_AUTO = CommitAction.START_AUTO_RESPONSE
COMMIT_ONLY = CommitAction.COMMIT_ONLY

NOTHING = {"has_audio": False, "heard_speech": False, "speech_ms": 0.0}
QUIET = {"heard_speech": False, "speech_ms": 0.0}
OVER = {"response_active": True, "playing": True, "speech_ms": 900.0, "overlap_speech_ms": 900.0}
SHORT_OVER = {**OVER, "speech_ms": 700.0, "overlap_speech_ms": 700.0}
NATIVE = {"owns_turns": True}


def decided(**values: Any) -> CommitAction:
    """About a second of speech in silence, whose commit asks for a response."""
    standard: dict[str, Any] = {
        "owns_turns": False,
        "has_audio": True,
        "heard_speech": True,
        "asks": True,
        "response_active": False,
        "playing": False,
        "overlap_speech_ms": 0.0,
        "speech_ms": 1000.0,
        "short_ack_ms": 700.0,
    }
    return decide_commit(CommitSituation(**{**standard, **values}))


@pytest.mark.parametrize(
    ("values", "action"),
    [
        # a model that answers turns
        ({}, COMMIT_ONLY),
        ({"asks": False}, COMMIT_ONLY),
        (NOTHING, REFUSE_EMPTY),
        ({**NOTHING, "stated_speech": True}, REFUSE_EMPTY),
        ({**NOTHING, "stated_speech": False}, SILENT),
        (QUIET, SILENT),
        ({**QUIET, "response_active": True, "playing": True}, SILENT),
        ({**QUIET, "stated_speech": True}, COMMIT_ONLY),
        ({"stated_speech": False}, SILENT),
        ({**OVER, "stated_speech": False}, SILENT),
        (OVER, DEFER),
        ({**OVER, "asks": False}, DEFER),
        (SHORT_OVER, ACKNOWLEDGE),
        ({**SHORT_OVER, "asks": False}, ACKNOWLEDGE),
        ({**SHORT_OVER, "overlap_speech_ms": 700.1}, DEFER),
        ({**SHORT_OVER, "short_ack_ms": 0.0}, DEFER),
        ({**OVER, "overlap_speech_ms": 100.0}, DEFER),
        ({**OVER, "overlap_speech_ms": 0.0}, DEFER),
        ({**OVER, "overlap_speech_ms": 0.0, "asks": False}, COMMIT_ONLY),
        ({**SHORT_OVER, "response_active": False}, ACKNOWLEDGE),
        ({**OVER, "response_active": False}, COMMIT_ONLY),
        ({**SHORT_OVER, "response_active": False, "playing": False}, COMMIT_ONLY),
        # one that owns its turns
        (NATIVE, START_AUTO),
        ({**NATIVE, **OVER}, START_AUTO),
        ({**NATIVE, **SHORT_OVER}, START_AUTO),
        ({**NATIVE, **QUIET}, COMMIT_ONLY),
        ({**NATIVE, "stated_speech": False}, COMMIT_ONLY),
        ({**NATIVE, **QUIET, "stated_speech": True}, START_AUTO),
        ({**NATIVE, **NOTHING}, REFUSE_EMPTY),
        ({**NATIVE, **NOTHING, "stated_speech": False}, COMMIT_ONLY),
    ],
)
def test_the_decision(values: dict[str, Any], action: CommitAction) -> None:
    assert decided(**values) is action


SITUATIONS = st.builds(
    CommitSituation,
    owns_turns=st.booleans(),
    has_audio=st.booleans(),
    heard_speech=st.booleans(),
    stated_speech=st.sampled_from([None, False, True]),
    asks=st.booleans(),
    response_active=st.booleans(),
    playing=st.booleans(),
    overlap_speech_ms=st.floats(0, 3000),
    speech_ms=st.floats(0, 3000),
    short_ack_ms=st.floats(0, 3000),
)


@given(SITUATIONS)
def test_no_second_response_is_asked_for(made: CommitSituation) -> None:
    """While one is in progress, no commit begins another; and nothing waits where nothing would end."""
    action = decide_commit(made)
    if made.response_active and made.asks and not made.owns_turns:
        assert action is not COMMIT_ONLY
    if action is DEFER:
        assert made.response_active
    if action is START_AUTO:
        assert made.owns_turns
