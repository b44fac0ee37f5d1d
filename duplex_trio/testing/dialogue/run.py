"""The tasks of a conversation that is held.

run_conversation     the steps, one after the other
|- events            what the session says, into the account
|- ears              acknowledges what the user has heard
`- microphone        from the first word on
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import trio

from duplex_trio.testing.dialogue.account import Account
from duplex_trio.testing.dialogue.caller import Caller, Session, caller_of
from duplex_trio.testing.dialogue.person import Person, Voice
from duplex_trio.testing.dialogue.player import Player
from duplex_trio.testing.dialogue.steps import Step


async def run_conversation(
    steps: Sequence[Step], caller: Caller, voice: Voice, timeout_s: float
) -> tuple[Account, str | None]:
    """Hold a conversation; returns the account of it, and the text of its failure if there was one.

    Raises:
        CannotDropError: the connection is to be dropped, and there is none.
        Exception: what a function of the test raised.
    """
    failed: str | None = None
    error: Exception | None = None
    async with trio.open_nursery() as nursery:
        player = Player(
            steps,
            caller,
            Person(voice),
            timeout_s,
            lambda: nursery.start_soon(player.microphone, name="microphone"),
        )
        caller.accounts.append(player.account)
        nursery.start_soon(player.listen, name="events")
        nursery.start_soon(player.hear, name="ears")
        try:
            failed = await player.play()
        except Exception as raised:
            error = raised
        finally:
            nursery.cancel_scope.cancel()
    if error is not None:
        raise error
    return player.account, failed


@asynccontextmanager
async def watched(session: Session) -> AsyncIterator[None]:
    """Keep an account of whatever happens in a session, beside those of the conversations played on it."""
    caller, account, begin_s = caller_of(session), Account(), trio.current_time()
    caller.accounts.append(account)

    def now_ms() -> float:
        return (trio.current_time() - begin_s) * 1000

    async def listen() -> None:
        account.end(now_ms(), await caller.listen(lambda message: account.observe(message, now_ms())))

    failed: Exception | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen, name="events")
        try:
            yield
        except Exception as error:
            failed = error
        finally:
            nursery.cancel_scope.cancel()
    if failed is not None:
        raise failed
