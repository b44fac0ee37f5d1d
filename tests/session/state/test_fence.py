"""Fences and the spelling of stage request ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.session.state.fence import DuplexFence, session_id_of, stage_request_id, turn_role


@pytest.mark.parametrize(
    ("other", "current"),
    [
        (DuplexFence("s", 2, 5), True),
        (DuplexFence("s", 2, 6), True),
        (DuplexFence("s", 3, 0), True),
        (DuplexFence("s", 2, 4), False),
        (DuplexFence("s", 1, 9), False),
        (DuplexFence("t", 2, 5), False),
    ],
)
def test_a_fence_admits_what_is_not_older(other: DuplexFence, current: bool) -> None:
    """The epoch decides first, then the turn; another session's work is never admitted."""
    assert DuplexFence("s", 2, 5).admits(other) is current


def test_a_request_id_is_spelled_as_agreed() -> None:
    """`duplex-s.<base64url without padding>.e.<epoch>.r.<role>`."""
    assert stage_request_id("duplex-1", 4, turn_role(7)) == "duplex-s.ZHVwbGV4LTE.e.4.r.stage0-turn7"
    assert turn_role(7, attempt=2) == "stage0-try2-turn7"


@given(st.text(max_size=40), st.integers(0, 10**6))
def test_a_request_id_names_its_session(session_id: str, epoch: int) -> None:
    """Whatever the session id, it can be read back from the request id."""
    if session_id:
        assert session_id_of(stage_request_id(session_id, epoch, "stage0")) == session_id


@pytest.mark.parametrize("role", ["", "a.b", "a b", "ä", "a/b"])
def test_a_role_with_other_characters_is_refused(role: str) -> None:
    """A role that would break the spelling is a ValueError."""
    with pytest.raises(ValueError, match="role"):
        stage_request_id("s", 0, role)


@pytest.mark.parametrize(
    "request_id",
    [
        "",
        "request-1",
        "duplex-s.ZHVw.e.1",
        "duplex-s.ZHVw.e.x.r.stage0",
        "x-duplex-s.ZHVw.e.1.r.a",
        "duplex-s..e.1.r.a",
    ],
)
def test_other_ids_name_no_session(request_id: str) -> None:
    """Ids that are not ours are told apart."""
    assert session_id_of(request_id) is None
