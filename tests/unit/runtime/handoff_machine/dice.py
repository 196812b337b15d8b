"""Choices out of bytes: one draw for a whole team or script, and simpler bytes are simpler ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """Every throw takes a byte; after the last one each throw is the lowest."""

    def __init__(self, data: bytes) -> None:
        self._data = iter(data)

    def throw(self, sides: int) -> int:
        """0 to `sides` - 1."""
        return next(self._data, 0) * sides // 256

    def pick(self, options: Sequence[T]) -> T:
        """One of them, the first for the lowest throw."""
        return options[self.throw(len(options))]
