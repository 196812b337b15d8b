"""The clock of leases: all processes on one file are on one machine, whose wall clock may jump."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ekiden.core.roles import Clock

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseClock:
    """Milliseconds that every process on this machine reads alike."""

    boot: str
    """Names the run of the machine that the times belong to; those of another run mean nothing."""
    now_ms: Callable[[], int]


class Moment(NamedTuple):
    """The time of a transaction."""

    ms: int
    """On the lease clock."""
    us: int
    """On the store's clock: the lease clock, counted from 1970."""
    wall_us: int
    """For people, and for the line of sessions that are ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreClock:
    """What time it is, in all three ways."""

    lease_clock: LeaseClock
    wall: Clock
    offset_ms: int
    """Wall time minus lease clock, as the first who used the file after a boot saw it."""

    def now(self) -> Moment:
        """The time now."""
        ms = self.lease_clock.now_ms()
        return Moment(ms, (ms + self.offset_ms) * 1000, self.wall.now_us())

    def now_us(self) -> int:
        """The store's clock now."""
        return (self.lease_clock.now_ms() + self.offset_ms) * 1000


def machine_clock(boot_id: Path = _BOOT_ID) -> LeaseClock:
    """The time since the machine started, which nobody can set.

    Where the system does not name its boots such a time could be taken for one of an earlier
    boot, so there it is the wall clock.
    """
    clock_id = getattr(time, "CLOCK_BOOTTIME", None)
    try:
        boot = boot_id.read_text("ascii").strip()
    except OSError:
        boot = ""
    if not boot or clock_id is None:
        return LeaseClock(boot="wall", now_ms=lambda: time.time_ns() // 1_000_000)
    return LeaseClock(boot=boot, now_ms=lambda: time.clock_gettime_ns(clock_id) // 1_000_000)
