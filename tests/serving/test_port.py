"""What the port becomes: native where it can be, through ASGI where hypercorn is not what it was, TLS or an error."""

from functools import partial
from pathlib import Path
from typing import Any

import hypercorn.trio.run
import orjson
import pytest
import structlog
import trio
from hypercorn.trio.tcp_server import TCPServer

from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.serving.guards import GuardsUnavailableError
from duplex_trio.serving.listener import ListeningTCPServer, install_hook
from duplex_trio.serving.options import ServeOptions
from duplex_trio.serving.port import TlsUnavailableError, prepare_port
from duplex_trio.serving.run import run_server
from duplex_trio.testing.raw_websocket import RawWebSocket, upgrade_request


class Renamed(TCPServer):
    """What another version might have in its place."""


@pytest.fixture
def other_hypercorn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hypercorn.trio.run, "TCPServer", Renamed)


def test_native_is_the_default_and_can_be_declined() -> None:
    assert prepare_port(ServeOptions()).native
    assert not prepare_port(ServeOptions(ws="asgi")).native
    make: Any = hypercorn.trio.run.TCPServer
    assert isinstance(make(None, prepare_port(ServeOptions()), None, None, None), ListeningTCPServer)


@pytest.mark.usefixtures("other_hypercorn")
def test_another_hypercorn_has_no_hook() -> None:
    with pytest.raises(GuardsUnavailableError, match=r"hypercorn\.trio\.run\.TCPServer"):
        install_hook()


@pytest.mark.parametrize("method", ["run", "protocol_send", "_read_data"])
def test_a_hook_without_its_methods_is_none(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    monkeypatch.delattr(TCPServer, method)
    with pytest.raises(GuardsUnavailableError, match=method):
        install_hook()


@pytest.mark.e2e
@pytest.mark.usefixtures("other_hypercorn")
async def test_without_the_hook_the_server_says_so_and_serves_through_asgi(nursery: trio.Nursery) -> None:
    def make_omni() -> DuplexOmni:
        return DuplexOmni(ScriptedPipeline(), max_sessions=2, warm_up=False)

    with structlog.testing.capture_logs() as lines:
        address = await nursery.start(partial(run_server, make_omni, ServeOptions(port=0)))
        client = await RawWebSocket.open(address.port)
        await client.send(upgrade_request("/v1/realtime?model=m"))
        status, headers = await client.response_head()
        assert (status, "date" in headers) == (101, True)  # hypercorn's answer
        created = await client.receive()
        assert created is not None
        assert orjson.loads(created.payload)["type"] == "session.created"
        await client.aclose()
    warnings = [line for line in lines if line["log_level"] == "warning"]
    assert [line["event"] for line in warnings] == ["server.native_websockets_unavailable"]
    assert "hypercorn.trio.run.TCPServer" in warnings[0]["why"]


def test_a_certificate_that_is_none_is_said_before_anything_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "c.pem"
    for text in (None, "no certificate"):
        if text is not None:
            path.write_text(text)
        with pytest.raises(TlsUnavailableError, match=r"c\.pem"):
            prepare_port(ServeOptions(certfile=str(path), keyfile=str(path)))
