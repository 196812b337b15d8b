"""What computes on small matrices does so on one thread, and changes nothing for others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ekiden.embeddings import local as module
from ekiden.embeddings.local import one_thread


class Library:
    """A library that has four threads."""

    def __init__(self) -> None:
        self.threads = 4

    def get(self) -> int:
        return self.threads

    def set(self, count: int) -> None:
        self.threads = count


def test_one_thread_is_used_inside_and_the_count_is_restored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = Library()
    monkeypatch.setattr(module, "_threads", lambda: library)
    with pytest.raises(ZeroDivisionError), one_thread():
        with one_thread():
            assert library.threads == 1
        assert library.threads == 1
        raise ZeroDivisionError
    assert library.threads == 4


def test_the_installed_library_gets_its_thread_count_back() -> None:
    found = module._threads()
    if found is None:
        pytest.skip("numpy does not compute with OpenBLAS here")
    before = found.get()
    with one_thread():
        assert found.get() == 1
    assert found.get() == before


@pytest.mark.parametrize("error", [ImportError, OSError])
def test_without_a_supported_library_nothing_changes(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def missing(name: str) -> Any:
        raise error(name)

    monkeypatch.setattr(module, "import_module", missing)
    assert module._threads.__wrapped__() is None
    monkeypatch.setattr(module, "_threads", lambda: None)
    with one_thread():
        pass


def test_a_library_without_a_thread_setting_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other:
        def __getitem__(self, name: str) -> Any:
            raise AttributeError(name)

    monkeypatch.setattr("ctypes.CDLL", lambda path: Other())
    monkeypatch.setattr(module, "import_module", lambda name: SimpleNamespace(__file__="x"))
    assert module._threads.__wrapped__() is None
