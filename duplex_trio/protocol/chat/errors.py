"""What is wrong with a chat request, or with answering it, as OpenAI's clients are told: a status and one body.

The SDKs choose their exception class by the status alone; `code` and `param` are for whoever reads it.
"""

from __future__ import annotations

from typing import Any

from duplex_trio.protocol.realtime.errors import ERROR_CLASSES

_KINDS = {404: "not_found_error", 429: "rate_limit_error"}
_UNAVAILABLE = frozenset({"engine_dead", "server_shutdown", "slow_reader"})
"""Codes of a server that cannot answer anybody for now."""
RETRY_AFTER_S = 1
"""When a client may try again that found no room: answers take about so long to end somewhere."""


class ChatError(Exception):
    """A chat request that ends without its answer.

    Attributes:
        status: of HTTP.
        code: what went wrong, for programs.
        message: one sentence for people.
        param: the field at fault as a path in the request, such as `messages[0].content[1].input_audio.data`.
    """

    def __init__(self, status: int, code: str, message: str, *, param: str | None = None) -> None:
        super().__init__(status, code, message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param

    def __str__(self) -> str:
        """The status, the code and the message."""
        return f"{self.status} {self.code}: {self.message}"

    @property
    def retry_after_s(self) -> int | None:
        """Seconds after which the same request may find room; None where waiting does not help."""
        return RETRY_AFTER_S if self.status in (429, 503) else None

    def body(self) -> dict[str, Any]:
        """The JSON object that says so, also in the middle of a stream."""
        kind = _KINDS.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


def invalid(param: str, message: str) -> ChatError:
    """A field with a value that it cannot have."""
    return ChatError(400, "invalid_value", f"{param}: {message}", param=param)


def missing(param: str) -> ChatError:
    """A field that must be there."""
    return ChatError(400, "missing_required_parameter", f"{param} is missing", param=param)


def unsupported(param: str, message: str) -> ChatError:
    """A field, or a value of it, that exists elsewhere and not here."""
    return ChatError(400, "unsupported_parameter", f"{param}: {message}", param=param)


def of_code(code: str, message: str, param: str | None = None) -> ChatError:
    """What an error code of the wire means to who asked for a completion."""
    match ERROR_CLASSES.get(code, "server_error"):
        case "invalid_request_error":
            return ChatError(400, code, message, param=param)
        case "rate_limit_error":
            return ChatError(429, code, message)
        case _:
            return ChatError(503 if code in _UNAVAILABLE else 500, code, message)
