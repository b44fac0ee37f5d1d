"""What the client programs share: a microphone, a list of what came, and lines that tell the test what
happened.

These programs are users of published client libraries; they know nothing of the server's package.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

API_KEY = "sk-test"
RATE_HZ = 24_000
CHUNK_S = 0.02
PATIENCE_S = 40.0

GREETING = "hello there"
LONG = "please tell me everything that you know about the sea and the ships that cross it every day and night"
LAST = "are you still there"
WEATHER = "what is the weather in Paris"
WEATHER_SAID = "look up the weather in Paris"
TOOL = {
    "name": "get_weather",
    "description": "Look up the weather of a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}


def weather(city: str) -> str:
    """What the tool of the clients answers."""
    return f"sunny in {city}"


SPEECH_FOLDER = os.environ.get("SPEECH_FOLDER")
"""Where real speech is, for a server whose models hear; without it the model is the scripted one."""


def speech(name: str, seconds: float) -> bytes:
    """16 bit PCM: what is said at this point, or a tone that voice activity by loudness takes for speech."""
    if SPEECH_FOLDER is not None:
        return (Path(SPEECH_FOLDER) / f"{name}.pcm").read_bytes()
    samples = [int(9000 * math.sin(2 * math.pi * 440 * i / RATE_HZ)) for i in range(int(seconds * RATE_HZ))]
    return struct.pack(f"<{len(samples)}h", *samples)


def report(turn: str, **facts: Any) -> None:
    """Tell the test what the client saw."""
    print(json.dumps({"turn": turn, **facts}), flush=True)


class Microphone:
    """Sends sound in real time: what is to be said, and silence else."""

    def __init__(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._send = send
        self._waiting = b""

    def say(self, pcm: bytes) -> None:
        self._waiting += pcm

    @asynccontextmanager
    async def on(self) -> AsyncIterator[Microphone]:
        task = asyncio.create_task(self._run())
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.result()

    async def _run(self) -> None:
        size = int(RATE_HZ * CHUNK_S) * 2
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            chunk, self._waiting = self._waiting[:size], self._waiting[size:]
            await self._send(chunk.ljust(size, b"\0"))
            due_s += CHUNK_S
            await asyncio.sleep(max(0.0, due_s - loop.time()))


class Heard:
    """What has come so far, in order, and a way to wait for more of it.

    A program looks for one thing after the other: each wait goes on where the one before it stopped.
    """

    def __init__(self) -> None:
        self._things: list[Any] = []
        self._changed = asyncio.Event()
        self._fault: str | None = None

    def add(self, thing: Any) -> None:
        self._things.append(thing)
        self._changed.set()

    def fail(self, fault: str) -> None:
        """Whoever waits gets the fault instead."""
        self._fault = fault
        self._changed.set()

    async def until(self, matches: Callable[[Any], bool], what: str) -> list[Any]:
        """Everything up to the first thing that matches, which is the last of them."""
        passed: list[Any] = []
        try:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    if self._fault is not None:
                        raise RuntimeError(self._fault)
                    while self._things:
                        passed.append(self._things.pop(0))
                        if matches(passed[-1]):
                            return passed
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise TimeoutError(f"no {what} came") from None

    async def next(self, matches: Callable[[Any], bool], what: str) -> Any:
        """The first thing that matches."""
        return (await self.until(matches, what))[-1]
