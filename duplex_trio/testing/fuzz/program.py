"""What one client does, as a list of steps that hypothesis makes and shrinks."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pybase64
import trio
from attrs import define, field, frozen
from hypothesis import strategies as st

from duplex_trio.protocol.duplex.session import DialectName
from duplex_trio.testing.fuzz import judge
from duplex_trio.testing.fuzz.judge import Judge
from duplex_trio.testing.fuzz.messages import EVENT_ID, message_texts
from duplex_trio.testing.fuzz.scene import FuzzClient

CHUNK_MS = 20
_LOUD, _QUIET = (pybase64.b64encode_as_string(sample * 480) for sample in (b"\x00\x20", b"\x00\x00"))


@define(eq=False)
class Stage:
    """Where a program is played: the client, and whoever judges what it gets."""

    client: FuzzClient
    judge: Judge = field(factory=Judge)

    async def say(self, text: str) -> None:
        """Send a text; what cannot be read will have to be refused."""
        client = self.client
        if client.connection is None:
            await client.connect()
        text = client.with_ids(text).replace(EVENT_ID, client.fresh_event_id())
        number = len(client.connections) - 1
        opening = all(got.connection != number for got in client.received)
        self.judge.say(judge.read(text), opening=opening)
        client.send_text(text)

    async def settle(self) -> None:
        """Let everything be worked off that needs no time to go by, and look at the answers."""
        await trio.testing.wait_all_tasks_blocked()
        self.judge.look_at(self.client.received)
        connection = self.client.connection
        if connection is None:
            self.judge.forgive()
        elif connection.to_app.statistics().current_buffer_used == 0:
            self.judge.check_settled()


class Step(ABC):
    """Something that the client does."""

    @abstractmethod
    async def play(self, stage: Stage) -> None:
        """Do it."""


@frozen
class Say(Step):
    """It sends texts, one right after the other."""

    texts: tuple[str, ...]

    async def play(self, stage: Stage) -> None:
        """Send them."""
        for text in self.texts:
            await stage.say(text)


@frozen
class Speak(Step):
    """It sends sound in real time, loud or silent."""

    seconds: float
    loud: bool

    async def play(self, stage: Stage) -> None:
        """Append piece by piece."""
        for _ in range(round(self.seconds * 1000 / CHUNK_MS)):
            if stage.client.connection is None:
                return
            stage.client.send(type="input_audio_buffer.append", audio=_LOUD if self.loud else _QUIET)
            await trio.sleep(CHUNK_MS / 1000)


@frozen
class Wait(Step):
    """Time goes by."""

    seconds: float

    async def play(self, stage: Stage) -> None:
        """Sleep."""
        await trio.sleep(self.seconds)


@frozen
class Leave(Step):
    """Its connection is lost."""

    async def play(self, stage: Stage) -> None:
        """Lose it."""
        stage.judge.forgive()
        stage.client.leave()


@frozen
class ComeBack(Step):
    """It asks for its session over a new connection, whether or not the old one is lost."""

    leaves_first: bool

    async def play(self, stage: Stage) -> None:
        """Resume."""
        stage.judge.forgive()
        if self.leaves_first:
            stage.client.leave()
        await stage.client.come_back()


@frozen
class SayBytes(Step):
    """It sends a binary message."""

    data: bytes

    async def play(self, stage: Stage) -> None:
        """Send it."""
        if stage.client.connection is not None:
            stage.client.send_bytes(self.data)


def programs(dialect: DialectName) -> st.SearchStrategy[list[Step]]:
    """Programs of a client that speaks a dialect."""
    texts = message_texts(dialect)
    weighted: list[tuple[int, st.SearchStrategy[Step]]] = [
        (12, st.builds(Say, st.tuples(texts))),
        (4, st.builds(Say, st.lists(texts, min_size=2, max_size=6).map(tuple))),
        (3, st.builds(Speak, st.sampled_from([0.1, 0.6, 1.2]), st.booleans())),
        (3, st.builds(Wait, st.sampled_from([0.0, 0.05, 0.5, 3.0]))),
        (1, st.builds(Leave)),
        (1, st.builds(ComeBack, st.booleans())),
        (1, st.builds(SayBytes, st.binary(max_size=8))),
    ]
    steps = st.sampled_from([kind for weight, kind in weighted for _ in range(weight)]).flatmap(
        lambda kind: kind
    )
    return st.lists(steps, min_size=1, max_size=25)
