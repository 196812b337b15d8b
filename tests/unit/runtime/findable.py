"""Compensations that refer to the objects of one test."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_numbers = count()


def findable(function: F) -> F:
    """Give an inner function a name at the top level of this module, where a rollback finds it."""
    name = f"compensation_{next(_numbers)}"
    function.__module__, function.__qualname__ = __name__, name
    globals()[name] = function
    return function
