"""What was sent and can be sent again: numbers, bounds, acknowledgements, and when there is a gap."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.protocol.duplex import RealtimeError
from duplex_trio.session.state.journal import EventJournal, EventNumbers, JournalGapError


def journal(*texts: bytes, ttl_s: float = 60.0, bytes_max: int = 1000) -> EventJournal:
    made = EventJournal(ttl_s, bytes_max)
    for text in texts:
        assert made.record(text, 0.0)
    return made


def test_numbers_begin_at_one() -> None:
    made = journal()
    assert (made.head, made.next_seq, made.replay(0, 0.0)) == (0, 1, [])
    made.record(b"a", 0.0)
    assert (made.head, made.next_seq) == (1, 2)


def test_numbers_without_a_journal_have_no_bound() -> None:
    """They count the events of a session that cannot be resumed, and check what is acknowledged."""
    made = EventNumbers()
    for seq in range(1, 1001):
        assert made.next_seq == seq
        assert made.record(b"x" * 10_000, 1e9)
    assert (made.head, made.overflowed) == (1000, False)
    made.ack(1000)
    with pytest.raises(RealtimeError) as caught:
        made.ack(1001)
    assert (caught.value.code, caught.value.param) == ("invalid_event_ack", "server_event_seq")


@pytest.mark.parametrize(
    ("after", "texts"), [(0, [b"a", b"b", b"c"]), (1, [b"b", b"c"]), (2, [b"c"]), (3, [])]
)
def test_a_replay_begins_behind_a_number(after: int, texts: list[bytes]) -> None:
    made = journal(b"a", b"b", b"c")
    assert made.replay(after, 0.0) == texts
    assert made.replay(after, 0.0) == texts  # asking changes nothing
    assert len(made) == 3


def test_a_number_of_no_event_is_refused() -> None:
    made = journal(b"a", b"b")
    with pytest.raises(RealtimeError) as caught:
        made.replay(3, 0.0)
    assert (caught.value.code, caught.value.param) == (
        "session_resume_conflict",
        "last_received_server_event_seq",
    )
    with pytest.raises(RealtimeError) as caught:
        made.ack(3)
    assert (caught.value.code, caught.value.param) == ("invalid_event_ack", "server_event_seq")
    assert made.replay(0, 0.0) == [b"a", b"b"]


def test_what_was_acknowledged_is_forgotten() -> None:
    """Acknowledging less than before, nothing, or the same again changes nothing."""
    made = journal(b"a", b"bb", b"ccc")
    for seq in (2, 0, 1, 2):
        made.ack(seq)
        if seq == 2:
            assert (len(made), made.size_bytes) == (1, 3)
    assert made.replay(2, 0.0) == [b"ccc"]
    with pytest.raises(JournalGapError):
        made.replay(1, 0.0)
    made.ack(3)
    assert (len(made), made.size_bytes, made.head) == (0, 0, 3)
    assert made.replay(3, 0.0) == []
    assert made.record(b"d", 0.0)
    assert made.replay(3, 0.0) == [b"d"]


def test_old_events_are_forgotten() -> None:
    """At their age, when something is recorded and when something is asked for."""
    made = EventJournal(60.0, 1000)
    for number in range(3):
        made.record(b"%d" % number, number * 10.0)
    assert made.replay(0, 59.9) == [b"0", b"1", b"2"]
    assert made.replay(1, 60.0) == [b"1", b"2"]
    with pytest.raises(JournalGapError):
        made.replay(0, 60.0)
    made.record(b"3", 75.0)
    assert (len(made), made.size_bytes) == (2, 2)
    with pytest.raises(JournalGapError):
        made.replay(3, 1000.0)
    assert made.replay(4, 1000.0) == []
    assert len(made) == 0


def test_an_old_event_makes_room() -> None:
    """Only what must still be kept counts against the bound."""
    made = EventJournal(60.0, 10)
    assert made.record(b"x" * 10, 0.0)
    assert made.record(b"y" * 10, 60.0)
    assert not made.overflowed


def test_an_acknowledged_event_makes_room() -> None:
    made = EventJournal(60.0, 10)
    for _ in range(5):
        assert made.record(b"x" * 10, 0.0)
        made.ack(made.head)
    assert (made.head, made.overflowed) == (5, False)


def test_a_full_journal_gives_up() -> None:
    """The event that is too much gets no number and none after it; nothing is kept and nothing is replayed."""
    made = journal(b"x" * 6, bytes_max=10)
    assert not made.record(b"x" * 5, 1.0)
    assert (made.overflowed, made.head, len(made), made.size_bytes) == (True, 1, 0, 0)
    assert not made.record(b"", 2.0)
    assert made.head == 1
    made.ack(1)
    for after in (0, 1):
        with pytest.raises(JournalGapError):
            made.replay(after, 2.0)
    with pytest.raises(RealtimeError):
        made.replay(2, 2.0)


def test_one_event_larger_than_the_journal() -> None:
    made = EventJournal(60.0, 10)
    assert made.record(b"x" * 10, 0.0)
    made.ack(1)
    assert not made.record(b"x" * 11, 0.0)
    assert made.overflowed


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.integers(0, 40)),
        st.tuples(st.just("ack"), st.integers(0, 30)),
        st.tuples(st.just("wait"), st.integers(0, 30)),
        st.tuples(st.just("replay"), st.integers(0, 30)),
    ),
    max_size=60,
)


@given(STEPS)
def test_any_sequence_of_calls(steps: list[tuple[str, int]]) -> None:
    """As a plain list of everything that was ever sent, with its age and the last acknowledgement, says it must be."""
    made, ttl_s, bytes_max = EventJournal(20.0, 100), 20.0, 100
    sent: list[tuple[bytes, float]] = []
    now_s, forgotten, gave_up = 0.0, 0, False

    def forget() -> None:
        nonlocal forgotten
        while forgotten < len(sent) and sent[forgotten][1] + ttl_s <= now_s:
            forgotten += 1

    for name, value in steps:
        match name:
            case "record":
                forget()
                kept = sum(len(text) for text, _ in sent[forgotten:])
                gave_up = gave_up or kept + value > bytes_max
                assert made.record(b"x" * value, now_s) is not gave_up
                if not gave_up:
                    sent.append((b"x" * value, now_s))
            case "ack":
                if value > len(sent):
                    with pytest.raises(RealtimeError):
                        made.ack(value)
                else:
                    made.ack(value)
                    forgotten = max(forgotten, value)
            case "wait":
                now_s += value
            case _:
                if value <= len(sent):
                    forget()
                if value > len(sent):
                    with pytest.raises(RealtimeError):
                        made.replay(value, now_s)
                elif gave_up or value < forgotten:
                    with pytest.raises(JournalGapError):
                        made.replay(value, now_s)
                else:
                    assert made.replay(value, now_s) == [text for text, _ in sent[value:]]
        assert made.head == len(sent)
        assert made.size_bytes <= bytes_max
        if not gave_up:
            assert made.size_bytes == sum(len(text) for text, _ in sent[forgotten:])
