"""Choosing from a list: its lines, and moving the selection."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ekiden.cli.terminal.transcript import shorten
from ekiden.core.conversation.model import text_of
from ekiden.core.conversation.quotes import is_request

if TYPE_CHECKING:
    from ekiden.core.events import Event
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
