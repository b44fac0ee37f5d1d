"""The linters, the type checker and the import contracts are part of the suite."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def _run(*arguments: str) -> None:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ruff() -> None:
    """No lint is left."""
    _run("-m", "ruff", "check", ".")


def test_formatting() -> None:
    """Every file is formatted."""
    _run("-m", "ruff", "format", "--check", ".")


def test_types() -> None:
    """The package passes the strict type checker."""
    _run("-m", "mypy")


def test_import_contracts() -> None:
    """Imports point one way, and models stay out of generic code."""
    _run("-c", "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())")


def test_structured_concurrency() -> None:
    """No cancellation is lost: awaits in `finally` are shielded, nothing yields inside a nursery, no sleep polls."""
    codes = (
        "ASYNC100,ASYNC102,ASYNC103,ASYNC104,ASYNC105,ASYNC110,ASYNC115,ASYNC118,ASYNC120,ASYNC250,ASYNC251"
    )
    _run("-m", "flake8_async", "--enable", codes, *sorted(map(str, (ROOT / "duplex_trio").rglob("*.py"))))
