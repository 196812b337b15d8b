"""How often somebody may call: a bucket of tokens for each."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from ekiden.core.errors.server import TooManyRequests

_MOST: Final = 10_000


class Rates:
    """Lets everybody call `burst` times at once and `rate` times a second in the long run.

    A rate of 0 is no limit. Only those who are known are counted: whoever it is for sees to that,
    so that the memory stays small.
    """

    def __init__(
        self,
        rate: float,
        burst: int,
        *,
        told: str | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`told`: what whoever calls too often is told."""
        self._told = told or f"this key may make {rate:g} requests a second"
        self._rate = rate
        self._burst = max(1, burst)
        self._monotonic = monotonic
        self._buckets: dict[str, tuple[float, float]] = {}
        """Tokens, and when there were so many."""

    def take(self, who: str) -> None:
        """Count one call; `TooManyRequests` if it is one too many."""
        if self._rate <= 0:
            return
        now = self._monotonic()
        tokens, at = self._buckets.get(who, (float(self._burst), now))
        tokens = min(float(self._burst), tokens + (now - at) * self._rate)
        if tokens < 1.0:
            self._buckets[who] = (tokens, now)
            wait_s = max(1.0, (1.0 - tokens) / self._rate)
            raise TooManyRequests(self._told, retry_after_s=wait_s)
        if who not in self._buckets and len(self._buckets) >= _MOST:
            self._forget(now)
        self._buckets[who] = (tokens - 1.0, now)

    def _forget(self, now: float) -> None:
        """Let go of those whose bucket is full again, or else of all."""
        left = {
            who: (tokens, at)
            for who, (tokens, at) in self._buckets.items()
            if tokens + (now - at) * self._rate < self._burst
        }
        self._buckets = left if len(left) < _MOST else {}
