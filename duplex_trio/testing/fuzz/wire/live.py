"""A session that goes on beside a storm of bytes, and the process it is served by, looked at from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import trio
from attrs import define, frozen

from duplex_trio.testing.raw_websocket import RawWebSocket, upgrade_request

TURN_TIMEOUT_S = 120.0
_PAGE_BYTES = 4096


@frozen
class Answer:
    """What one turn brought: the words, and how many bytes of sound."""

    words: str
    sound_bytes: int


@define(eq=False)
class LiveSession:
    """One WebSocket with a session, in OpenAI's dialect."""

    socket: RawWebSocket

    @classmethod
    async def open(cls, port: int) -> LiveSession:
        """Connect, and wait for the session.

        Raises:
            AssertionError: the server refuses.
        """
        socket = await RawWebSocket.open(port)
        await socket.send(upgrade_request("/v1/realtime?model=live"))
        status, _ = await socket.response_head()
        assert status == 101, f"the upgrade was answered with {status}"
        session = cls(socket)
        await session._until("session.created")
        return session

    async def turn(self, text: str) -> Answer:
        """Write something and take in the whole answer.

        Raises:
            AssertionError: there is no whole answer.
        """
        part = {"type": "input_text", "text": text}
        item = {"type": "message", "role": "user", "content": [part]}
        await self._send({"type": "conversation.item.create", "item": item})
        await self._send({"type": "response.create"})
        done = await self._until("response.done")
        assert done[-1]["response"]["status"] == "completed", done[-1]
        words = "".join(event["delta"] for event in done if event["type"].endswith("transcript.delta"))
        sound = sum(len(event["delta"]) for event in done if event["type"] == "response.output_audio.delta")
        return Answer(words, sound)

    async def aclose(self) -> None:
        """Leave."""
        await self.socket.aclose()

    async def _send(self, message: object) -> None:
        await self.socket.send_text(orjson.dumps(message).decode())

    async def _until(self, event_type: str) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = []
        with trio.fail_after(TURN_TIMEOUT_S):
            while not events or events[-1]["type"] != event_type:
                frame = await self.socket.receive()
                assert frame is not None, f"the connection ended after {events[-3:]}"
                if frame.opcode == 0x1:
                    events.append(orjson.loads(frame.payload))
                    assert events[-1]["type"] != "error", events[-1]
                assert frame.opcode != 0x8, f"closed: {frame.close_code} {frame.close_reason}"
        return events


def resident_bytes(pid: int) -> int:
    """Memory of a process that is in RAM. Linux only."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES


def open_files(pid: int) -> int:
    """Open files and sockets of a process. Linux only."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))
