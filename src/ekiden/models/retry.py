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
    """The longest wait, even if the provider asks for more."""
    sleep: Sleep = asyncio.sleep
    """Tests replace it to avoid waiting."""
    jitter: Callable[[], float] = random.random
    """A factor from 0 to 1 for a wait."""

    def wait_s(self, failed: int, retry_after: float | None) -> float | None:
        """The wait after the `failed`-th failure in a row; `None` means give up.

        If a provider asks for a longer wait than `cap_s`, there is no retry: it would only refuse
        again.
        """
        if failed > self.retries:
            return None
        if retry_after is not None:
            return retry_after if retry_after <= self.cap_s else None
        longest: float = min(self.cap_s, self.first_s * 2 ** (failed - 1))
        return longest * (0.5 + self.jitter() / 2)
