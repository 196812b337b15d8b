"""Kept answers and logins are removed when their time is over, whether or not anybody calls."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from ekiden.core.errors import EkidenError
from ekiden.project.keys import Logins
from ekiden.project.service import Desk
from ekiden.project.tenants import DEFAULT_TENANT
from ekiden.server.chores import Chores
from ekiden.server.idempotency import prune

_log = logging.getLogger("ekiden.server")

EVERY_S: Final = 3600.0


def tidy(desk: Desk, chores: Chores) -> None:
    """Look through what is kept at the desk, now and every hour, until `chores` are closed."""
    chores.begin(lambda: _again_and_again(desk), what="old answers are removed no more")


async def _again_and_again(desk: Desk) -> None:
    while True:
        try:
            await prune(desk.store)
            if desk.tenant == DEFAULT_TENANT:
                await Logins(desk.store).prune()
        except EkidenError as exc:
            _log.warning("old answers were not removed, trying again: %s", exc.code)
        await asyncio.sleep(EVERY_S)
