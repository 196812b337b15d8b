"""The machine's clock."""

from __future__ import annotations

import time


class SystemClock:
    """`Clock` on the machine's own time."""

    __slots__ = ()

    def now_us(self) -> int:
        return time.time_ns() // 1000

    monotonic = staticmethod(time.monotonic)


SYSTEM_CLOCK = SystemClock()
