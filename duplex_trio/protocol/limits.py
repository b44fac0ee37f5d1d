"""Sizes on the wire that more than one part goes by."""

from __future__ import annotations

MAX_MESSAGE_BYTES = 15 * 1024 * 1024
"""UTF-8 bytes of one message; OpenAI documents the same."""
