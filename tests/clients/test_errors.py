"""What is told of errors in a line."""

from __future__ import annotations

from duplex_trio.clients import DuplexConnectionError, first_error


def test_the_first_error_of_a_group_of_groups_is_told() -> None:
    error = DuplexConnectionError("gone")
    group = ExceptionGroup("", [ExceptionGroup("", [error, ValueError()]), OSError()])
    assert first_error(group) is error
    assert first_error(error) is error
