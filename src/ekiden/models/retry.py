"""When to ask a provider again, and how long to wait before."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

Sleep: TypeAlias = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Exponential back-off with jitter, bounded in number and length."""

    retries: int = 3
    first_s: float = 0.5
    """The longest wait before the first retry; it doubles with each."""
    cap_s: float = 30.0
    """No wait is longer, not even one the provider asks for."""
    sleep: Sleep = asyncio.sleep
    """Tests put a recorder here, and so never wait."""
    jitter: Callable[[], float] = random.random
    """A number from 0 to 1 by which a wait is multiplied."""

    def wait_s(self, failed: int, retry_after: float | None) -> float | None:
        """The wait after the `failed`-th failure in a row; `None` says to give up.

        A provider that asks for more patience than `cap_s` is not asked again: it would only
        refuse once more.
        """
        if failed > self.retries:
            return None
        if retry_after is not None:
            return retry_after if retry_after <= self.cap_s else None
        longest: float = min(self.cap_s, self.first_s * 2 ** (failed - 1))
        return longest * (0.5 + self.jitter() / 2)
