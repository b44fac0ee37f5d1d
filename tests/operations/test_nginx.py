"""The proxy in front of the server: it bears what the server does; read, and run where nginx is installed."""

from __future__ import annotations

import re
import shutil
import socket
from pathlib import Path

import pytest
import trio
import trustme

from duplex_trio.clients import DuplexClient
from duplex_trio.serving.http_config import ServerConfig
from duplex_trio.serving.request_body import BODY_BYTES_MAX
from duplex_trio.testing.serve_command import serve_command

FILE = "nginx/duplex-trio.conf"
nginx = pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")


@pytest.fixture(scope="module")
def text(operations: Path) -> str:
    return (operations / FILE).read_text()


def seconds(text: str, name: str) -> int:
    found = re.search(rf"{name} (\d+)s;", text)
    assert found is not None
    return int(found[1])


def test_the_page_shows_the_file(text: str, operations: Path) -> None:
    page = (operations.parent / "docs" / "operating.md").read_text()
    assert f"```nginx\n{text}```" in page


def test_it_lets_websockets_and_whole_requests_through(text: str) -> None:
    """And waits longer than the server's pings are apart, after which it would cut a conversation."""
    assert text.count("{") == text.count("}")
    for setting in (
        "proxy_http_version 1.1;",
        "proxy_set_header Upgrade $http_upgrade;",
        "proxy_set_header Connection $duplex_trio_connection;",
        "proxy_set_header Host $http_host;",
        "proxy_buffering off;",
    ):
        assert setting in text
    for name in ("proxy_read_timeout", "proxy_send_timeout"):
        assert seconds(text, name) > 2 * ServerConfig.websocket_ping_interval
    found = re.search(r"client_max_body_size (\d+)m;", text)
    assert found is not None
    assert int(found[1]) * 1024 * 1024 == BODY_BYTES_MAX


def free_port() -> int:
    with socket.socket() as once:
        once.bind(("127.0.0.1", 0))
        port: int = once.getsockname()[1]
    return port


@nginx
@pytest.mark.e2e
async def test_a_conversation_goes_through_it(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file as it is, but for its port, its certificate and the server's address."""
    port, ca = free_port(), trustme.CA()
    certificate = ca.issue_cert("localhost")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    async with serve_command(tmp_path) as command:
        site = text.replace("listen 443", f"listen 127.0.0.1:{port}").replace(":8765", f":{command.port}")
        site = site.replace("/etc/ssl/talk.example.org.pem", str(tmp_path / "cert.pem"))
        site = site.replace("/etc/ssl/talk.example.org.key", str(tmp_path / "key.pem"))
        folders = "\n".join(
            f"{kind}_temp_path {tmp_path / kind};"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        config = tmp_path / "nginx.conf"
        config.write_text(
            f"daemon off; pid {tmp_path / 'pid'}; error_log stderr;\nevents {{}}\n"
            f"http {{ access_log off; {folders}\n{site} }}\n"
        )
        arguments = ["nginx", "-p", str(tmp_path), "-c", str(config)]
        await trio.run_process([*arguments, "-t"], capture_stderr=True)
        process = await trio.lowlevel.open_process(arguments)
        try:
            with trio.fail_after(20):
                while True:
                    try:
                        await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
                        break
                    except OSError:
                        await trio.sleep(0.05)
                monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
                async with DuplexClient(f"wss://localhost:{port}") as client:
                    await client.create_item("hello")
                    await client.create_response()
                    async for event in client:
                        if event.type == "response.done":
                            break
        finally:
            process.terminate()
            with trio.CancelScope(shield=True):
                await process.wait()
