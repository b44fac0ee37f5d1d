"""What the log looks like: short lines for people, whole ones for machines."""

from __future__ import annotations

import io

import orjson
import pytest
import structlog

from duplex_trio.cli.log import configure_logging


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def write(stream: io.StringIO, *, as_json: bool = False) -> str:
    configure_logging("info", as_json=as_json, stream=stream)
    logger = structlog.get_logger("test").bind(session_id="duplex-0123456789abcdef01234567cafebabe")
    logger.info(
        "response.done", response_id="resp-duplex-0123456789abcdef-3-deadbeef", status="completed", why=None
    )
    return stream.getvalue()


def test_a_line_fits_a_terminal() -> None:
    """Long ids are shown by their ends, the time without its date, and what is None not at all."""
    line = write(Terminal())
    assert "cafebabe" in line
    assert "deadbeef" in line
    assert "0123456789abcdef" not in line
    assert "why" not in line
    assert line.count("\n") == 1


def test_a_machine_gets_whole_ids() -> None:
    """As JSON and as key=value nothing is cut."""
    parsed = orjson.loads(write(io.StringIO(), as_json=True))
    assert parsed["session_id"] == "duplex-0123456789abcdef01234567cafebabe"
    assert "response_id=resp-duplex-0123456789abcdef-3-deadbeef" in write(io.StringIO())


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_a_traceback_shows_no_values(stream: type[io.StringIO], as_json: bool) -> None:
    """Where it broke is logged, what the variables held is not: tokens pass through them."""
    written = stream()
    configure_logging("info", as_json=as_json, stream=written)

    def broken(token: str) -> None:
        raise ValueError("it broke")

    try:
        broken("".join(["very", "secret"]))
    except ValueError:
        structlog.get_logger("test").exception("session.crashed")
    assert "it broke" in written.getvalue()
    assert "in broken" in written.getvalue()
    assert "verysecret" not in written.getvalue()
