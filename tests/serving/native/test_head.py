"""Whose a connection is, decided as soon as it can be, and nothing of it lost."""

import pytest

from duplex_trio.serving.native.head import HEAD_MAX_BYTES, HeadReader, Verdict
from duplex_trio.testing.raw_websocket import upgrade_request

OURS = {
    "the route": upgrade_request("/v1/realtime"),
    "with a query": upgrade_request("/v1/realtime?model=m&duplex=1"),
    "the other route": upgrade_request("/v1/duplex"),
    "the route of video": upgrade_request("/v1/realtime/video"),
    "a list of tokens": (
        b"GET /v1/realtime HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, UPGRADE\r\nUpgrade: WebSocket\r\n\r\n"
    ),
    "two lines of tokens": (
        b"GET /v1/realtime HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\nConnection: upgrade\r\n"
        b"Upgrade: foo/2\r\nUpgrade: websocket\r\n\r\n"
    ),
    "bare line feeds": b"GET /v1/realtime HTTP/1.1\nHost: x\nConnection: upgrade\nUpgrade: websocket\n\n",
    "nearly too long": upgrade_request("/v1/realtime", {"x": "y" * (HEAD_MAX_BYTES - 300)}),
}

NOT_OURS = {
    "another route": upgrade_request("/v1/realtime/videos"),
    "a longer name": upgrade_request("/v1/realtimes"),
    "the root": b"GET / HTTP/1.1\r\n",
    "a post": b"POST /v1/realtime HTTP/1.1\r\nHost: x\r\n\r\n",
    "no upgrade": b"GET /v1/realtime HTTP/1.1\r\nHost: x\r\n\r\n",
    "an upgrade to something else": (
        b"GET /v1/realtime HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"
    ),
    "an upgrade without the word": b"GET /v1/realtime HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n",
    "HTTP/1.0": b"GET /v1/realtime HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00",
    "no host": b"GET /v1/realtime HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    "no HTTP": b"GET /v1/realtime\r\n\r\n",
    "a faulty header": b"GET /v1/realtime HTTP/1.1\r\nHost: x\r\na b: c\r\n\r\n",
    "a head without end": b"GET /v1/realtime HTTP/1.1\r\nHost: x\r\nx: " + b"y" * HEAD_MAX_BYTES,
    "a foreign address": b"GET http://x/v1/realtime HTTP/1.1\r\nHost: x\r\n\r\n",
}


def by_bytes(data: bytes) -> tuple[HeadReader, Verdict]:
    reader, verdict = HeadReader(), Verdict.OPEN
    for place in range(len(data)):
        verdict = reader.feed(data[place : place + 1])
        if verdict is not Verdict.OPEN:
            assert bytes(reader.raw) == data[: place + 1]
            break
    return reader, verdict


@pytest.mark.parametrize("data", OURS.values(), ids=OURS)
def test_a_websocket_of_ours_is_found_at_the_end_of_its_head(data: bytes) -> None:
    reader = HeadReader()
    assert reader.feed(data) is Verdict.OURS
    assert reader.early == b""
    dripped, verdict = by_bytes(data)
    assert verdict is Verdict.OURS
    assert bytes(dripped.raw) == data  # not a byte before the end
    assert (dripped.target, dripped.headers) == (reader.target, reader.headers)
    assert all(name == name.lower() for name, _ in reader.headers)


@pytest.mark.parametrize("data", NOT_OURS.values(), ids=NOT_OURS)
def test_everything_else_goes_on_with_every_byte(data: bytes) -> None:
    reader = HeadReader()
    assert reader.feed(data) is Verdict.NOT_OURS
    assert bytes(reader.raw) == data
    dripped, verdict = by_bytes(data)
    assert verdict is Verdict.NOT_OURS
    assert data.startswith(dripped.raw)


@pytest.mark.parametrize("data", [b"", b"G", b"GET /v1/real", b"GET /v1/realtime", b"GET /v1/duplex?a"])
def test_the_end_of_the_bytes_is_not_ours(data: bytes) -> None:
    reader = HeadReader()
    if data:
        assert reader.feed(data) is Verdict.OPEN
    assert reader.feed(b"") is Verdict.NOT_OURS
    assert bytes(reader.raw) == data


@pytest.mark.parametrize("early", [b"x", b"\x81\x80\x00\x00\x00\x00", upgrade_request("/v1/realtime")])
def test_what_comes_behind_the_head_is_told(early: bytes) -> None:
    reader = HeadReader()
    assert reader.feed(upgrade_request("/v1/realtime") + early) is Verdict.OURS
    assert reader.early == early
