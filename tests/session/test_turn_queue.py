"""The line of turns before the stages: what is discarded takes no place, and nobody takes another epoch's turn."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from duplex_trio.models.scripted.script import Script
from duplex_trio.protocol.duplex import CancelResponse, ErrorEvent, ResponseCreated, ResponseDone
from duplex_trio.session.turn import Turn
from duplex_trio.session.turn_queue import TurnQueue
from duplex_trio.testing import open_session


def turn(number: int, epoch: int = 0) -> Turn:
    return Turn(turn_id=number, epoch=epoch, request_id=f"r{number}")


async def test_turns_leave_in_order() -> None:
    """First in, first out, also to somebody who waits already."""
    queue = TurnQueue(2)
    taken: list[int] = []

    async def take() -> None:
        for _ in range(3):
            taken.append((await queue.get()).turn_id)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        await wait_all_tasks_blocked()
        queue.put_nowait(turn(1))
        queue.put_nowait(turn(2))
        await wait_all_tasks_blocked()
        queue.put_nowait(turn(3))
    assert taken == [1, 2, 3]


async def test_only_wanted_turns_count() -> None:
    """A full line refuses one more; once one of them is discarded there is room."""
    queue = TurnQueue(2)
    first, second, third = turn(1), turn(2), turn(3)
    queue.put_nowait(first)
    queue.put_nowait(second)
    with pytest.raises(trio.WouldBlock):
        queue.put_nowait(third)
    first.discard()
    queue.put_nowait(third)
    assert [await queue.get(), await queue.get()] == [second, third]


async def test_what_was_let_in_before_is_let_in_again() -> None:
    """However full the line is; others wait until there is room."""
    queue = TurnQueue(1)
    queue.put_nowait(turn(1))
    again = turn(2)
    again.replaces = True
    queue.put_nowait(again)
    for _ in range(2):
        with pytest.raises(trio.WouldBlock):
            queue.put_nowait(turn(3))
        await queue.get()
    queue.put_nowait(turn(3))


async def test_older_epochs_are_discarded() -> None:
    """What waits of them is never handed out."""
    queue = TurnQueue(3)
    old, new = turn(1, epoch=0), turn(2, epoch=1)
    queue.put_nowait(old)
    queue.discard_before(1)
    queue.put_nowait(new)
    assert old.discarded
    assert await queue.get() is new


async def test_one_who_is_cancelled_takes_nothing() -> None:
    """Woken for a turn of his own epoch and cancelled before he could take it, he leaves the next epoch's alone."""
    queue = TurnQueue(3)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(queue.get)
        await wait_all_tasks_blocked()
        queue.put_nowait(turn(1, epoch=0))
        queue.discard_before(1)
        nursery.cancel_scope.cancel()
        queue.put_nowait(turn(2, epoch=1))
    assert (await queue.get()).turn_id == 2


@pytest.mark.parametrize("wait_s", [0.0, 0.001])
async def test_a_client_that_cancels_and_asks_again_is_always_answered(
    autojump_clock: MockClock, wait_s: float
) -> None:
    """Twenty times, faster than the stages let go of what was cancelled; the last one is answered."""
    async with open_session(Script(), step_s=1.0, patch={"turn_detection": None}) as talker:
        for number in range(20):
            talker.write("hello")
            await talker.heard.nth(ResponseCreated, number + 1)
            await trio.sleep(wait_s)
            talker.send(CancelResponse())
        talker.write("hello")
        done = await talker.heard.nth(ResponseDone, 21, timeout_s=120)
    assert done.response.status == "completed"
    assert not talker.heard.of(ErrorEvent)
