"""What commands share that start a server in their own process: where its log goes, and what its failures mean."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from duplex_trio.cli.errors import CommandError
from duplex_trio.cli.log import configure_logging
from duplex_trio.clients import DuplexClientError
from duplex_trio.clients.video import VideoClientError
from duplex_trio.models.errors import INSTALL_COMMAND

API_KEY_VARIABLE = "DUPLEX_TRIO_API_KEY"


def key_from_environment() -> str | None:
    """The key to show: the first one of those that the variable names, for a server's may hold several."""
    return next((key for key in re.split(r"[,\s]+", os.environ.get(API_KEY_VARIABLE, "")) if key), None)


@contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Write the log of everything in the process to a file for the block, where it does not disturb the
    view."""
    root = logging.getLogger()
    handlers, level, config = root.handlers[:], root.level, structlog.get_config()
    with path.open("w", encoding="utf-8", buffering=1) as stream:
        configure_logging("info", stream=stream)
        # A logger that kept its output would write to the closed file after the block.
        structlog.configure(cache_logger_on_first_use=False)
        try:
            yield
        finally:
            root.handlers[:], root.level = handlers, level
            structlog.configure(**config)


def explanation(error: BaseException) -> str | None:
    """What a foreseen error says to people; None of one that nobody foresaw."""
    from duplex_trio.entrypoints.omni_base import WarmUpError
    from duplex_trio.serving.address import AddressUnavailableError
    from duplex_trio.serving.guards import GuardsUnavailableError
    from duplex_trio.stages.errors import StageLoadError

    if isinstance(error, StageLoadError):
        text = str(error)
        if isinstance(error.__cause__, ImportError):
            text += f". Set the engine up with: {INSTALL_COMMAND}"
        return text
    clients = (DuplexClientError, VideoClientError)
    known = (CommandError, AddressUnavailableError, GuardsUnavailableError, WarmUpError)
    return str(error) if isinstance(error, (*clients, *known)) else None


def leaves_of(error: BaseException) -> Iterator[BaseException]:
    """The errors in a group, or the one that is none."""
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from leaves_of(part)
    else:
        yield error
