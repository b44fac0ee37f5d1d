"""An HTTP answer that is a stream of server-sent events, as OpenAI's clients read it."""

from __future__ import annotations

import orjson
from attrs import define, field

from duplex_trio.serving.asgi import Send

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # a proxy that gathers the stream defeats it
]
COMMENT = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"


@define(eq=False)
class EventStream:
    """One stream. It starts with the first thing that is sent; until then the answer may still be another one.

    Args:
        send: takes the answer's messages.
    """

    send: Send
    started: bool = field(default=False, init=False)

    async def event(self, value: object) -> None:
        """Send an object."""
        await self._write(b"data: " + orjson.dumps(value) + b"\n\n")

    async def keep_alive(self) -> None:
        """Show that the answer is still being made; clients pass over it."""
        await self._write(COMMENT)

    async def end(self) -> None:
        """Say that this was all."""
        await self._write(DONE, more=False)

    async def _write(self, data: bytes, *, more: bool = True) -> None:
        if not self.started:
            self.started = True
            await self.send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
        await self.send({"type": "http.response.body", "body": data, "more_body": more})
