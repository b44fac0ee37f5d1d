"""What a WebSocket costs: a server in its own process with the scripted model, and one client that drives it.

Costs are CPU time of the server's process alone, from the kernel (Linux), with everything a message sets off.
"""

from __future__ import annotations

import time
from typing import Any

import orjson
import pybase64
import trio
from attrs import asdict, frozen

from duplex_trio.benchmarks.figures import Machine, process_cpu_s
from duplex_trio.benchmarks.resuming import measure_resumes
from duplex_trio.benchmarks.settings import EngineBenchSettings
from duplex_trio.benchmarks.wire_client import WireError, open_socket
from duplex_trio.clients.distribution import Distribution, distribution_summary
from duplex_trio.serving.options import Transport
from duplex_trio.testing.raw_websocket import FIN, PING, PONG, TEXT, RawWebSocket, frame
from duplex_trio.testing.server_process import ServedPort

APPENDS_MS = (20, 100)
_BYTES_PER_MS = 48
_MANUAL = {"type": "realtime", "audio": {"input": {"turn_detection": None}}}
_LONG_ANSWER = "on " * 200


@frozen(kw_only=True)
class WireCost:
    """One WebSocket path.

    Attributes:
        ws: which.
        sessions: connections that took part.
        turn_us: CPU time of a ping and its pong, in microseconds.
        append_us: CPU time of an append, a ping and its pong, by the append's milliseconds of sound.
        idle_session_bytes: memory of a session that is open, its connection included.
        barge_in_us: from sending `response.cancel` until `response.done` is read, over the wire.
        resume_us: from connecting anew until the first event that was missed is read, with a full journal.
    """

    ws: Transport
    sessions: int
    turn_us: float
    append_us: dict[int, float]
    idle_session_bytes: float
    barge_in_us: Distribution | None
    resume_us: Distribution | None


@frozen(kw_only=True)
class WireReport:
    """All figures of one run."""

    machine: Machine
    paths: tuple[WireCost, ...]

    def to_json(self) -> dict[str, Any]:
        """The report as plain values. Units end the names."""
        return {"benchmark": "wire", **asdict(self)}


async def measure_wire(ws: Transport, server: ServedPort, settings: EngineBenchSettings) -> WireCost:
    """Measure one server.

    Raises:
        WireError: it closed a connection.
    """
    before = server.resident_bytes()
    clients = [await _open(server) for _ in range(settings.append_sessions)]
    try:
        idle = (server.resident_bytes() - before) / len(clients)
        ping = frame(FIN | PING, b"")
        turn = await _drive(server, clients, ping, settings.appends)
        appends = {
            append_ms: await _drive(server, clients, _append(append_ms) + ping, settings.appends)
            for append_ms in APPENDS_MS
        }
        barge_ins = [await _barge_in(clients[0]) for _ in range(settings.cancels)]
    finally:
        for client in clients:
            await client.aclose()
    return WireCost(
        ws=ws,
        sessions=len(clients),
        turn_us=turn,
        append_us=appends,
        idle_session_bytes=idle,
        barge_in_us=distribution_summary(barge_ins),
        resume_us=await measure_resumes(server, settings),
    )


async def _open(server: ServedPort) -> RawWebSocket:
    client = await open_socket(server, "/v1/realtime?model=m")
    await _say(client, type="session.update", session=_MANUAL)
    await _until(client, b'"session.updated"')
    return client


def _append(append_ms: int) -> bytes:
    sound = pybase64.b64encode(bytes(append_ms * _BYTES_PER_MS)).decode()
    return frame(FIN | TEXT, orjson.dumps({"type": "input_audio_buffer.append", "audio": sound}))


async def _drive(server: ServedPort, clients: list[RawWebSocket], sent: bytes, count: int) -> float:
    """Send to all and wait for each one's pong, over and over; returns microseconds for each time."""
    rounds = max(1, count // len(clients))
    before_s = process_cpu_s(server.pid)
    for _ in range(rounds):
        for client in clients:
            await client.send(sent)
        for client in clients:
            while (received := await client.receive()) is not None and received.opcode != PONG:
                pass
            if received is None:
                raise WireError("the server closed a connection")
    cost_s = process_cpu_s(server.pid) - before_s
    for client in clients:  # what was appended is forgotten
        await _say(client, type="input_audio_buffer.clear")
    return cost_s / (rounds * len(clients)) * 1e6


async def _barge_in(client: RawWebSocket) -> float:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": _LONG_ANSWER}]}
    await _say(client, type="conversation.item.create", item=item)
    await _say(client, type="response.create")
    await _until(client, b'"response.output_audio.delta"')
    started_s = time.perf_counter()
    await _say(client, type="response.cancel")
    await _until(client, b'"response.done"')
    return (time.perf_counter() - started_s) * 1e6


async def _say(client: RawWebSocket, **message: Any) -> None:
    await client.send_text(orjson.dumps(message).decode())


async def _until(client: RawWebSocket, kind: bytes) -> None:
    with trio.fail_after(30):
        while (received := await client.receive()) is not None and kind not in received.payload:
            pass
    if received is None:
        raise WireError("the server closed a connection")
