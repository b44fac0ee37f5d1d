"""The client's side of resuming, without sockets: every transition, and any order of what a network may do."""

from __future__ import annotations

from collections import deque
from typing import Any

import orjson
import pytest
from attrs import Factory, define
from hypothesis import example, given
from hypothesis import strategies as st

from duplex_trio.clients.errors import (
    DuplexConnectionError,
    DuplexProtocolError,
    DuplexSessionReplacedError,
)
from duplex_trio.clients.reconnect import ReconnectPolicy
from duplex_trio.clients.resumption import ACKNOWLEDGE_BYTES, FATAL_REFUSALS, HELD_MAX, Phase, Resumption

LOST = DuplexConnectionError("it broke")


def said(link: Resumption, *, closing: bool = False, now_s: float = 0.0, **raw: Any) -> list[Any]:
    """The server says something; returns what the client's user is told."""
    return list(link.receive(raw, 100, now_s, closing=closing))


def written(link: Resumption) -> list[dict[str, Any]]:
    """All that the client has to write now."""
    found = []
    while (message := link.next_message()) is not None:
        found.append(orjson.loads(message))
    return found


def put(link: Resumption, *names: str) -> None:
    for name in names:
        link.outbox.put(orjson.dumps({"type": name}))


def opened(policy: ReconnectPolicy | None = None, **created: Any) -> Resumption:
    """A session that is open, with nothing to be written."""
    link = Resumption(policy or ReconnectPolicy(max_attempts=2))
    put(link, "session.update")
    assert written(link) == [{"type": "session.update"}]
    raw = {"type": "session.created", "session": {"id": "s"}, "resume_token": "t1"} | created
    assert said(link, **raw) == [raw]
    assert link.phase is Phase.CONNECTED
    return link


def away(link: Resumption, now_s: float = 0.0) -> Resumption:
    assert link.lost(LOST, now_s)
    assert link.phase is Phase.AWAY
    return link


def asking(link: Resumption) -> dict[str, Any]:
    """A new connection; returns what the client asks."""
    link.begin_attempt()
    link.connected()
    (request,) = written(link)
    assert request["type"] == "session.resume"
    return dict(request)


def resumed(**fields: Any) -> dict[str, Any]:
    return {"type": "session.resumed", "resume_token": "t2", "client_event_count": 0} | fields


# ---------------------------------------------------------------------- opening


def test_nothing_is_said_before_the_session_is_there_but_what_opens_it() -> None:
    link = Resumption(ReconnectPolicy())
    assert written(link) == []
    put(link, "session.update", "early")
    link.beat()
    assert [message["type"] for message in written(link)] == ["session.update"]
    assert written(link) == []
    said(link, type="session.created", session={"id": "s"}, resume_token="t")
    assert [message["type"] for message in written(link)] == ["session.heartbeat", "early"]


def test_a_connection_that_is_lost_before_the_session_is_there_ends_it() -> None:
    link = Resumption(ReconnectPolicy())
    put(link, "session.update")
    written(link)
    assert not link.lost(LOST, 0)
    assert link.ending is not None
    assert link.ending.error is LOST


@pytest.mark.parametrize("missing", [{"resume_token": None}, {"session": {}}, {"session": None}])
def test_a_session_that_cannot_be_resumed_ends_with_its_connection(missing: dict[str, Any]) -> None:
    link = opened(**missing)
    put(link, "a")
    written(link)
    assert len(link.outbox) == 0
    assert not link.lost(LOST, 0)
    assert link.ending is not None
    assert link.ending.error is LOST


# ---------------------------------------------------------------------- events


def test_an_event_is_told_once() -> None:
    link = opened()
    for seq, new in ((1, True), (2, True), (2, False), (1, False), (3, True)):
        assert bool(said(link, type="x", server_event_seq=seq)) is new
    assert said(link, type="x") == [{"type": "x"}]
    assert said(link, type="x", server_event_seq=True)
    assert link.receive("no event", 8, 0.0) == ["no event"]


def test_what_came_is_acknowledged_when_it_is_time() -> None:
    link = opened()
    link.acknowledge()
    assert written(link) == []
    said(link, type="x", server_event_seq=1)
    said(link, type="x", server_event_seq=2)
    assert written(link) == []
    link.acknowledge()
    assert written(link) == [{"type": "session.event_ack", "server_event_seq": 2}]
    assert not link.acknowledges


def test_much_is_acknowledged_at_once() -> None:
    link = opened()
    link.receive({"type": "x", "server_event_seq": 1}, ACKNOWLEDGE_BYTES, 0.0)
    put(link, "a")
    assert [message["type"] for message in written(link)] == ["session.event_ack", "a"]


# ---------------------------------------------------------------------- commands


def test_a_heartbeat_tells_how_much_has_arrived() -> None:
    link = opened()
    put(link, "a", "b", "c")
    written(link)
    assert said(link, type="session.heartbeat_ack", client_event_count=2)
    assert len(link.outbox) == 1
    with pytest.raises(DuplexProtocolError, match="counts 9"):
        said(link, type="session.heartbeat_ack", client_event_count=9)


def test_the_server_is_asked_once_while_much_is_unconfirmed() -> None:
    link = opened(ReconnectPolicy(buffer_bytes_max=60))
    put(link, "a", "b")
    assert [message["type"] for message in written(link)] == ["a", "b", "session.heartbeat"]
    put(link, "c")
    assert [message["type"] for message in written(link)] == ["c"]
    said(link, type="session.heartbeat_ack", client_event_count=2)
    assert written(link) == []
    put(link, "d")
    assert [message["type"] for message in written(link)] == ["d", "session.heartbeat"]


def test_a_server_that_counts_nothing_is_believed_to_have_what_was_written() -> None:
    link = opened()
    put(link, "a", "b")
    link.next_message()
    asking(away(link))
    said(link, **resumed(client_event_count=None))
    assert [message["type"] for message in written(link)] == ["session.event_ack", "b"]


# ---------------------------------------------------------------------- coming back


def test_a_session_is_resumed() -> None:
    link = opened()
    said(link, type="x", server_event_seq=1)
    said(link, type="x", server_event_seq=2)
    put(link, "a", "b", "c")
    written(link)
    away(link)
    put(link, "d")
    assert written(link) == []
    assert asking(link) == {
        "type": "session.resume",
        "session_id": "s",
        "resume_token": "t1",
        "last_received_server_event_seq": 2,
        "attempt": 1,
    }
    assert written(link) == []
    answer = resumed(client_event_count=1)
    assert said(link, **answer) == [{"type": "connection.resumed", "attempt": 1}, answer]
    assert link.phase is Phase.CONNECTED
    assert written(link) == [
        {"type": "session.event_ack", "server_event_seq": 2},
        {"type": "b"},
        {"type": "c"},
        {"type": "d"},
    ]
    assert said(link, type="x", server_event_seq=2) == []
    assert asking(away(link))["resume_token"] == "t2"


def test_the_answer_is_acknowledged_though_there_is_nothing_to_acknowledge() -> None:
    """The server learns from it that the new token has arrived."""
    link = opened()
    asking(away(link))
    said(link, **resumed())
    assert written(link) == [{"type": "session.event_ack", "server_event_seq": 0}]


def test_what_comes_ahead_of_the_answer_waits_for_it() -> None:
    link = opened()
    said(link, type="x", server_event_seq=1)
    asking(away(link))
    early = [{"type": "x", "server_event_seq": seq} for seq in (1, 2)]
    assert [said(link, **event) for event in early] == [[], []]
    assert said(link, **resumed())[2:] == early[1:]


def test_what_came_ahead_of_an_answer_that_never_came_is_asked_for_again() -> None:
    link = opened()
    asking(away(link))
    said(link, type="x", server_event_seq=1)
    away(link)
    assert "last_received_server_event_seq" not in asking(link)  # nothing
    assert len(said(link, **resumed())) == 2


def test_a_server_that_never_answers_is_not_listened_to_for_ever() -> None:
    link = opened()
    asking(away(link))
    for _ in range(HELD_MAX):
        said(link, type="x")
    with pytest.raises(DuplexProtocolError, match=r"instead of session\.resumed"):
        said(link, type="x")


def test_attempts_are_numbered_and_counted_anew_for_each_loss() -> None:
    link = opened()
    assert asking(away(link))["attempt"] == 1
    assert asking(away(link))["attempt"] == 2
    assert said(link, **resumed())[0] == {"type": "connection.resumed", "attempt": 2}
    assert asking(away(link))["attempt"] == 3
    assert said(link, **resumed())[0] == {"type": "connection.resumed", "attempt": 1}


# ---------------------------------------------------------------------- ends


def test_it_is_tried_as_often_as_the_policy_says() -> None:
    link = away(opened(), now_s=10)
    asking(link)
    away(link, now_s=11)
    link.begin_attempt()
    assert not link.lost(DuplexConnectionError("refused", status=503), 14.5)
    assert link.ending is not None
    error = link.ending.error
    assert isinstance(error, DuplexConnectionError)
    assert (error.attempts, error.tried_s, error.status) == (2, 4.5, 503)
    assert str(error) == "it broke; 2 attempts to resume the session failed in 4.5 s, at last: refused"
    assert not link.lost(LOST, 20)


def test_a_policy_may_be_never_to_try() -> None:
    link = opened(ReconnectPolicy(max_attempts=0))
    assert not link.lost(LOST, 0)
    assert link.ending is not None
    assert link.ending.error is LOST


@pytest.mark.parametrize("code", sorted(FATAL_REFUSALS))
@pytest.mark.parametrize("closing", [True, False])
def test_a_refusal_ends_it(code: str, closing: bool) -> None:
    """Unless the user has asked for the end, and the server knows nothing of the session any more."""
    link = away(opened(), now_s=1)
    asking(link)
    assert said(link, type="error", closing=closing, now_s=3, error={"code": code, "message": "no"}) == []
    assert link.ending is not None
    if closing and code in ("session_resume_expired", "invalid_resume_token"):
        assert link.ending.error is None
        return
    error = link.ending.error
    assert isinstance(error, DuplexConnectionError)
    assert (error.code, error.attempts, error.tried_s) == (code, 1, 2)
    assert str(error) == f"it broke; after 2.0 s the server does not resume the session: {code}: no"


def test_a_gap_ends_it() -> None:
    link = opened()
    asking(away(link))
    assert said(link, type="session.resync_required", reason="journal_gap") == []
    assert link.ending is not None
    assert isinstance(link.ending.error, DuplexConnectionError)
    assert link.ending.error.code == "journal_gap"


def test_another_refusal_is_tried_again_and_told_at_last() -> None:
    link = opened(ReconnectPolicy(max_attempts=1))
    asking(away(link))
    said(link, type="error", error={"code": "runtime_resume_failed", "message": "busy"})
    assert not link.over
    assert not link.lost(DuplexConnectionError("closed: 1011", close_code=1011), 1)
    assert link.ending is not None
    assert "runtime_resume_failed: busy" in str(link.ending.error)


def test_a_journal_that_overflows_makes_the_connection_the_last_one() -> None:
    link = opened()
    put(link, "a")
    written(link)
    assert said(link, type="session.resync_required", reason="journal_overflow")
    assert len(link.outbox) == 0
    assert not link.lost(LOST, 0)
    assert link.ending is not None
    assert link.ending.error is LOST


@pytest.mark.parametrize("resuming", [True, False])
@pytest.mark.parametrize("told", [True, False])
def test_a_takeover_is_an_end_of_its_own(told: bool, resuming: bool) -> None:
    link = opened()
    if resuming:
        asking(away(link))
    if told:
        said(link, type="session.replaced")
    else:
        closed = DuplexConnectionError("closed", close_code=1000, close_reason="session_replaced")
        assert not link.lost(closed, 0)
    assert link.ending is not None
    assert link.ending.error is None
    assert isinstance(link.ending.afterwards, DuplexSessionReplacedError)


@pytest.mark.parametrize(
    ("loss", "again"),
    [
        ({"close_code": 1006}, True),
        ({"close_code": 1000, "close_reason": "idle_timeout"}, True),
        ({"close_code": 1001}, True),
        ({"close_code": 1008, "close_reason": "slow_reader"}, True),
        ({"close_code": 1011}, True),
        ({"close_code": 1002}, False),
        ({"close_code": 1007}, False),
        ({"close_code": 1009}, False),
        ({"status": 401}, False),
        ({"status": 404}, False),
        ({"status": 429}, True),
        ({"status": 503}, True),
        ({}, True),
    ],
)
def test_what_another_connection_may_help_against(loss: dict[str, Any], again: bool) -> None:
    link = opened()
    assert link.lost(DuplexConnectionError("lost", **loss), 0) is again
    assert link.over is not again


def test_a_server_that_lets_the_client_in_no_more() -> None:
    """It says so as soon as that is known, and what led to it."""
    link = away(opened(), now_s=1)
    link.begin_attempt()
    assert not link.lost(DuplexConnectionError("no entry", status=401), 2)
    assert link.ending is not None
    error = link.ending.error
    assert isinstance(error, DuplexConnectionError)
    assert (error.status, error.attempts, error.tried_s) == (401, 1, 1)
    assert str(error) == "it broke; one attempt to resume the session failed in 1.0 s, at last: no entry"


def test_who_waits_for_room_has_the_server_asked() -> None:
    """Once at a time, and not for nothing."""
    link = opened()
    link.ask_count()
    assert written(link) == []
    put(link, "a")
    written(link)
    for _ in range(2):
        link.ask_count()
        link.ask_count()
    assert [message["type"] for message in written(link)] == ["session.heartbeat"]
    link.ask_count()
    assert written(link) == []
    said(link, type="session.heartbeat_ack", client_event_count=0)
    link.ask_count()
    assert [message["type"] for message in written(link)] == ["session.heartbeat"]


@pytest.mark.parametrize(("code", "expected"), [(1000, True), (1006, False)])
def test_a_close_that_was_asked_for(code: int, expected: bool) -> None:
    """A close frame answers it; a lost connection may have lost it too."""
    link = opened()
    assert link.lost(DuplexConnectionError("closed", close_code=code), 0, closing=True) is not expected
    assert (link.ending is not None and link.ending.error is None) is expected


def test_what_was_said_before_the_end_is_still_written() -> None:
    link = opened()
    put(link, "a")
    link.beat()
    link.end(None)
    link.end(LOST)
    assert written(link) == [{"type": "a"}]
    assert link.ending is not None
    assert link.ending.error is None


# ---------------------------------------------------------------------- any order of things


@define
class Wire:
    """One connection: what is on its way in both directions."""

    up: deque[dict[str, Any]] = Factory(deque)
    down: deque[dict[str, Any]] = Factory(deque)


@define
class Server:
    """A server's side as wire.md 6 says, as little of it as there can be."""

    journal: list[dict[str, Any]] = Factory(list)
    commands: list[str] = Factory(list)
    acknowledged: int = 0
    token: str = "token 0"
    recovery: str | None = None
    attempt: int = 0
    tokens: int = 0
    owner: Wire | None = None
    unconfirmed: Wire | None = None

    def emit(self, **event: Any) -> None:
        event = {"type": "event", **event, "server_event_seq": len(self.journal) + 1}
        self.journal.append(event)
        if self.owner is not None:
            self.owner.down.append(event)

    def take(self, wire: Wire) -> None:
        message = wire.up.popleft()
        if message["type"] == "session.resume":
            self._resume(wire, message)
            return
        if wire is not self.owner:
            return
        if wire is self.unconfirmed:
            self.unconfirmed = self.recovery = None
        match message["type"]:
            case "session.update":
                created = {"type": "session.created", "session": {"id": "s"}, "resume_token": self.token}
                wire.down.append(created)
            case "session.event_ack":
                assert message["server_event_seq"] <= len(self.journal)
                self.acknowledged = max(self.acknowledged, message["server_event_seq"])
            case "session.heartbeat":
                self.emit(type="session.heartbeat_ack", client_event_count=len(self.commands))
            case name:
                self.commands.append(name)

    def _resume(self, wire: Wire, message: dict[str, Any]) -> None:
        presented, seq = message["resume_token"], message.get("last_received_server_event_seq", 0)
        recovers = presented == self.recovery and message["attempt"] >= self.attempt
        if presented != self.token and not recovers:
            wire.down.append({"type": "error", "error": {"code": "invalid_resume_token"}})
            return
        assert self.acknowledged <= seq <= len(self.journal)
        if self.owner is not None:
            self.owner.down.append({"type": "session.replaced"})
        self.owner = self.unconfirmed = wire
        self.tokens += 1
        self.token, self.recovery, self.attempt = f"token {self.tokens}", presented, message["attempt"]
        count = len(self.commands)
        wire.down.append(resumed(resume_token=self.token, client_event_count=count))
        wire.down += self.journal[seq:]


STEPS = st.lists(
    st.sampled_from(
        ["emit", "put", "write", "take", "take", "hear", "hear", "ack", "beat", "cut", "cut", "late"]
    ),
    max_size=120,
)


@given(STEPS)
@example(["cut", "cut", "take", "late", "hear", "hear"])
@example(["emit", "cut", "take", "cut", "take", "hear", "hear"])
def test_nothing_is_lost_or_doubled_whatever_the_network_does(steps: list[str]) -> None:
    """Messages are delivered in order or not at all, on each connection by itself; a connection may be lost at
    any moment, with what is under way on it, and what was under way on an old one may arrive late."""
    server, wires = Server(), [Wire()]
    server.owner = wires[0]
    link = Resumption(ReconnectPolicy(max_attempts=1_000, buffer_bytes_max=300))
    put(link, "session.update")
    heard: list[dict[str, Any]] = []
    sent: list[str] = []

    def write() -> None:
        while (message := link.next_message()) is not None:
            wires[-1].up.append(orjson.loads(message))

    def hear(wire: Wire) -> None:
        raw = wire.down.popleft()
        told = link.receive(raw, 100, 0.0)
        heard.extend(event for event in told if "server_event_seq" in event)

    write()
    server.take(wires[0])
    hear(wires[0])
    for step in steps:
        match step:
            case "emit":
                server.emit()
            case "put" if link.outbox.room_for(40):
                sent.append(f"command {len(sent)}".ljust(20))
                put(link, sent[-1])
            case "write":
                write()
            case "take" if wires[-1].up:
                server.take(wires[-1])
            case "hear" if wires[-1].down:
                hear(wires[-1])
            case "ack":
                link.acknowledge()
            case "beat":
                link.beat()
            case "cut":
                assert link.lost(LOST, 0.0)
                wires.append(Wire())
                link.begin_attempt()
                link.connected()
                write()
            case "late":
                for old in wires[:-1]:
                    if old.up:
                        server.take(old)
        assert not link.over, link.ending
        assert heard == server.journal[: len(heard)]
        assert server.commands == sent[: len(server.commands)]
    for _ in range(len(sent) + len(server.journal) + 10):
        write()
        while wires[-1].up:
            server.take(wires[-1])
        while wires[-1].down:
            hear(wires[-1])
    assert not link.over
    assert heard == server.journal
    assert server.commands == sent
