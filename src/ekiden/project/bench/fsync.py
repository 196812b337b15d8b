"""What one durable write costs on this disk."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path


def fsync_us(folder: Path, *, writes: int = 20) -> float:
    """Median microseconds of writing 4 KiB to a file in `folder` and syncing it."""
    block = b"\0" * 4096
    taken = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(writes):
            began = time.perf_counter_ns()
            file.write(block)
            os.fsync(file.fileno())
            taken.append((time.perf_counter_ns() - began) / 1000)
    return statistics.median(taken)
