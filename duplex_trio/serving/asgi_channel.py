"""A WebSocket over an ASGI server: any one, with its own framing, pings and limits."""

from __future__ import annotations

from collections.abc import Iterable

import trio

from duplex_trio.serving.asgi import Receive, Scope, Send
from duplex_trio.serving.channel import ChannelClosedError, Header, UpgradeRequest, WebSocketChannel


class AsgiChannel(WebSocketChannel):
    """The channel of one ASGI connection, of which `websocket.connect` has been received."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        self._request = UpgradeRequest(
            path=scope["path"],
            query=scope["query_string"],
            headers=tuple((bytes(name), bytes(value)) for name, value in scope["headers"]),
            subprotocols=tuple(scope.get("subprotocols", ())),
            client=f"{client[0]}:{client[1]}" if client else "unknown",
        )
        self._can_explain = "websocket.http.response" in scope.get("extensions", {})
        self._receive = receive
        self._send = send
        self._cut = False  # a pair, between its halves

    @property
    def request(self) -> UpgradeRequest:
        """What was asked for."""
        return self._request

    async def accept(self, subprotocol: str | None) -> None:
        """Let the server answer the handshake."""
        await self._send({"type": "websocket.accept", "subprotocol": subprotocol})

    async def deny(self, status: int, body: bytes, headers: Iterable[Header]) -> None:
        """Answer with an HTTP response; a plain 403 where the server offers nothing better."""
        if not self._can_explain:
            await self._send({"type": "websocket.close"})
            return
        all_headers = [*headers, (b"content-length", str(len(body)).encode())]
        await self._send({"type": "websocket.http.response.start", "status": status, "headers": all_headers})
        await self._send({"type": "websocket.http.response.body", "body": body})

    async def receive(self) -> str | None:
        """Wait for the next message."""
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            raise ChannelClosedError(message.get("code", 1006))
        text: str | None = message.get("text")
        return text

    async def send(self, text: bytes) -> None:
        """Write one text message."""
        if self._cut:
            raise trio.BrokenResourceError("the WebSocket was left in the middle of a pair")
        await self._send({"type": "websocket.send", "text": text.decode()})

    async def send_pair(self, text: bytes, data: bytes) -> None:
        """Write two messages. Cancelled between them, the WebSocket is good for a close frame alone."""
        await self.send(text)
        self._cut = True
        await self._send({"type": "websocket.send", "bytes": data})
        self._cut = False

    async def close(self, code: int, reason: str) -> None:
        """Write the close frame."""
        await self._send({"type": "websocket.close", "code": code, "reason": reason})
