"""A store that kills its process at one of its writes."""

from __future__ import annotations

import os
import signal
from typing import Any

from ekiden.storage.base import Store

WRITES = frozenset(
    {"write", "take_messages", "write_documents", "release_message", "settle_messages"}
)


class MortalStore:
    """The store behind it, until the n-th write: the process dies before it, or after it."""

    def __init__(self, store: Store, *, nth: int, before: bool) -> None:
        self._store = store
        self._left = nth
        self._before = before

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in WRITES:
            return found

        async def write(*args: Any, **kwargs: Any) -> Any:
            self._left -= 1
            if self._left == 0 and self._before:
                os.kill(os.getpid(), signal.SIGKILL)
            last = self._left == 0
            result = await found(*args, **kwargs)
            if last:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return write
