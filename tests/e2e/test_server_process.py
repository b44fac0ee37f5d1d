"""The `serve` command as a process: what it prints, how it stops, and how it fails."""

import signal
import socket
import subprocess
from pathlib import Path

import orjson
import pytest
import trio

from duplex_trio.testing.raw_websocket import CLOSE, RawWebSocket, upgrade_request
from duplex_trio.testing.serve_command import serve_arguments, serve_command, serve_environment

pytestmark = pytest.mark.e2e


async def last_frame(client: RawWebSocket) -> tuple[int, str]:
    """Read to the close frame, answer nothing, and return what it says."""
    with trio.fail_after(60):
        while (received := await client.receive()) is not None and received.opcode != CLOSE:
            pass
    assert received is not None, "the server closed without a close frame"
    return received.close_code, received.close_reason


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_gives_sessions_their_time_and_then_closes_them_with_a_reason(
    tmp_path: Path, number: signal.Signals
) -> None:
    async with serve_command(tmp_path, "--drain-timeout", "0.3") as server:
        live = await server.open()
        server.signal(number)
        assert await last_frame(live) == (1001, "server_shutdown")
        assert await server.exit_code() == 0
        await live.aclose()
        assert "Traceback" not in server.log.read_text()


async def test_a_draining_server_refuses_and_ends_when_the_last_session_has_left(tmp_path: Path) -> None:
    async with serve_command(tmp_path, "--drain-timeout", "600") as server:
        live = await server.open()
        assert await server.health() == 200
        server.signal()
        with trio.fail_after(30):
            while await server.health() != 503:
                await trio.lowlevel.checkpoint()
        late = await server.open()
        refusal = await late.receive()
        assert refusal is not None
        assert orjson.loads(refusal.payload)["error"]["code"] == "resource_exhausted"
        assert (await last_frame(late))[0] == 1013
        await late.aclose()
        await live.send_text('{"type":"session.close"}')
        assert await last_frame(live) == (1000, "client_close")
        await live.aclose()
        assert await server.exit_code() == 0


@pytest.mark.parametrize("path", ["native", "asgi"])
async def test_a_client_that_has_not_asked_for_a_session_yet_is_told_too(tmp_path: Path, path: str) -> None:
    async with serve_command(tmp_path, "--drain-timeout", "600", "--ws", path) as server:
        undecided = await RawWebSocket.open(server.port)
        await undecided.send(upgrade_request("/v1/duplex"))
        assert (await undecided.response_head())[0] == 101
        server.signal()
        refusal = await undecided.receive()
        assert refusal is not None
        assert orjson.loads(refusal.payload)["error"]["message"] == "the server is shutting down"
        assert await last_frame(undecided) == (1013, "resource_exhausted")
        await undecided.aclose()
        assert await server.exit_code() == 0


async def test_a_second_signal_ends_sessions_at_once_but_says_goodbye(tmp_path: Path) -> None:
    async with serve_command(tmp_path, "--drain-timeout", "600", "--host", "0.0.0.0") as server:
        live = await server.open()
        server.signal()
        with trio.fail_after(30):
            while await server.health() != 503:
                await trio.lowlevel.checkpoint()
        server.signal()
        assert await last_frame(live) == (1001, "server_shutdown")
        await live.aclose()
        assert await server.exit_code() == 0
        assert "server.open_to_everybody" in server.log.read_text()


async def test_the_log_has_a_line_per_thing_and_no_secret(tmp_path: Path) -> None:
    async with serve_command(
        tmp_path, "--log-json", "--host", "0.0.0.0", DUPLEX_TRIO_API_KEY="sk-secret-1,sk-secret-2"
    ) as server:
        client = await RawWebSocket.open(server.port)
        await client.send(upgrade_request("/v1/realtime", {"Authorization": "Bearer sk-secret-2"}))
        assert (await client.response_head())[0] == 101
        content = [{"type": "input_text", "text": "my-private-words"}]
        item = {"type": "message", "role": "user", "content": content}
        await client.send_text(orjson.dumps({"type": "conversation.item.create", "item": item}).decode())
        await client.send_text('{"type":"response.create"}')
        with trio.fail_after(30):
            while (
                received := await client.receive()
            ) is not None and b"response.done" not in received.payload:
                pass
        await client.aclose()
        server.signal()
        assert await server.exit_code() == 0
        lines = [orjson.loads(line) for line in server.log.read_text().splitlines()]
        events = [line["event"] for line in lines]
        assert "server.open_to_everybody" not in events  # there are keys
        assert {"client.attached", "session.opened", "session.closed", "server.stopped"} <= set(events)
        assert all("timestamp" in line and "level" in line for line in lines)
        everything = server.log.read_text() + server.output
        assert "sk-secret" not in everything
        assert "my-private-words" not in everything


def fails(*arguments: str) -> str:
    """Run the command; it must fail with one line, which is returned."""
    done = subprocess.run(
        serve_arguments(*arguments),
        capture_output=True,
        text=True,
        env=serve_environment(),
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done
    assert done.stdout == ""
    (line,) = done.stderr.strip().splitlines()
    return line


def test_a_faulty_deployment_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("base_config: scripted\nduplex_session: {max_sesions: 3}\n")
    line = fails("--deploy", str(path))
    assert line.startswith(
        f"duplex-trio: {path}:2:18: unknown key 'max_sesions' at duplex_session (did you mean max_sessions?)"
    )


def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = fails("--deploy", "scripted", "--port", str(port))
    assert line == f"duplex-trio: cannot listen on 127.0.0.1:{port}: Address already in use"
