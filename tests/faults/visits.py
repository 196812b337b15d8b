"""Counting how often fault points are passed."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from ekiden.core.faults import fault_point


@contextmanager
def counted_visits() -> Iterator[Counter[str]]:
    """The visits of each point, by this thread and by those that start meanwhile."""
    visits: Counter[str] = Counter()
    here = fault_point.__code__

    def look(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is here:
            visits[frame.f_locals["name"]] += 1

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        yield visits
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
