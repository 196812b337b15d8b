"""What a person can choose from: sessions of a list, and the choices for completion."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ekiden.cli.transcript import shorten
from ekiden.core.conversation.model import text_of
from ekiden.core.conversation.quotes import is_request
from ekiden.core.errors import EkidenError

if TYPE_CHECKING:
    from ekiden.cli.chat.local import Roster
    from ekiden.core.events import Event
    from ekiden.core.questions import InboxItem
    from ekiden.storage.base import SessionRow, Store

_LOOK_BACK = 60
"""How many of the last events are searched for the last message."""
_WORDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOption:
    """A session to continue."""

    session_id: str
    label: str


async def session_options(
    store: Store, *, limit: int, user_id: str | None = None
) -> list[SessionOption]:
    """The newest sessions with their age, agent and the first words of the last message; with
    `user_id` only that user's."""
    from ekiden.storage.base import SessionFilter

    await store.open()
    page = await store.list(SessionFilter(user_id=user_id), limit=limit)
    options = []
    for row in page.sessions:
        recent = await store.events(row.id, after=max(row.seq - _LOOK_BACK, 0), with_items=True)
        words = _last_words(recent) or str(row.meta.get("title", ""))
        label = f"{age(row):>9}  {row.agent}  {words}"
        options.append(SessionOption(session_id=row.id, label=label))
    return options


def age(row: SessionRow, now_s: float | None = None) -> str:
    """How long ago the session changed."""
    seconds = (time.time() if now_s is None else now_s) - row.updated_at_us / 1e6
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} ago"
    return "just now"


def _last_words(events: Sequence[Event]) -> str:
    for event in reversed(events):
        for item in reversed(event.items):
            if is_request(item):
                return shorten(" ".join(text_of(item).split()), _WORDS)
    return ""


class PickerList:
    """A list with one selected line; it shows as many lines as fit."""

    def __init__(self, options: Sequence[str], *, start: int = 0, height: int = 10) -> None:
        self.options = list(options)
        self.at = min(max(start, 0), len(self.options) - 1)
        self._height = max(height, 1)

    def move(self, by: int) -> None:
        """Select another line, at most the first or last."""
        self.at = min(max(self.at + by, 0), len(self.options) - 1)

    @property
    def page(self) -> int:
        """How many lines are shown."""
        return self._height

    def shown(self) -> list[tuple[bool, str]]:
        """The lines around the selected one, and which one it is."""
        first = max(0, min(self.at - self._height // 2, len(self.options) - self._height))
        last = first + self._height
        return [
            (place == self.at, text) for place, text in enumerate(self.options[first:last], first)
        ]


_SESSIONS = 50
_FRESH_S = 5.0
_TIMEOUT_S = 2.0
_ROUTING = "agents.routing."


class ChatSources:
    """`Sources` for the completion of one chat: its team, settings and store."""

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
