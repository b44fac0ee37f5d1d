"""The log of a program of somebody else's, in which a model is a part: what the program prints is its own."""

from __future__ import annotations

import logging
import sys

import structlog


def quiet_log() -> None:
    """Where nobody has set the log up, show warnings alone, on standard error."""
    if not structlog.is_configured():
        structlog.configure(
            wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        )
