"""Background tasks that no request waits for, and long work: one of each kind at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final
from weakref import WeakKeyDictionary

from ekiden.core.errors import EkidenError
from ekiden.core.errors.server import TooManyRequests
from ekiden.project.service import TenantService

_log = logging.getLogger("ekiden.server")

_MOST = 1000


class BackgroundTasks:
    """Owns tasks without a result; failures are logged."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def begin(self, work: Callable[[], Awaitable[object]], *, what: str) -> bool:
        """Run `work` in the background; `False` if there are too many tasks, or it is closed."""
        if self._is_closed or len(self._tasks) >= _MOST:
            return False
        task = asyncio.create_task(_run_logged(work, what))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def settle(self) -> None:
        """Wait for the running tasks."""
        await asyncio.gather(*self._tasks)

    async def close(self) -> None:
        """Stop the running tasks; new ones are refused."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _run_logged(work: Callable[[], Awaitable[object]], what: str) -> None:
    try:
        await work()
    except EkidenError as exc:
        _log.warning("%s: %s", what, exc.code)
    except Exception:
        _log.exception("%s", what)


_under_way: Final[WeakKeyDictionary[TenantService, set[str]]] = WeakKeyDictionary()


@contextmanager
def one_at_a_time(desk: TenantService, what: str) -> Iterator[None]:
    """Wrap work that reads a whole store; `TooManyRequests` while the same work of the tenant is
    in progress."""
    busy = _under_way.setdefault(desk, set())
    if what in busy:
        raise TooManyRequests(f"another request for this ({what}) is in progress", retry_after_s=5)
    busy.add(what)
    try:
        yield
    finally:
        busy.discard(what)
