"""The opening handshake, request by request."""

import orjson
import pytest

from duplex_trio.serving.channel import Header
from duplex_trio.serving.upgrade import (
    accepting_head,
    asks_for_websocket,
    check_upgrade,
    closing_response,
    offered_subprotocols,
)

KEY = (b"sec-websocket-key", b"dGhlIHNhbXBsZSBub25jZQ==")
VERSION = (b"sec-websocket-version", b"13")


def test_a_request_as_in_the_rfc_passes() -> None:
    headers = [(b"host", b"x"), (b"upgrade", b"websocket"), (b"connection", b"Upgrade"), KEY, VERSION]
    assert asks_for_websocket(headers)
    assert check_upgrade(headers) is None
    head = accepting_head(headers, "realtime").decode()
    assert head.startswith("HTTP/1.1 101 Switching Protocols\r\n")
    assert head.endswith("\r\n\r\n")
    assert "\r\nsec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in head  # RFC 6455 1.3
    assert "\r\nsec-websocket-protocol: realtime\r\n" in head
    assert "extensions" not in head
    assert "protocol:" not in accepting_head(headers, None).decode()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([KEY], 426),
        ([KEY, (b"sec-websocket-version", b"8")], 426),
        ([KEY, (b"sec-websocket-version", b"13, 8")], 426),
        ([KEY, VERSION, VERSION], 426),
        ([VERSION], 400),
        ([VERSION, KEY, KEY], 400),
        ([VERSION, (b"sec-websocket-key", b"")], 400),
        ([VERSION, (b"sec-websocket-key", b"short")], 400),
        ([VERSION, (b"sec-websocket-key", b"dGhlIHNhbXBsZSBub25jZQ")], 400),
        ([VERSION, (b"sec-websocket-key", b"dGhlIHNhbXBsZSBub25jZQ=!")], 400),
        ([VERSION, (b"sec-websocket-key", b"dGhlIHNhbXBsZSBub25jZWRk")], 400),
        ([VERSION, KEY, (b"content-length", b"5")], 400),
        ([VERSION, KEY, (b"transfer-encoding", b"chunked")], 400),
        ([VERSION, KEY, (b"sec-websocket-protocol", b"realtime\xff")], 400),
    ],
)
def test_a_faulty_request_is_refused_with_a_reason(headers: list[Header], status: int) -> None:
    refusal = check_upgrade(headers)
    assert refusal is not None
    assert refusal.status == status
    error = orjson.loads(refusal.body)["error"]
    assert error["type"] == "invalid_request_error"
    assert error["message"]
    assert ((b"sec-websocket-version", b"13") in refusal.headers) == (status == 426)


def test_a_body_of_no_bytes_is_no_body() -> None:
    assert check_upgrade([VERSION, KEY, (b"content-length", b"0")]) is None


@pytest.mark.parametrize(
    ("headers", "asks"),
    [
        ([(b"upgrade", b"websocket"), (b"connection", b"upgrade")], True),
        ([(b"upgrade", b"WebSocket"), (b"connection", b"keep-alive, Upgrade")], True),
        ([(b"upgrade", b"websocket")], False),
        ([(b"connection", b"upgrade")], False),
        ([(b"upgrade", b"h2c"), (b"connection", b"upgrade")], False),
        ([(b"upgrade", b"websockets"), (b"connection", b"upgrade")], False),
        ([(b"upgrade", b"websocket"), (b"connection", b"upgraded")], False),
    ],
)
def test_both_headers_ask_for_it(headers: list[Header], asks: bool) -> None:
    assert asks_for_websocket(headers) is asks


def test_subprotocols_keep_their_order() -> None:
    headers = [
        (b"sec-websocket-protocol", b"realtime, openai-insecure-api-key.k"),
        (b"sec-websocket-protocol", b"third"),
    ]
    assert offered_subprotocols(headers) == ("realtime", "openai-insecure-api-key.k", "third")
    assert offered_subprotocols([]) == ()


def test_a_response_that_closes_says_so() -> None:
    assert closing_response(401, b"{}", [(b"a", b"b")]) == (
        b"HTTP/1.1 401 Unauthorized\r\na: b\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"
    )
