"""What the engine says of wrong parameters, for who made the request."""

from __future__ import annotations

import pytest

from duplex_trio.stages.vllm_params import plain


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("a value is\n  wrong\n", "a value is wrong"),
        (
            'no grammar: [18:57:57] /project/cpp/converter.cc:4944: Unsupported type "nonsense"\n',
            'no grammar: Unsupported type "nonsense"',
        ),
        ("at [1:2] all: is well", "at [1:2] all: is well"),
    ],
)
def test_what_an_engine_says_is_one_line_without_its_source(said: str, told: str) -> None:
    assert plain(ValueError(said)) == told
