"""Keys as the server looks them up: kept for a moment, so that not every request asks the store."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from ekiden.project.keys import ApiKey, Keys
from ekiden.server.background import BackgroundTasks

FRESH_S: Final = 1.0
"""How long a lookup is cached: after that, keys revoked elsewhere are refused here."""
NOTED_EVERY_S: Final = 60.0
_MOST: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known about a prefix."""

    key: ApiKey | None
    is_live: bool
    until: float


class KeyRing:
    """Looks keys up in the main store, which `keys` gives; of one event loop."""

    def __init__(
        self,
        keys: Callable[[], Awaitable[Keys]],
        background: BackgroundTasks,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keys = keys
        self._background = background
        self._monotonic = monotonic
        self._known: dict[str, Known] = {}
        self._logins: dict[str, tuple[str | None, float]] = {}
        """The key of each login, and until when that is believed."""
        self._noted: dict[str, float] = {}
        self._any = False
        self._none_until = 0.0

    async def look_up(self, key_id: str) -> Known:
        """What is known about a key; at most `FRESH_S` old."""
        now = self._monotonic()
        known = self._known.get(key_id)
        if known is not None and now < known.until:
            return known
        keys = await self._keys()
        key = await keys.find(key_id)
        is_live = key is not None and key.is_live(await keys.now_us())
        known = Known(key=key, is_live=is_live, until=now + FRESH_S)
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[key_id] = known
        return known

    async def key_of_login(self, id: str) -> str | None:
        """The id of the key that a browser logged in with; at most `FRESH_S` old."""
        now = self._monotonic()
        key_id, until = self._logins.get(id, (None, 0.0))
        if now >= until:
            key_id = await (await self._keys()).logins.key_of(id)
            if len(self._logins) >= _MOST:
                self._logins.clear()
            self._logins[id] = key_id, now + FRESH_S
        return key_id

    async def begin_login(self, key_id: str) -> str:
        """Start a browser's login with the key; returns the token for its cookie."""
        return await (await self._keys()).logins.begin(key_id)

    async def end_login(self, id: str) -> None:
        """End a browser's login; other servers know within a second."""
        await (await self._keys()).logins.end(id)
        self._logins.pop(id, None)

    async def any_exist(self) -> bool:
        """Whether any key exists; once true, it stays true."""
        now = self._monotonic()
        if not self._any and now >= self._none_until:
            self._any = await (await self._keys()).exist()
            self._none_until = now + FRESH_S
        return self._any

    def forget(self) -> None:
        """Drop the cache: this process changed keys."""
        self._known.clear()
        self._logins.clear()
        self._none_until = 0.0

    def note_use(self, key_id: str) -> None:
        """Record the use of the key, at most once a minute, in the background."""
        now = self._monotonic()
        last = self._noted.get(key_id)
        if last is not None and now - last < NOTED_EVERY_S:
            return
        if len(self._noted) >= _MOST:
            self._noted.clear()
        self._noted[key_id] = now
        self._background.begin(
            lambda: self._write_use(key_id), what="the use of a key was not noted"
        )

    async def _write_use(self, key_id: str) -> None:
        await (await self._keys()).note_use(key_id)
