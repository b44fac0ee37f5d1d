"""What may go wrong with an engine elsewhere, as the codes of failed requests.

| what happened | code | tried again |
|---|---|---|
| no connection, or none in time | `engine_dead` | yes |
| 429, 500, 502, 503, 504 | `engine_error` | yes, after the wait that it asks for |
| silence, or a connection that breaks off | `engine_error` | if nothing was delivered |
| an answer that is none (another content type, no JSON, a redirect) | `engine_error` | no |
| 401, 403: our key | `engine_error` | no |
| 404: our address, or the model's name | `engine_error` | no |
| a prompt that is too long | `context_length_exceeded` | no |
| 400, 422, 413 otherwise: our request | `invalid_value` | no |
| an error within the stream | by what it says, as above | no |

Only an answer of which nothing was delivered is asked for again. What goes to the client never holds our key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

MESSAGE_CHARS_MAX = 500
"""What is told of an engine's own words; some engines send a page of HTML."""

RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})
_TOO_LONG = re.compile(
    r"context.?length|maximum.{0,20}context|longer than the maximum model length|too many tokens|prompt is too long"
    r"|exceeds? .{0,40}(?:context|max_model_len|maximum length)|maximum input length",
    re.IGNORECASE,
)


class RemoteFault(Exception):
    """The engine gave no answer, or broke it off.

    Attributes:
        code: the wire error code of the failure.
        again: whether it may be asked again.
        wait_s: how long it asked to be left alone, if it did.
        unreachable: whether nobody was there to answer, which puts the engine itself in doubt.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        again: bool = False,
        wait_s: float | None = None,
        unreachable: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.again = again
        self.wait_s = wait_s
        self.unreachable = unreachable


def of_status(status: int, headers: Mapping[str, str], body: bytes, key: str | None) -> RemoteFault:
    """The fault that an answer with another status than 200 tells.

    Args:
        status: the HTTP status.
        headers: with lower-case names.
        body: its beginning.
        key: ours, to be kept from being told.
    """
    said = _hide(_words(body), key)
    if 300 <= status < 400:
        return RemoteFault("engine_error", "the remote engine redirects; base_url must be where its API is")
    if status in (401, 403):
        return RemoteFault(
            "engine_error", f"the remote engine refuses the server's key (HTTP {status}); see api_key_env"
        )
    if status == 404:
        return RemoteFault("engine_error", f"the remote engine knows no such model or route: {said}")
    if status in RETRIED_STATUSES:
        return RemoteFault(
            "engine_error",
            f"the remote engine answers HTTP {status}: {said}",
            again=True,
            wait_s=_retry_after(headers.get("retry-after")),
        )
    if status in (400, 413, 422):
        return of_words(body, key, otherwise="invalid_value")
    return RemoteFault("engine_error", f"the remote engine answers HTTP {status}: {said}")


def of_words(said: Any, key: str | None, *, otherwise: str = "engine_error") -> RemoteFault:
    """The fault that an error object tells, which has no status of its own to go by."""
    error = _error(said)
    words = _hide(_words(said), key)
    code = str(error.get("code") or "") + " " + str(error.get("type") or "")
    if "context_length_exceeded" in code or _TOO_LONG.search(words):
        return RemoteFault("context_length_exceeded", words)
    if error.get("code") in (400, 422):
        otherwise = "invalid_value"
    return RemoteFault(otherwise, f"the remote engine refuses or breaks off: {words}")


def _error(said: Any) -> Mapping[str, Any]:
    if isinstance(said, bytes):
        try:
            said = orjson.loads(said)
        except orjson.JSONDecodeError:
            return {}
    if not isinstance(said, Mapping):
        return {}
    inner = said.get("error")
    return inner if isinstance(inner, Mapping) else said


def _words(said: Any) -> str:
    error = _error(said)
    message = error.get("message") or error.get("detail") or error.get("error")
    if message is None:
        message = said.decode(errors="replace") if isinstance(said, bytes) else said
    text = " ".join(str(message).split())
    return text[:MESSAGE_CHARS_MAX] or "it says nothing more"


def _hide(text: str, key: str | None) -> str:
    return text.replace(key, "***") if key else text


def _retry_after(value: str | None) -> float | None:
    """Seconds; a date, which the header may be too, is not understood, and then the usual wait is taken."""
    try:
        seconds = float(value or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None
