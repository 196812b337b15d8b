"""Leaving code in the middle because it has to wait for an answer."""

from __future__ import annotations


class Parked(BaseException):
    """The code waits for an answer that is not there: it is run again when it is.

    Not an `Exception`, so that code that catches those does not stand in the way.
    """


def is_parked(exc: BaseException) -> bool:
    """Whether `exc` says nothing but that code waits; code with a task group wraps it."""
    if isinstance(exc, BaseExceptionGroup):
        _, others = exc.split(Parked)
        return others is None
    return isinstance(exc, Parked)
