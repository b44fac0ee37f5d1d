"""HTTPS and WSS, on both WebSocket paths, and what is thrown at a port that speaks TLS."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import orjson
import pytest
import trio
import trustme

from duplex_trio.entrypoints.duplex_omni import DuplexOmni
from duplex_trio.models.scripted.pipeline import ScriptedPipeline
from duplex_trio.models.scripted.script import Script
from duplex_trio.serving.address import ServerAddress
from duplex_trio.serving.options import ServeOptions
from duplex_trio.serving.run import run_server
from duplex_trio.testing.raw_websocket import CLOSE, FIN, PING, TEXT, RawWebSocket, frame, upgrade_request

pytestmark = pytest.mark.e2e

Tls = trio.SSLStream[trio.SocketStream]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def files(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The certificate of this machine and its key, as the options take them."""
    folder = tmp_path_factory.mktemp("tls")
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    paths = {"certfile": folder / "cert.pem", "keyfile": folder / "key.pem"}
    for blob in certificate.cert_chain_pems:
        blob.write_to_path(str(paths["certfile"]), append=True)
    certificate.private_key_pem.write_to_path(str(paths["keyfile"]))
    return {name: str(path) for name, path in paths.items()}


@pytest.fixture(params=["native", "asgi"])
async def address(
    request: pytest.FixtureRequest, nursery: trio.Nursery, files: dict[str, str]
) -> ServerAddress:
    def make_omni() -> DuplexOmni:
        return DuplexOmni(ScriptedPipeline(script=Script(word_ms=20)), max_sessions=4, warm_up=False)

    options = ServeOptions(port=0, ws=request.param, **files)
    started: ServerAddress = await nursery.start(partial(run_server, make_omni, options))
    return started


@asynccontextmanager
async def encrypted(address: ServerAddress, authority: trustme.CA, *protocols: str) -> AsyncIterator[Tls]:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    context.set_alpn_protocols(protocols or ("http/1.1",))
    tcp = await trio.open_tcp_stream("127.0.0.1", address.port)
    stream = trio.SSLStream(tcp, context, server_hostname="127.0.0.1", https_compatible=True)
    try:
        await stream.do_handshake()
        yield stream
    finally:
        await trio.aclose_forcefully(stream)


async def text_turn(client: RawWebSocket) -> None:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}
    await client.send_text(orjson.dumps({"type": "conversation.item.create", "item": item}).decode())
    await client.send_text('{"type":"response.create"}')
    with trio.fail_after(30):
        while b'"response.done"' not in (received := await client.receive()).payload:  # type: ignore[union-attr]
            assert received is not None
    assert b"You said: hello" in received.payload


@asynccontextmanager
async def session(address: ServerAddress, authority: trustme.CA) -> AsyncIterator[RawWebSocket]:
    async with encrypted(address, authority) as stream:
        client = RawWebSocket(stream)  # type: ignore[arg-type]  # it only sends and receives
        await client.send(upgrade_request("/v1/realtime?model=m"))
        assert (await client.response_head())[0] == 101
        yield client


async def test_the_addresses_say_so(address: ServerAddress) -> None:
    assert address.http_url == f"https://127.0.0.1:{address.port}"
    assert address.ws_url == f"wss://127.0.0.1:{address.port}/v1/realtime"


async def test_a_turn_is_spoken_over_wss(address: ServerAddress, authority: trustme.CA) -> None:
    async with session(address, authority) as client:
        await text_turn(client)
        await client.send(
            frame(TEXT, b'{"type":') + frame(FIN | PING, b"p") + frame(FIN, b'"session.close"}')
        )
        with trio.fail_after(30):
            while (received := await client.receive()) is not None and received.opcode != CLOSE:
                pass
        assert received is not None
        assert (received.close_code, received.close_reason) == (1000, "client_close")


async def test_a_large_message_comes_over_wss(address: ServerAddress, authority: trustme.CA) -> None:
    async with session(address, authority) as client:
        await client.send_text('{"type":"session.heartbeat","x":"' + "x" * (15 * 2**20) + '"}')
        with trio.fail_after(30):
            while b"event_too_large" not in (received := await client.receive()).payload:  # type: ignore[union-attr]
                assert received is not None
        await text_turn(client)


async def test_a_broken_rule_is_a_close_frame_over_wss(address: ServerAddress, authority: trustme.CA) -> None:
    async with session(address, authority) as client:
        await client.send(frame(FIN | TEXT, b"\xff"))
        with trio.fail_after(30):
            while (received := await client.receive()) is not None and received.opcode != CLOSE:
                pass
        assert received is not None
        assert received.close_code == 1007


async def test_https_is_served_on_the_same_port(address: ServerAddress, authority: trustme.CA) -> None:
    async with encrypted(address, authority) as stream:
        client = RawWebSocket(stream)  # type: ignore[arg-type]
        for _ in range(2):
            await client.send(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            status, headers = await client.response_head()
            assert status == 200
            body = await client.read(int(headers["content-length"]))
            assert body.startswith(b'{"status":"ready"')


async def test_http2_is_hypercorns(address: ServerAddress, authority: trustme.CA) -> None:
    async with encrypted(address, authority, "h2", "http/1.1") as stream:
        assert stream.selected_alpn_protocol() == "h2"
        with trio.fail_after(30):
            first = bytes(await stream.receive_some(9))
        assert first[3:4] == b"\x04"  # its settings


NO_TLS = {
    "nothing": b"",
    "plain HTTP": b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n",
    "a plain upgrade": upgrade_request("/v1/realtime"),
    "half a hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "zeros": bytes(1000),
}


@pytest.mark.parametrize("sent", NO_TLS.values(), ids=NO_TLS)
async def test_who_speaks_no_tls_disturbs_nobody(
    address: ServerAddress, authority: trustme.CA, sent: bytes
) -> None:
    async with session(address, authority) as witness:
        client = await RawWebSocket.open(address.port)
        if sent:
            await client.send(sent)
        await text_turn(witness)
        await client.stream.send_eof()
        with trio.fail_after(30):
            assert await client.at_end()
        await client.aclose()
        async with session(address, authority) as newcomer:
            await text_turn(newcomer)


@pytest.mark.parametrize("cut", [1, 20, 60])
async def test_a_client_that_leaves_in_its_head_over_tls(
    address: ServerAddress, authority: trustme.CA, cut: int
) -> None:
    async with encrypted(address, authority) as stream:
        await stream.send_all(upgrade_request("/v1/realtime")[:cut])
    async with session(address, authority) as newcomer:
        await text_turn(newcomer)


async def test_a_client_that_resets_in_a_frame_over_tls(
    address: ServerAddress, authority: trustme.CA
) -> None:
    async with session(address, authority) as client:
        await client.send(frame(FIN | TEXT, b"x" * 30)[:9])
    async with session(address, authority) as newcomer:
        await text_turn(newcomer)
