"""Questions to people as they come, and what becomes of them."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from ekiden.cli.exits import Exit
from ekiden.cli.output import complain, emit, note, say
from ekiden.cli.tables import clock_time
from ekiden.cli.transcript import shorten
from ekiden.core.errors import StoreError, StoreUnavailable
from ekiden.core.inbox_errors import InboxItemNotFound
from ekiden.core.jsonio import dumps
from ekiden.hub import EventStream, HubEvent
from ekiden.inbox import NEW_ITEM, Inbox, new_item_notice, run_due
from ekiden.storage.base import Store

_LONGEST = 120
_KEEP_TIME_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxSpectator:
    """Shows what a stream of inbox events gives."""

    inbox: Inbox
    as_json: bool
    role: str | None = None
    """Only what is for this role."""
    words: Sequence[str] = ()
    """The options of the command that have to be given again in order to go on."""

    def begin(self, stream: EventStream, url: str) -> None:
        """Say that from now on nothing is missed."""
        if self.as_json:
            note(dumps({"watching": {"store": url, "after": stream.position}}))
        else:
            note(f"watching the inbox in {url}; Ctrl-C ends it, `ekiden inbox list` has the rest")

    async def show(self, stream: EventStream) -> int:
        """Print changes until the stream or Ctrl-C ends it, and say how to go on."""
        code = Exit.OK
        try:
            async for found in stream:
                await self._show(found)
        except asyncio.CancelledError:
            code = Exit.INTERRUPTED
        after = stream.position or ""
        if self.as_json:
            note(dumps({"after": after}))
        else:
            words = ["ekiden", "inbox", "watch", "--after", after, *self.words]
            note(f"go on with: {shlex.join(words)}")
        return code

    def outage(self, exc: StoreUnavailable | None) -> None:
        """Say that the store cannot be reached, or that it can be again."""
        if exc is not None:
            complain(exc.code, f"{exc}; trying again", as_json=self.as_json)
        else:
            note(dumps({"note": "the store is back"}) if self.as_json else "the store is back")

    async def _show(self, found: HubEvent) -> None:
        details = found.event.details or {}
        if "status" in details and "change" not in details:
            return  # A session took its answer: the inbox has told of that itself.
        if self.role is not None and details.get("role") != self.role:
            return
        if self.as_json:
            emit(await self._record(found.id, details))
        else:
            say(change_line(found.event.at_us, details))

    async def _record(self, event_id: str, details: Mapping[str, Any]) -> dict[str, Any]:
        """As it is pushed to programs."""
        change = _change(details)
        if change != "posted":
            return {"event_id": event_id, "type": f"inbox.{change}", "data": dict(details)}
        data: Mapping[str, Any] = details
        with suppress(InboxItemNotFound):
            data = new_item_notice(await self.inbox.get(str(details.get("item") or "-")))
        return {"event_id": event_id, "type": NEW_ITEM, "data": dict(data)}


@asynccontextmanager
async def keeping_time(store: Store) -> AsyncIterator[None]:
    """While the body runs, deadlines and escalations of the inbox are kept."""

    async def keep() -> None:
        while True:
            with suppress(StoreError):
                await run_due(store, now_us=await store.now_us())
            await asyncio.sleep(_KEEP_TIME_S)

    task = asyncio.create_task(keep(), name="ekiden-inbox-time")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _change(details: Mapping[str, Any]) -> str:
    return str(details.get("change") or "posted")


def change_line(at_us: int, details: Mapping[str, Any]) -> str:
    """A change of a question, for people."""
    change = _change(details)
    by = details.get("by")
    answer = details.get("choice") or details.get("text")
    until = details.get("snoozed_until_us") if change == "snoozed" else None
    words = (
        clock_time(at_us / 1e6),
        str(details.get("item") or "-"),
        "new" if change == "posted" else change,
        str(details.get("kind") or ""),
        f"{details.get('from')} → {details.get('role')}:",
        shorten(" ".join(str(details.get("subject") or "").split()), _LONGEST),
        f"→ {shorten(' '.join(str(answer).split()), _LONGEST)}" if answer else "",
        f"until {clock_time(until / 1e6)}" if isinstance(until, int) else "",
        f"to {details.get('assignee') or 'nobody'}" if change == "assigned" else "",
        f"by {by}" if isinstance(by, str) and by else "",
    )
    return "  ".join(word for word in words if word)
