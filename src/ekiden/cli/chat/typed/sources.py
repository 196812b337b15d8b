"""The choices for a chat's completion: team, settings and store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ekiden.cli.chat.typed.picker import age
from ekiden.core.errors import EkidenError

if TYPE_CHECKING:
    from ekiden.cli.chat.roster import Roster
    from ekiden.core.questions import InboxItem
    from ekiden.storage.base import Store

_SESSIONS = 50
_FRESH_S = 5.0
_TIMEOUT_S = 2.0
_ROUTING = "agents.routing."


class ChatSources:
    """`Sources` of one chat."""

    def __init__(self, roster: Roster, store: Store) -> None:
        self._roster = roster
        self._store = store
        self._sessions: Sequence[tuple[str, str]] = ()
        self._read_at = -_FRESH_S
        self._items: Sequence[InboxItem] = ()
        self._items_read_at = -_FRESH_S

    def agents(self) -> Sequence[tuple[str, str]]:
        agents = sorted(self._roster.project.agents.items())
        return [
            (name, " ".join((agent.title or agent.description or "").split()))
            for name, agent in agents
            if agent.scope != "system"
        ]

    def settings(self) -> Sequence[tuple[str, str]]:
        from ekiden.project.settings import SETTINGS

        return [
            (each.name.removeprefix("agents."), each.meaning)
            for each in SETTINGS
            if each.name.startswith(_ROUTING)
        ]

    def values(self, setting: str) -> Sequence[str]:
        from ekiden.project.settings import SETTINGS

        wanted = setting if setting.startswith("agents.") else f"agents.{setting}"
        if wanted == f"{_ROUTING}default_agent":
            return [name for name, _ in self.agents()]
        kind = next((each.kind for each in SETTINGS if each.name == wanted), None)
        return list(getattr(kind, "words", ())) or (
            ["true", "false"] if type(kind).__name__ == "Flag" else []
        )

    def strategies(self) -> Sequence[str]:
        from ekiden.routing.decision import STRATEGIES

        return STRATEGIES

    async def items(self) -> Sequence[tuple[str, str]]:
        """Read at most every few seconds, like sessions."""
        from ekiden.cli.views.inbox import question_line

        return [(item.id, question_line(item)) for item in await self._open_items()]

    async def choices(self, item: str) -> Sequence[str]:
        fitting = [each for each in await self._open_items() if each.id.startswith(item)]
        return fitting[0].options if len(fitting) == 1 else ()

    async def _open_items(self) -> Sequence[InboxItem]:
        from ekiden.inbox import Inbox

        if time.monotonic() - self._items_read_at < _FRESH_S:
            return self._items
        self._items_read_at = time.monotonic()
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                self._items = (await Inbox(self._store).list(limit=_SESSIONS)).items
        except (EkidenError, TimeoutError):
            return self._items
        return self._items

    async def sessions(self) -> Sequence[tuple[str, str]]:
        """Read at most every few seconds; the last result if the store does not answer."""
        from ekiden.storage.base import SessionFilter

        if time.monotonic() - self._read_at < _FRESH_S:
            return self._sessions
        self._read_at = time.monotonic()
        where = SessionFilter(user_id=self._roster.project.settings.user)
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                page = await self._store.list(where, limit=_SESSIONS)
        except (EkidenError, TimeoutError):
            return self._sessions
        self._sessions = [
            (row.id, f"{age(row)}, {row.agent}: {row.meta.get('title', '')}".rstrip(": "))
            for row in page.sessions
        ]
        return self._sessions
