"""Fixtures that many test folders share: where the packaged models are."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def llm_folder() -> Path:
    """The packaged language model as a Hugging Face folder; for tests marked `models`."""
    from duplex_trio.models.references import resolve_reference

    path = resolve_reference("smollm2-135m", "llm").path
    assert path is not None
    return path
