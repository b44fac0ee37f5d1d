"""Steps of a program that a client takes while all is well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trio
from attrs import field, frozen

from duplex_trio.protocol.duplex import (
    AckPlayback,
    CancelResponse,
    ClearOutputAudio,
    CloseSession,
    DeleteItem,
    DuplexCommand,
    RetrieveItem,
    TruncateItem,
)
from duplex_trio.testing.program.scene import Scene, Step


@frozen
class Send(Step):
    """The client sends a command."""

    command: DuplexCommand

    async def play(self, scene: Scene) -> None:
        """Submit it."""
        if isinstance(self.command, CloseSession):
            scene.endings.add(self.command.reason)
        scene.talker.send(self.command)


@frozen
class Append(Step):
    """Sound comes, all in one message, and perhaps what the client says about it."""

    milliseconds: int
    loud: bool
    hints: Mapping[str, Any] = field(factory=dict)

    async def play(self, scene: Scene) -> None:
        """Append it."""
        scene.talker.append(self.milliseconds, loud=self.loud, **self.hints)


@frozen
class Talk(Step):
    """Sound comes in real time."""

    seconds: float
    loud: bool

    async def play(self, scene: Scene) -> None:
        """Append it piece by piece."""
        await (scene.talker.speak if self.loud else scene.talker.pause)(self.seconds)


@frozen
class Turn(Step):
    """The user speaks in real time, and is silent until that is understood."""

    seconds: float

    async def play(self, scene: Scene) -> None:
        """Append it piece by piece."""
        await scene.talker.turn(self.seconds)


@frozen
class Wait(Step):
    """Time goes by."""

    seconds: float

    async def play(self, scene: Scene) -> None:
        """Sleep."""
        await trio.sleep(self.seconds)


@frozen
class Write(Step):
    """The client writes, and asks for an answer."""

    text: str

    async def play(self, scene: Scene) -> None:
        """Send both commands."""
        scene.talker.write(self.text)


@frozen
class Ack(Step):
    """The client acknowledges playback of a response, 0 being the latest."""

    back: int
    played_ms: int

    async def play(self, scene: Scene) -> None:
        """Name the response by its id."""
        scene.talker.send(AckPlayback(response_id=scene.response_id(self.back), played_ms=self.played_ms))


@frozen
class Truncate(Step):
    """The client cuts an item of the conversation."""

    index: int
    audio_end_ms: int

    async def play(self, scene: Scene) -> None:
        """Name the item by its id."""
        scene.talker.send(TruncateItem(item_id=scene.item_id(self.index), audio_end_ms=self.audio_end_ms))


@frozen
class Delete(Step):
    """The client deletes an item of the conversation."""

    index: int

    async def play(self, scene: Scene) -> None:
        """Name the item by its id."""
        scene.talker.send(DeleteItem(item_id=scene.item_id(self.index)))


@frozen
class Retrieve(Step):
    """The client asks for an item of the conversation."""

    index: int

    async def play(self, scene: Scene) -> None:
        """Name the item by its id."""
        scene.talker.send(RetrieveItem(item_id=scene.item_id(self.index)))


@frozen
class Cancel(Step):
    """The client cancels a response by its id."""

    back: int

    async def play(self, scene: Scene) -> None:
        """Name the response."""
        scene.talker.send(CancelResponse(response_id=scene.response_id(self.back)))


@frozen
class Flush(Step):
    """The client stops the sound of a response by its id."""

    back: int

    async def play(self, scene: Scene) -> None:
        """Name the response."""
        scene.talker.send(ClearOutputAudio(response_id=scene.response_id(self.back)))


@frozen
class AckEvents(Step):
    """The client acknowledges all events that it has but the latest so many."""

    but: int

    async def play(self, scene: Scene) -> None:
        """Name the last one by its number."""
        talker = scene.talker
        talker.handle.ack_events(max(0, talker.heard.last_seq - self.but))
