"""A conversation that a client holds step by step, and what is left of it when all that depends on the clock
is taken away: equal for two conversations in which the same was said, whatever their networks did."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pybase64
import trio
from attrs import Factory, define, field

from duplex_trio.clients import DuplexClient, EventStream

RATE_HZ, FRAME_MS = 16_000, 100
FRAME_EVERY_S = 0.07
"""Somewhat faster than real time; what is heard does not depend on it."""
EVENTS_MAX = 100_000

UNTIMED = frozenset(
    {
        "session.heartbeat_ack",
        "overlap.decision",
        "conversation.item.input_audio_transcription.delta",
        "output_audio_buffer.started",
        "output_audio_buffer.stopped",
        "output_audio_buffer.cleared",
        "playback.acknowledged",
        "rate_limits.updated",
        "session.closed",
    }
)
"""Events that come earlier, later, or not at all, depending on the clock alone, and those behind the end of a step."""


@define
class Said:
    """One response as it was told, over whichever connections."""

    status: str = ""
    sound: bytes = b""
    transcript: str = ""

    def is_like(self, other: Said) -> bool:
        """Whether the same was said; of what was cancelled one may have been told more."""
        if self.status == "completed":
            return self == other
        shorter, longer = sorted((self.sound, other.sound), key=len)
        return self.status == other.status and longer.startswith(shorter)


@define
class Step:
    """What happened in one step: the kinds of the events, without how answers were cut into pieces, and the
    answers."""

    name: str
    kinds: list[str]
    said: list[Said]


@define(eq=False)
class Talk:
    """One client, and everything it sent and was told.

    Attributes:
        client: not open yet, so that nothing is missed.
        events: the events so far.
        sent: types and ids of the commands so far.
    """

    client: DuplexClient
    events: list[dict[str, Any]] = Factory(list)
    sent: list[tuple[str, str]] = Factory(list)
    _begins: list[tuple[str, int]] = Factory(list)
    _stream: EventStream = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._stream = self.client.events(events_max=EVENTS_MAX)

    async def play(self, step: StepFunction) -> None:
        """Do one of the steps below."""
        self._begins.append((step.__name__, len(self.events)))
        await step(self)

    async def until(self, kind: str, number: int = 1) -> dict[str, Any]:
        """Listen until so many events of a kind have come; returns the last of them."""
        while True:
            event = dict((await anext(self._stream)).raw)
            self.events.append(event)
            number -= event["type"] == kind
            if not number:
                return event

    async def listen_to_the_end(self) -> None:
        """Take what is left of a session that is over."""
        self.events += [dict(event.raw) async for event in self._stream]

    async def say(self, command: Mapping[str, Any]) -> None:
        """Send a command."""
        self.sent.append((command["type"], await self.client.send(command)))

    async def sound(self, seconds: float, *, loud: bool) -> None:
        """Speak or be silent."""
        time_s = np.arange(RATE_HZ * FRAME_MS // 1000) / RATE_HZ
        pcm = (8000 * np.sin(2 * np.pi * 200 * time_s) * loud).astype("<i2").tobytes()
        for _ in range(round(seconds * 1000 / FRAME_MS)):
            self.sent.append(("input_audio_buffer.append", await self.client.append_audio(pcm)))
            await trio.sleep(FRAME_EVERY_S)

    async def write(self, text: str) -> None:
        """Write a message and ask for an answer."""
        content = [{"type": "input_text", "text": text}]
        await self.add({"type": "message", "role": "user", "content": content})

    async def add(self, item: Mapping[str, Any]) -> None:
        """Add an item and ask for an answer."""
        await self.say({"type": "conversation.item.create", "item": item})
        await self.say({"type": "response.create"})

    def steps(self) -> list[Step]:
        """What happened in each step so far."""
        ends = [begin for _, begin in self._begins[1:]] + [len(self.events)]
        return [
            essence(name, self.events[begin:end])
            for (name, begin), end in zip(self._begins, ends, strict=True)
        ]


def essence(name: str, events: Sequence[Mapping[str, Any]]) -> Step:
    """Take from events what does not depend on the clock."""
    said: dict[str, Said] = defaultdict(Said)
    kinds: list[str] = []
    for event in events:
        match event["type"]:
            case "response.output_audio.delta":
                said[event["response_id"]].sound += pybase64.b64decode(event["delta"])
            case "response.output_audio_transcript.delta":
                said[event["response_id"]].transcript += event["delta"]
            case kind if "server_event_seq" in event and kind not in UNTIMED:
                kinds.append(kind)
        if event["type"] == "response.done":
            said[event["response"]["id"]].status = event["response"]["status"]
    return Step(name, kinds, list(said.values()))


StepFunction = Callable[[Talk], Awaitable[None]]

# ---------------------------------------------------------------------- steps, each to its end


async def speak(talk: Talk) -> None:
    """A spoken turn and its answer."""
    await talk.sound(0.5, loud=True)
    await talk.sound(0.7, loud=False)
    await talk.until("response.done")


async def write(talk: Talk) -> None:
    """A written turn and its answer."""
    await talk.write("middle")
    await talk.until("response.done")


async def write_twice(talk: Talk) -> None:
    """Two short turns, and a command that is refused between them."""
    await talk.write("short")
    await talk.until("response.done")
    await talk.say({"type": "conversation.item.retrieve", "item_id": "nobody"})
    await talk.until("error")
    await talk.write("short")
    await talk.until("response.done")


async def cancel(talk: Talk) -> None:
    """A long answer that is called off."""
    await talk.write("long")
    await talk.until("response.output_audio.delta", 3)
    await talk.say({"type": "response.cancel"})
    await talk.until("response.done")


async def interrupt(talk: Talk) -> None:
    """A long answer that is talked into, and the answer to that."""
    await talk.write("long")
    await talk.until("response.output_audio.delta", 2)
    await talk.sound(0.5, loud=True)
    await talk.sound(0.7, loud=False)
    await talk.until("response.done", 2)


async def call(talk: Talk) -> None:
    """A turn that has a function called, and the answer to its result."""
    await talk.write("weather")
    called = await talk.until("response.function_call_arguments.done")
    await talk.until("response.done")
    await talk.add({"type": "function_call_output", "call_id": called["call_id"], "output": "middle"})
    await talk.until("response.done")
