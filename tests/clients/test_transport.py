"""What is said of a connection that ends before its WebSocket is open."""

from __future__ import annotations

import ssl

import pytest
import trio
from trio.testing import memory_stream_pair

from duplex_trio.clients.errors import DuplexConnectionError
from duplex_trio.clients.transport import OpeningStream


class Failing(trio.abc.Stream):
    """Fails for a reason the first time, and for none later, as Trio's TLS stream does."""

    def __init__(self, why: Exception) -> None:
        self._why: Exception | None = why

    def _fail(self) -> None:
        why, self._why = self._why, None
        raise trio.BrokenResourceError from why

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self._fail()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        self._fail()
        return b""

    async def wait_send_all_might_not_block(self) -> None:
        pass

    async def aclose(self) -> None:
        pass


def refused() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = "self-signed certificate"
    return error


@pytest.mark.parametrize(
    ("why", "said"),
    [
        (refused(), "the server's certificate is refused: self-signed certificate"),
        (ssl.SSLError(1, "wrong version number"), "does not speak TLS as we do: .*wrong version number"),
    ],
)
async def test_what_tls_says_is_said_to_sender_and_receiver(why: Exception, said: str) -> None:
    stream = OpeningStream(Failing(why))
    with pytest.raises(DuplexConnectionError, match=said):
        await stream.send_all(b"GET / HTTP/1.1")
    with pytest.raises(DuplexConnectionError, match=said):
        await stream.receive_some()


async def test_an_end_without_a_reason_is_a_server_that_hung_up() -> None:
    ours, theirs = memory_stream_pair()
    await theirs.aclose()
    with pytest.raises(DuplexConnectionError, match="ended the connection during the WebSocket handshake"):
        await OpeningStream(ours).receive_some()
