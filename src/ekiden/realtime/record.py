"""What is kept of a live session in a store."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from ekiden.audit import GENESIS, chained, head_of
from ekiden.core.errors import LeaseLost, StoreError, UserError
from ekiden.core.events import Event, EventType
from ekiden.core.handoff_record import RefusalCode
from ekiden.core.items import Item, is_message
from ekiden.core.jsonio import dumps
from ekiden.core.roles import Clock
from ekiden.sessions import Session, conversation
from ekiden.sessions.scopes import check_name, is_shared_name
from ekiden.sessions.state import STATE, changes_between
from ekiden.storage.base import Claim, Commit, SessionPatch, SessionRow, Store

_log = logging.getLogger("ekiden.realtime")

_ENDED_RUN: dict[str, Any] = {"r": 0, "t": 0, "p": "end", "f": 0, "ch": []}
"""The cursor of a session in which no text run is open."""


class SessionRecord:
    """A stored session that this process has claimed, and writes what happens into.

    The claim is kept by `keep` and given up by `release`. Every write is one fenced transaction:
    once the lease is lost, all of them are `LeaseLost` and nothing is stored.
    """

    def __init__(self, store: Store, claim: Claim, row: SessionRow, clock: Clock) -> None:
        self.session_id = row.id
        self.agent = row.agent
        """Who has the conversation, as it is stored."""
        self.variables = Variables(row.variables)
        self._store = store
        self._claim = claim
        self._clock = clock
        self._seq = row.seq
        self._cursor = {**(row.cursor or _ENDED_RUN)}
        self._stored_variables = dict(row.variables)
        head = head_of(row)
        self._hash, self._hashes = (GENESIS, 0) if head is None else (head.hash, head.count)
        self._writing = asyncio.Lock()

    @classmethod
    async def open(
        cls, session: Session, *, agent: str, lease_s: float, clock: Clock
    ) -> SessionRecord:
        """Claim the session, which begins with `agent` if it does not exist yet.

        `SessionBusy` while somebody else has it, `UserError` if it has an unfinished text run.
        """
        store = session.store
        await store.open()
        claim, row = await store.claim(
            session.session_id, owner=_owner(), lease_s=lease_s, create=session.draft(agent)
        )
        if row.status != "idle":
            await store.release(claim)
            raise UserError(
                f"session {row.id!r} has an unfinished run ({row.status}): let it end or resume it "
                "before it goes on live"
            )
        return cls(store, claim, row, clock)

    async def messages(self, limit: int) -> list[Item]:
        """The last messages of the conversation so far."""
        if not limit or not self._seq:
            return []
        said = conversation(await self._store.events(self.session_id, with_items=True))
        return [item for item in said if is_message(item)][-limit:]

    async def message(self, agent: str, item: Item) -> None:
        """Something was said."""
        await self._write("message", agent=agent, items=(item,))

    async def tool_call(
        self, agent: str, tool: str, items: tuple[Item, ...], *, error: str | None
    ) -> None:
        """A call and its answer."""
        await self._write(
            "tool_call", agent=agent, items=items, details={"tool": tool}, error=error
        )

    async def handoff(
        self,
        source: str,
        target: str,
        *,
        moves: tuple[str, ...],
        items: tuple[Item, ...] = (),
        reason: str | None = None,
        error: str | None = None,
        code: RefusalCode | None = None,
    ) -> None:
        """A handoff came to its end, which is the last of `moves`: completed, or failed.

        With a completed one the conversation is the target's, in the same transaction.
        """
        number = self._cursor.get("h", 0) + 1
        details: dict[str, Any] = {
            "id": f"{self.session_id}.h{number}",
            "from": source,
            "to": target,
            "status": moves[-1],
            "moves": list(moves),
        }
        if reason:
            details["reason"] = reason
        if code is not None:
            details["code"] = code
        changes: dict[str, Any] = {"h": number}
        if moves[-1] == "completed":
            changes["rc"] = None
        await self._write(
            "handoff",
            agent=source,
            items=items,
            details=details,
            error=error,
            changes=changes,
            owner=target if moves[-1] == "completed" else None,
        )

    async def keep(self) -> None:
        """Renew the lease for as long as this is awaited; `LeaseLost` when that fails."""
        while True:
            await asyncio.sleep(self._claim.lease_s / 3)
            try:
                lost = await self._store.renew([self._claim])
            except StoreError as exc:
                _log.warning("the lease could not be renewed, trying again: %s", exc)
                continue
            if lost:
                raise LeaseLost(self.session_id)

    async def release(self) -> None:
        """Give the session up; if that cannot be told to the store, the lease runs out."""
        with suppress(StoreError):
            await self._store.release(self._claim)

    async def _write(
        self,
        type: EventType,
        *,
        agent: str,
        items: tuple[Item, ...],
        details: dict[str, Any] | None = None,
        error: str | None = None,
        changes: dict[str, Any] | None = None,
        owner: str | None = None,
    ) -> None:
        """The one place where an event is made and stored, linked into the audit's chain."""
        async with self._writing:
            variables = dict(self.variables)
            told = changes_between(self._stored_variables, variables)
            event = Event(
                session_id=self.session_id,
                seq=self._seq + 1,
                type=type,
                at_us=self._clock.now_us(),
                agent=agent,
                details={**(details or {}), STATE: told} if told else details,
                items=items,
                error=error,
            )
            events, head, count = chained([event], self._hash)
            cursor = {**self._cursor, **(changes or {})}
            if count:
                cursor |= {"hd": head, "hn": self._hashes + count}
            cursor = {name: value for name, value in cursor.items() if value is not None}
            patch = SessionPatch(
                agent=owner,
                cursor=cursor,
                variables=variables if told else None,
            )
            await self._store.commit(self._claim, Commit(patch=patch, events=events))
            self._seq += 1
            self._hash, self._hashes = head, self._hashes + count
            self._cursor, self._stored_variables = cursor, variables
            self.agent = owner or self.agent


class Variables(dict[str, Any]):
    """A session's variables: what is set must be JSON, so that it can be stored."""

    def __init__(self, values: Iterable[Any]) -> None:
        super().__init__(values)

    def __setitem__(self, name: str, value: Any) -> None:
        check_name(name)
        if is_shared_name(name):
            raise UserError(
                f"the variable {name!r} cannot be set in a live session: variables of users and "
                "apps are there for runs of text"
            )
        try:
            dumps({name: value})
        except (TypeError, ValueError, RecursionError) as exc:
            raise UserError(
                f"the variable {name!r:.80} cannot be stored, it is not JSON: {exc}"
            ) from exc
        super().__setitem__(name, value)


def _owner() -> str:
    return f"{socket.gethostname()[:24]}-{os.getpid()}-live-{os.urandom(3).hex()}"
