"""Bytes that nobody thought of: what makes them, what reads the answers, and a short storm on a real server."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import trio

from duplex_trio.testing.fuzz.__main__ import DEPLOYMENT, START_TIMEOUT_S
from duplex_trio.testing.fuzz.coverage import read_everything
from duplex_trio.testing.fuzz.wire import frames
from duplex_trio.testing.fuzz.wire.answers import BadBytes, check_answer
from duplex_trio.testing.fuzz.wire.frames import differing
from duplex_trio.testing.fuzz.wire.mutate import in_pieces, mutated
from duplex_trio.testing.fuzz.wire.recorded import http_stream, websocket_stream
from duplex_trio.testing.fuzz.wire.run import STREAMS, Storm
from duplex_trio.testing.server_process import server_process

SEED = 20_261_130
CONNECTIONS = 80
UPGRADED = b"HTTP/1.1 101 \r\nupgrade: websocket\r\n\r\n"


def test_the_same_seed_makes_the_same_bytes() -> None:
    for make in STREAMS.values():
        assert make(random.Random(5)) == make(random.Random(5))
        assert len({make(random.Random(seed)) for seed in range(50)}) > 45


def test_pieces_are_the_whole() -> None:
    for seed in range(50):
        rng = random.Random(seed)
        data = mutated(rng, http_stream(rng), websocket_stream(rng))
        assert b"".join(in_pieces(rng, data)) == data


@pytest.mark.parametrize(
    ("data", "codes"),
    [
        (b"", []),
        (b"HTTP/1.1 400 \r\ncontent-length: 0\r\n\r\n", [400]),
        (b"HTTP/1.1 200 \r\ncontent-length: 2\r\n\r\nokHTTP/1.1 404 \r\ncontent-length: 0\r\n\r\n", [200, 404]),
        (b"HTTP/1.1 100 \r\n\r\nHTTP/1.1 200 \r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", [100, 200]),
        (UPGRADED + b"\x81\x02{}\x88\x02\x03\xea", [101, 1002]),
        (UPGRADED + b"\x81\x7e\x00\x7f", [101]),
        (UPGRADED + b"\x81\x05{", [101]),
        (UPGRADED + b"\x88\x00", [101, 1005]),
    ],
)  # fmt: skip
def test_what_a_server_may_write(data: bytes, codes: list[int]) -> None:
    assert check_answer(data) == codes


@pytest.mark.parametrize(
    "data",
    [
        b"hello",
        b"HTTP/1.1 200 \r\n",
        UPGRADED + b"\x81\x82\x00\x00\x00\x00{}",
        UPGRADED + b"\xc1\x02{}",
        UPGRADED + b"\x83\x00",
        UPGRADED + b"\x88\x01\x03",
        UPGRADED + b"\x88\x02\x03\xed",
        UPGRADED + b"\x88\x02\x03\xe8\x81\x02{}",
    ],
)
def test_what_no_server_may_write(data: bytes) -> None:
    with pytest.raises(BadBytes):
        check_answer(data)


def test_text_that_is_no_json_is_found() -> None:
    with pytest.raises(ValueError, match="unexpected"):
        check_answer(UPGRADED + b"\x81\x02{x")


@pytest.mark.slow
def test_both_frame_layers_read_the_same() -> None:
    for seed in range(SEED, SEED + 2000):
        assert differing(seed) is None


def test_every_reader_of_bytes_reads_anything() -> None:
    """What fuzzing that is led by coverage calls; here with the streams of the storms."""
    for seed in range(SEED, SEED + 100):
        for make in STREAMS.values():
            for part in make(random.Random(seed)):
                read_everything(part)


def test_a_difference_between_frame_layers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the other one told one ping less."""
    theirs = frames.wsproto_reading
    monkeypatch.setattr(
        frames, "wsproto_reading", lambda data: [told for told in theirs(data) if told[0] != "ping"]
    )
    assert any(differing(seed) is not None for seed in range(200))


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("kind", "ws"),
    [
        ("websocket", "native"),
        pytest.param("websocket", "asgi", marks=pytest.mark.slow),
        pytest.param("http", "native", marks=pytest.mark.slow),
    ],
)
def test_a_server_survives_a_storm(kind: str, ws: str, tmp_path: Path) -> None:
    """The session beside gets its answers whole, connections end, nothing stays."""
    print(f"seed {SEED}")
    (tmp_path / "fuzz.yaml").write_text(DEPLOYMENT)
    deploy = str(tmp_path / "fuzz.yaml")
    with server_process("--deploy", deploy, "--ws", ws, start_timeout_s=START_TIMEOUT_S) as server:
        storm = Storm(server.port, server.pid, STREAMS[kind], SEED)
        trio.run(storm.throw, CONNECTIONS)
    assert storm.thrown >= CONNECTIONS
    assert {"websocket": 101, "http": 404}[kind] in storm.answers
