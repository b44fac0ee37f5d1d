from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_trio.clients.errors import DuplexProtocolError
from duplex_trio.clients.outbox import Outbox


def filled(*commands: bytes, bytes_max: int = 1000) -> Outbox:
    outbox = Outbox(bytes_max)
    for command in commands:
        outbox.put(command)
    return outbox


def written(outbox: Outbox) -> list[bytes]:
    """Write all there is."""
    found = []
    while (command := outbox.next()) is not None:
        found.append(command)
    return found


def test_commands_are_written_once_and_in_order() -> None:
    outbox = filled(b"a", b"bb")
    assert written(outbox) == [b"a", b"bb"]
    assert outbox.next() is None
    outbox.put(b"c")
    assert outbox.unwritten == 1
    assert written(outbox) == [b"c"]


def test_what_is_written_stays_until_it_is_counted() -> None:
    outbox = filled(b"a", b"bb", b"ccc")
    written(outbox)
    assert (len(outbox), outbox.size_bytes, outbox.written_bytes) == (3, 6, 6)
    outbox.confirm(2)
    assert (len(outbox), outbox.size_bytes, outbox.written_bytes, outbox.counted) == (1, 3, 3, 2)
    outbox.confirm(1)
    assert outbox.counted == 2


def test_a_new_connection_gets_what_was_not_counted() -> None:
    outbox = filled(b"a", b"b", b"c", b"d")
    for _ in range(3):
        outbox.next()
    outbox.resume(1)
    assert outbox.written_bytes == 0
    assert written(outbox) == [b"b", b"c", b"d"]


def test_a_server_that_does_not_count_has_all_that_was_written() -> None:
    outbox = filled(b"a", b"b", b"c")
    outbox.next()
    outbox.resume(None)
    assert written(outbox) == [b"b", b"c"]


def test_a_server_cannot_have_more_than_was_written() -> None:
    outbox = filled(b"a", b"b")
    outbox.next()
    with pytest.raises(DuplexProtocolError, match="counts 2"):
        outbox.confirm(2)
    with pytest.raises(DuplexProtocolError):
        outbox.resume(3)


def test_counting_begins_when_the_session_is_open() -> None:
    outbox = filled(b"open", b"a", b"b")
    outbox.next()
    outbox.opened()
    written(outbox)
    outbox.confirm(1)
    outbox.resume(1)
    assert written(outbox) == [b"b"]


def test_a_session_without_a_future_keeps_nothing() -> None:
    outbox = filled(b"a", b"b", b"c")
    outbox.next()
    outbox.keep_no_more()
    assert (len(outbox), outbox.size_bytes) == (2, 2)
    assert written(outbox) == [b"b", b"c"]
    assert (len(outbox), outbox.size_bytes, outbox.written_bytes) == (0, 0, 0)
    assert not outbox.wants_count


def test_a_full_outbox_takes_nothing_and_an_empty_one_anything() -> None:
    outbox = Outbox(10)
    assert outbox.room_for(11)
    outbox.put(b"x" * 11)
    assert not outbox.room_for(1)
    written(outbox)
    assert not outbox.room_for(1)
    outbox.confirm(1)
    assert outbox.room_for(10)
    outbox.put(b"x" * 9)
    assert outbox.room_for(1)
    assert not outbox.room_for(2)


def test_the_server_is_asked_before_the_outbox_is_full() -> None:
    outbox = filled(b"x" * 25, b"x", bytes_max=100)
    outbox.next()
    assert not outbox.wants_count
    outbox.next()
    assert outbox.wants_count
    outbox.confirm(1)
    assert not outbox.wants_count


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.integers(1, 9)),
            st.tuples(st.just("write"), st.integers(1, 4)),
            st.tuples(st.just("arrive"), st.integers(1, 4)),
            st.tuples(st.just("confirm"), st.integers(0, 3)),
            st.tuples(st.just("cut"), st.just(0)),
        ),
        max_size=60,
    )
)
def test_whatever_happens_the_server_gets_each_command_once_and_in_order(
    steps: list[tuple[str, int]],
) -> None:
    """A connection carries what is written in order and may be cut anywhere; counts may come late."""
    outbox = Outbox(20)
    put: list[bytes] = []
    arrived: list[bytes] = []
    under_way: list[bytes] = []
    for what, number in steps:
        match what:
            case "put" if outbox.room_for(number):
                put.append(f"{len(put)}".encode().rjust(number))
                outbox.put(put[-1])
            case "write":
                under_way += [command for _ in range(number) if (command := outbox.next()) is not None]
            case "arrive":
                arrived += under_way[:number]
                del under_way[:number]
            case "confirm":
                outbox.confirm(max(0, len(arrived) - number))
            case "cut":
                under_way.clear()
                outbox.resume(len(arrived))
        kept = put[outbox.counted :]
        assert len(outbox) == len(kept)
        assert outbox.size_bytes == sum(map(len, kept))
        assert outbox.written_bytes == sum(map(len, kept[: outbox.written]))
        assert outbox.size_bytes <= 20
        assert arrived == put[: len(arrived)]
    outbox.resume(len(arrived))
    assert arrived + written(outbox) == put
