"""A picture shows every change of an object, however deep, and none where there is none."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from duplex_trio.session.state.egress_queue import EgressQueue, MediaEntry
from duplex_trio.session.state.input_timeline import InputTimeline
from duplex_trio.session.state.lease import DuplexLeaseState
from duplex_trio.session.state.playback import PlaybackCursor
from duplex_trio.testing.snapshots import differences, snapshot


def test_the_same_thing_gives_the_same_picture() -> None:
    """Places are named as one would write them."""
    lease = DuplexLeaseState(300.0, 30.0, 1.5)
    assert snapshot(lease) == snapshot(lease) == snapshot(DuplexLeaseState(300.0, 30.0, 1.5))
    assert snapshot(lease)[".last_activity_s"] == 1.5


def world() -> dict[str, Any]:
    timeline = InputTimeline(16_000, 1000)
    timeline.append(np.arange(10, dtype=np.float32), 0.0)
    queue = EgressQueue()
    queue.put_media(MediaEntry(epoch=0, response_id="r", duration_ms=1.0))
    return {
        "timeline": timeline,
        "queue": queue,
        "cursor": PlaybackCursor(),
        "lease": DuplexLeaseState(None, 30.0, 0.0),
        "list": [1, [2.0, "three"]],
        "deque": deque([b"x"]),
        "nothing": None,
    }


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a number": (lambda w: setattr(w["cursor"], "sent_ms", 1.0), "['cursor'].sent_ms"),
    "a private field": (lambda w: w["lease"].begin_operation("x"), "['lease']._operations"),
    "a sample": (lambda w: w["timeline"]._blocks[0].__setitem__(3, 9.0), "['timeline']._blocks[0]"),
    "one more": (lambda w: w["deque"].append(b"y"), "['deque'][]"),
    "one less": (lambda w: w["queue"].pop_media(), "['queue']._media[]"),
    "far down": (lambda w: w["list"][1].__setitem__(1, "four"), "['list'][1][1]"),
    "the type alone": (lambda w: w["list"].__setitem__(0, True), "['list'][0]"),
    "the order of keys": (lambda w: w.update(cursor=w.pop("cursor")), "[]"),
    "something from nothing": (lambda w: w.update(nothing=0), "['nothing']"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_found_by_its_place(change: str) -> None:
    """The line names the place, what was there and what is there."""
    act, place = CHANGES[change]
    things = world()
    before = snapshot(things)
    act(things)
    assert any(line.startswith(f"{place}: ") for line in differences(before, snapshot(things)))
    assert differences(before, before) == []


def test_what_is_ignored_is_ignored_with_all_below_it() -> None:
    """Other places with a similar name are not."""
    things = world()
    before = snapshot(things)
    things["cursor"].sent_ms = things["cursor"].played_ms = 5.0
    assert differences(before, snapshot(things), ignoring=["['cursor']"]) == []
    (line,) = differences(before, snapshot(things), ignoring=["['cursor'].sent_ms", "['cur"])
    assert line == "['cursor'].played_ms: 0.0 -> 5.0"


def test_a_circle_is_drawn_once() -> None:
    """An object within itself ends the picture there; another object in its place is a change."""
    outer: list[Any] = [1]
    outer.append(outer)
    before = snapshot(outer)
    outer[1] = [1, outer]
    assert differences(before, snapshot(outer))


def test_what_has_no_data_counts_by_being_the_same() -> None:
    """A function is what it is, and another one is another one."""
    things = {"a": len}
    before = snapshot(things)
    assert differences(before, snapshot(things)) == []
    things["a"] = repr  # type: ignore[assignment]
    assert differences(before, snapshot(things))
