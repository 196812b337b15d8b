"""Distinguishes a requested cancellation from one that only looks like it."""

from __future__ import annotations

import asyncio


def is_being_cancelled() -> bool:
    """Whether the running task was asked to stop.

    If not, a `CancelledError` comes from below: something that was awaited is cancelled, as in
    ``task.cancel(); await task``, and that is a failure like any other.
    """
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
