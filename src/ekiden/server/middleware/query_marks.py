"""Marks on endpoints: the query parameters that they read besides those that FastAPI knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

MARK: Final = "__query__"
F = TypeVar("F", bound=Callable[..., Any])


def takes_query(*names: str) -> Callable[[F], F]:
    """Say which parameters a route reads that FastAPI does not know of."""

    def mark(endpoint: F) -> F:
        setattr(endpoint, MARK, names)
        return endpoint

    return mark


def takes_any_query(endpoint: F) -> F:
    """Say that a route reads no parameters and may be called with any: what a browser or a cache
    adds to the address of a file."""
    setattr(endpoint, MARK, None)
    return endpoint
