"""A module that cannot be looked at is out of the way for a block, and there again after it."""

import sys
import warnings
from types import ModuleType

import pytest

from duplex_trio.stages.opaque import opaque_modules_hidden


class Library:
    """As cffi's: a function that the system lacks is no AttributeError."""

    def __getattribute__(self, name: str) -> object:
        raise RuntimeError(f"symbol {name!r} not found")


@pytest.fixture
def opaque(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("opaque_module")
    module.__dict__["lib"] = Library()
    monkeypatch.setitem(sys.modules, "opaque_module", module)
    return module


def looked_at() -> None:
    """What vLLM does with every module."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other tests' libraries, when they are looked at
        for module in list(sys.modules.values()):
            for value in list(getattr(module, "__dict__", {}).values()):
                hasattr(value, "__dict__")


def test_it_is_out_of_the_way_and_back(opaque: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="__dict__"):
        looked_at()
    with opaque_modules_hidden():
        looked_at()
        assert "opaque_module" not in sys.modules
        assert "trio" in sys.modules
    assert sys.modules["opaque_module"] is opaque


def test_it_is_back_after_a_failure(opaque: ModuleType) -> None:
    with pytest.raises(ZeroDivisionError), opaque_modules_hidden():
        raise ZeroDivisionError
    assert sys.modules["opaque_module"] is opaque
