"""How soon a client that comes back hears something: from its new connection to the first event that it
missed, of as many as a journal holds."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import orjson
import trio

from duplex_trio.benchmarks.settings import EngineBenchSettings
from duplex_trio.benchmarks.wire_client import WireError, open_socket
from duplex_trio.clients.distribution import Distribution, distribution_summary
from duplex_trio.testing.raw_websocket import RawWebSocket
from duplex_trio.testing.server_process import ServedPort

_TARGET = "/v1/duplex?autostart=0"
_TEXT = "x" * 5_000
"""About as long as an audio delta; an item with it makes three events."""
PATIENCE_S = 60.0


async def measure_resumes(server: ServedPort, settings: EngineBenchSettings) -> Distribution | None:
    """Fill a journal, then resume the session over and over and ask for all of it; microseconds.

    Raises:
        WireError: the server did something else.
    """
    with trio.fail_after(PATIENCE_S):
        client = await open_socket(server, _TARGET)
        await client.send_text('{"type":"session.update","session":{}}')
        created = orjson.loads(await anext(_messages(client)))
        await _fill(client, settings.journal_bytes)
        session_id, token = created["session"]["id"], created["resume_token"]
        readings = []
        for attempt in range(settings.resumes):
            await client.aclose()
            started_s = time.perf_counter()
            client = await open_socket(server, _TARGET)
            token = await _resume(client, session_id, token, attempt)
            readings.append((time.perf_counter() - started_s) * 1e6)
        await client.send_text('{"type":"session.close"}')
        await client.aclose()
    return distribution_summary(readings)


async def _fill(client: RawWebSocket, journal_bytes: int) -> None:
    """Have the server say so much."""
    content = [{"type": "input_text", "text": _TEXT}]
    item = {"type": "message", "role": "user", "content": content}
    create = orjson.dumps({"type": "conversation.item.create", "item": item}).decode()
    said = 0
    while said < journal_bytes - 4 * len(_TEXT):
        await client.send_text(create)
        async for message in _messages(client):
            said += len(message)
            if b'"conversation.item.done"' in message:
                break


async def _resume(client: RawWebSocket, session_id: str, token: str, attempt: int) -> str:
    """Ask for everything and wait for the first of it; returns the next token."""
    request: dict[str, Any] = {
        "type": "session.resume",
        "session_id": session_id,
        "resume_token": token,
        "last_received_server_event_seq": 0,
        "attempt": attempt,
    }
    await client.send_text(orjson.dumps(request).decode())
    messages = _messages(client)
    resumed = orjson.loads(await anext(messages))
    if resumed["type"] != "session.resumed":
        raise WireError(f"the resume was answered with {resumed}")
    first = orjson.loads(await anext(messages))
    if first["server_event_seq"] != 1:
        raise WireError(f"the first event that was replayed is {first['server_event_seq']}")
    return str(resumed["resume_token"])


async def _messages(client: RawWebSocket) -> AsyncIterator[bytes]:
    while (received := await client.receive()) is not None:
        yield received.payload
    raise WireError("the server closed a connection")
