"""Retries while the store cannot be reached."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

from ekiden.core.errors import StoreUnavailable

T = TypeVar("T")
OnOutage: TypeAlias = Callable[[StoreUnavailable | None], None]
"""Called with the error when an outage begins, and with `None` when it is over."""

_LONGEST_S = 5.0


class StoreRetry:
    """Shared by everybody who reads one store, so that an outage is told once."""

    def __init__(self, *, first_s: float, tell: OnOutage | None) -> None:
        self._first_s = first_s
        self._tell = tell
        self._out = False

    async def insist(
        self, call: Callable[[], Awaitable[T]], pause: Callable[[float], Awaitable[bool]]
    ) -> T | None:
        """What `call` gives as soon as the store can be reached; `None` if `pause` says to stop.

        Each pause is twice as long as the one before. Other errors are raised.
        """
        wait_s = self._first_s
        while True:
            began_out = self._out
            try:
                result = await call()
            except StoreUnavailable as exc:
                self._failed(exc)
            else:
                if began_out:  # What was under way when another call failed proves nothing.
                    self._worked()
                return result
            if not await pause(wait_s):
                return None
            wait_s = min(2 * wait_s, _LONGEST_S)

    def _failed(self, exc: StoreUnavailable) -> None:
        if not self._out:
            self._out = True
            if self._tell is not None:
                self._tell(exc)

    def _worked(self) -> None:
        if self._out:
            self._out = False
            if self._tell is not None:
                self._tell(None)
