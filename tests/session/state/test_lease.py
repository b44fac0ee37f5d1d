"""The lease: expiry, attachment, and who wins a resume."""

from __future__ import annotations

import pytest

from duplex_trio.protocol.duplex import RealtimeError
from duplex_trio.session.state.lease import DISCONNECT_GRACE_EXPIRED, IDLE_TTL_EXPIRED, DuplexLeaseState


def lease(idle_ttl_s: float | None = 300.0) -> DuplexLeaseState:
    return DuplexLeaseState(idle_ttl_s, 30.0, last_activity_s=1000.0)


def test_expires_after_its_idle_time() -> None:
    """Without activity the lease ends 300 s after it opened, not before."""
    made = lease()
    assert made.expiry_reason(1299.9) is None
    assert made.expiry_reason(1300.0) == IDLE_TTL_EXPIRED


def test_activity_moves_the_deadline_forward_only() -> None:
    """A touch restarts the idle time; one that reports an older moment changes nothing."""
    made = lease()
    made.touch(1200.0)
    made.touch(1100.0)
    assert made.deadline_s() == 1500.0


def test_never_expires_without_an_idle_time() -> None:
    """No idle time means no idle expiry."""
    assert lease(None).expiry_reason(1e12) is None


def test_work_under_way_blocks_idle_expiry() -> None:
    """As long as any operation runs the lease does not expire idle; its end counts as activity."""
    made = lease()
    made.begin_operation("turn-1")
    made.begin_operation("turn-2")
    assert made.expiry_reason(5000.0) is None
    made.end_operation("turn-1", 5000.0)
    assert made.expiry_reason(9000.0) is None
    made.end_operation("turn-2", 9000.0)
    assert made.deadline_s() == 9300.0
    made.end_operation("turn-2", 9900.0)
    assert made.deadline_s() == 9300.0


@pytest.mark.parametrize(("after_s", "reason"), [(29.0, None), (31.0, DISCONNECT_GRACE_EXPIRED)])
def test_a_detached_session_waits_for_its_grace(after_s: float, reason: str | None) -> None:
    """29 s after the client left the session waits, 31 s after it is gone; work under way does not help."""
    made = lease()
    made.begin_operation("turn-1")
    made.detach(1010.0)
    assert made.expiry_reason(1010.0 + after_s) == reason


def test_a_resume_takes_the_next_generation() -> None:
    """The first resume turns generation 0 into 1 and ends the grace."""
    made = lease()
    made.detach(1010.0)
    assert made.resume(0, "a", 1020.0) == 1
    assert made.detached_at_s is None
    assert made.deadline_s() == 1320.0


def test_one_of_two_resumes_wins() -> None:
    """With the same knowledge, the second of two different resumes is refused and changes nothing."""
    made = lease()
    made.resume(0, "a", 1020.0)
    with pytest.raises(RealtimeError) as caught:
        made.resume(0, "b", 1021.0)
    assert caught.value.code == "session_resume_conflict"
    assert made.generation == 1


def test_a_replayed_resume_gets_the_same_answer() -> None:
    """The winner asking again with its control id is told the same generation."""
    made = lease()
    made.resume(0, "a", 1020.0)
    assert made.resume(0, "a", 1025.0) == 1
    assert made.generation == 1


def test_an_attached_session_can_be_taken_over() -> None:
    """A resume needs no earlier disconnect, only the right generation."""
    made = lease()
    assert made.resume(0, "a", 1001.0) == 1
    assert made.resume(1, "b", 1002.0) == 2


def test_a_late_disconnect_of_a_replaced_client_is_refused() -> None:
    """The one who was replaced cannot detach the one who replaced it."""
    made = lease()
    made.resume(0, "a", 1001.0)
    with pytest.raises(RealtimeError) as caught:
        made.detach(1002.0, expected_generation=0)
    assert caught.value.code == "session_resume_conflict"
    assert made.detached_at_s is None
    made.detach(1002.0, expected_generation=1)
    assert made.detached_at_s == 1002.0


def test_the_control_id_of_the_current_attachment_is_known() -> None:
    """Only of the current one, and of none once the lease has ended."""
    made = lease()
    assert not made.is_replay("a")
    made.resume(0, "a", 1001.0)
    assert made.is_replay("a")
    made.resume(1, "b", 1002.0)
    assert (made.is_replay("a"), made.is_replay("b")) == (False, True)
    made.mark_terminal("closed")
    assert not made.is_replay("b")


def test_ends_once() -> None:
    """The first reason stands, the generation grows once, and nothing expires any more."""
    made = lease()
    made.begin_operation("turn-1")
    assert made.mark_terminal("closed")
    assert not made.mark_terminal("expired")
    assert (made.terminal_reason, made.generation) == ("closed", 1)
    assert made.expiry_reason(1e12) is None
    made.end_operation("turn-1", 2000.0)


def test_an_ended_lease_refuses_everything() -> None:
    """Each later operation is refused as `session_closed`."""
    made = lease()
    made.mark_terminal("closed")
    operations = (
        lambda: made.touch(1.0),
        lambda: made.begin_operation("x"),
        lambda: made.detach(1.0),
        lambda: made.resume(1, "a", 1.0),
    )
    for operation in operations:
        with pytest.raises(RealtimeError) as caught:
            operation()
        assert caught.value.code == "session_closed"
