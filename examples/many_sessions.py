"""What becomes of sessions: one too many, one that loses its line, one that is taken over, one that is forgotten.

    duplex-trio serve --deploy scripted --max-sessions 2     # in another terminal
    python examples/many_sessions.py

The server is told how many sessions it may have; the rest can be seen on any.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Awaitable, Callable

import trio
import trio_websocket

from duplex_trio.clients import (
    DuplexClient,
    DuplexClientError,
    DuplexProtocolError,
    DuplexSessionClosedError,
    DuplexSessionReplacedError,
    first_error,
)
from duplex_trio.clients.events import SessionCreated
from duplex_trio.clients.transport import open_stream
from duplex_trio.protocol.duplex import SessionResume, encode_command


class Line:
    """A `connect` for a client whose connection can be cut."""

    def __init__(self) -> None:
        self.streams: list[trio.abc.Stream] = []

    async def connect(self, host: str, port: int, tls: bool) -> trio.abc.Stream:
        """Open a connection, and remember it."""
        self.streams.append(await open_stream(host, port, tls))
        return self.streams[-1]

    async def cut(self) -> None:
        """Hang up without a word, as a network does."""
        await trio.aclose_forcefully(self.streams[-1])


async def admission(args: argparse.Namespace, opened: int = 0) -> str:
    """Open sessions, one inside of the other, until the server has no place for another."""
    if opened == args.most:
        return f"{opened} sessions, and room for more"
    try:
        async with DuplexClient(args.url, api_key=args.api_key):
            return await admission(args, opened + 1)
    except DuplexProtocolError as refused:
        return f"{opened} sessions; one more is refused: {refused.code}"


async def resume(args: argparse.Namespace) -> str:
    """Lose the connection in the middle of an answer, and miss nothing of it."""
    line = Line()
    async with DuplexClient(args.url, api_key=args.api_key, connect=line.connect) as client:
        events = client.events()
        await client.create_item("Tell me something.")
        await client.create_response()
        await events.wait_for("response.output_audio.delta")
        await line.cut()
        await events.wait_for("connection.resumed")
        done = await events.wait_for("response.done")
        status = done.raw["response"]["status"]
        return f"cut in mid-answer, resumed over connection {len(line.streams)}, the answer is {status}"


async def takeover(args: argparse.Namespace) -> str:
    """Let a second connection take the session over, with the token that the first one was given."""
    first = DuplexClient(args.url, api_key=args.api_key)
    events = first.events()
    async with first:
        created = await events.wait_for("session.created")
        assert isinstance(created, SessionCreated)
        request = SessionResume(
            session_id=first.session_id or "",
            resume_token=created.resume_token or "",
            last_received_server_event_seq=0,
        )
        headers = [] if args.api_key is None else [("Authorization", f"Bearer {args.api_key}")]
        async with trio_websocket.open_websocket_url(first.url, extra_headers=headers) as second:
            await second.send_message(encode_command(request).decode())
            try:
                async for _event in events:
                    pass
                await first.heartbeat()
            except DuplexSessionReplacedError as replaced:
                answer = json.loads(await second.get_message())["type"]
                return f"the second heard {answer}, the first {replaced}"
    return "the first client was not told"


async def expiry(args: argparse.Namespace) -> str:
    """Say nothing, and see how long the server waits (its `idle_ttl_s`)."""
    begin_s = trio.current_time()
    silent = DuplexClient(args.url, api_key=args.api_key, heartbeat_interval_s=1e6)
    async with silent:
        with trio.move_on_after(args.patience):
            try:
                async for _event in silent.events():
                    pass
            except DuplexSessionClosedError as closed:
                return f"{closed.reason} after {trio.current_time() - begin_s:.1f} s of silence"
        return f"still there after {args.patience:g} s of silence"


PARTS: dict[str, Callable[[argparse.Namespace], Awaitable[str]]] = {
    "admission": admission,
    "resume": resume,
    "takeover": takeover,
    "expiry": expiry,
}


async def main(args: argparse.Namespace) -> None:
    """Try one after the other, and tell."""
    for name in args.part or PARTS:
        print(f"{name:<10} {await PARTS[name](args)}", flush=True)


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="What becomes of sessions.")
    parser.add_argument("part", nargs="*", help=f"of {', '.join(PARTS)} (all)")
    parser.add_argument("--most", type=int, default=20, help="sessions to open at the most (20)")
    parser.add_argument("--patience", type=float, default=10.0, help="seconds to wait for the expiry (10)")
    parser.add_argument("--url", default=os.environ.get("DUPLEX_TRIO_URL", "ws://127.0.0.1:8765"))
    parser.add_argument("--api-key", default=os.environ.get("DUPLEX_TRIO_API_KEY"))
    args = parser.parse_args()
    if unknown := set(args.part) - set(PARTS):
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    return args


if __name__ == "__main__":
    try:
        trio.run(main, arguments())
    except* (DuplexClientError, ValueError, OSError) as group:
        sys.exit(f"many_sessions: {first_error(group)}")
