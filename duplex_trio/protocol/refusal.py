"""What goes wrong with a request, whoever asks: one family of exceptions for everything that answers requests."""

from __future__ import annotations


class RequestError(Exception):
    """A request that ends without its answer, or without all of it.

    Attributes:
        code: what went wrong, for programs: a code of the wire, such as `invalid_value` or `engine_dead`.
        message: one sentence for people.
        param: the field at fault as a path in the request, such as `messages[0].content[1].pcm`; None where it is
            no single one.
    """

    def __init__(self, code: str, message: str, *, param: str | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.param = param

    def __str__(self) -> str:
        """The code and the message."""
        return f"{self.code}: {self.message}"


class RequestRefused(RequestError):
    """A request that is not taken: it is wrong, the model cannot answer such a one, or there is no room now."""


class RequestFailed(RequestError):
    """A request that was taken and could not be answered: a model, a stage or the server failed."""
