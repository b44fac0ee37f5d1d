"""What the log looks like: short lines for people, whole ones for machines."""

from __future__ import annotations

import io
import logging
import re

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


HOSTILE = "\x1b[31m\r\x07\x9b2J\u2028\u202e\ud800 é日👍🏽"


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_what_strangers_send_is_shown_and_not_obeyed(stream: type[io.StringIO], as_json: bool) -> None:
    """A path, a reason or an id of a client: one line, no control characters, and readable where it can be."""
    written = stream()
    configure_logging("info", as_json=as_json, stream=written)
    structlog.get_logger("test").info("client.refused", path=f"a\nlevel=error {HOSTILE}")
    logging.getLogger("other").warning("it said %s", f"a\nlevel=error {HOSTILE}")
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        structlog.get_logger("test").exception("session.crashed")
    text = re.sub(r"\x1b\[\d+m(?!\\r)", "", written.getvalue())  # our own colours
    assert text.encode()
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]", text)
    assert not [line for line in text.splitlines() if line.startswith("level=error")]
    if not as_json:
        # For people a value with spaces is quoted once more.
        assert text.replace("\\\\", "\\").count(r"\x1b[31m\r\x07\x9b2J\u2028\u202e\ud800 é日👍🏽") == 3
