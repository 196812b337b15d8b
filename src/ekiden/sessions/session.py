"""A handle to one stored conversation."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

from ekiden.core.errors import UserError
from ekiden.core.events import Event
from ekiden.core.ids import check_id, new_id
from ekiden.core.items import Item
from ekiden.sessions.conversation import conversation
from ekiden.storage.base import NewSession, SessionRow, Store


class Session:
    """A conversation in a store, to pass as ``session=`` to a run.

    Without an id it is a new one. The session is created by its first run. The agent that has the
    conversation is part of it: the next message goes to that agent::

        store = SqliteStore("desk.db")
        session = Session("customer-42", store=store)
        await Runner.run(triage, "Where is my parcel?", session=session)
    """

    def __init__(
        self,
        session_id: str | None = None,
        *,
        store: Store,
        user_id: str | None = None,
        title: str | None = None,
        correlation_id: str | None = None,
    ) -> None:
        if session_id is None:
            session_id = new_id("ses")
        elif not isinstance(session_id, str):
            raise UserError(
                f"a session id is text, not {type(session_id).__name__}: "
                f"write Session({str(session_id)!r:.80}, …), or None for a new id"
            )
        if isinstance(store, str | PathLike):
            raise UserError(f"store must be a Store: open_store({str(store)!r:.80}) gives one")
        self.session_id = check_id(session_id, what="session id")
        self.store = store
        self.user_id = user_id
        self.meta: dict[str, Any] = {}
        if title is not None:
            self.meta["title"] = title
        if correlation_id is not None:
            self.meta["correlation_id"] = correlation_id

    def draft(self, agent: str) -> NewSession:
        """What the session is created with if it does not exist yet."""
        return NewSession(id=self.session_id, agent=agent, user_id=self.user_id, meta=self.meta)

    async def row(self) -> SessionRow:
        """The stored row; `SessionNotFound` before the first run."""
        await self.store.open()
        return await self.store.get(self.session_id)

    async def events(self, *, after: int = 0) -> Sequence[Event]:
        """What happened, in order."""
        await self.store.open()
        return await self.store.events(self.session_id, after=after)

    async def get_items(self, limit: int | None = None) -> list[Item]:
        """The conversation as it stands; with `limit` its last items."""
        await self.store.open()
        items = conversation(await self.store.events(self.session_id, with_items=True))
        return items if limit is None else items[max(len(items) - limit, 0) :]

    async def delete(self) -> None:
        """Remove what is stored of the session; `SessionNotFound`, `SessionBusy`.

        What others have of it stays: questions that it asked, and whoever waits for its answer.
        `ekiden.runtime.deletion.delete_session` ends these, too.
        """
        await self.store.open()
        await self.store.delete(self.session_id)
