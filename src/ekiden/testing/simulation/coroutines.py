"""Runs coroutines that never suspend."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def drive(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    work.close()
    raise RuntimeError("the simulated store waited for something")


def drive_on(work: Coroutine[Any, Any, T]) -> T:
    """The same of one that gives way to others now and then, where there are none."""
    while True:
        try:
            work.send(None)
        except StopIteration as done:
            value: T = done.value
            return value
