"""What is kept of a live session in a store."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

from ekiden.core.conversation.model import Item, is_message
from ekiden.core.errors import LeaseLost, StoreError, UserError
from ekiden.core.values import new_id
from ekiden.integrations.realtime.agent import RealtimeAgent
from ekiden.integrations.realtime.config import RealtimeRunConfig
from ekiden.runtime import RunOptions, RunState
from ekiden.runtime.live_sessions import end_live
from ekiden.runtime.loop.claim import claimed
from ekiden.runtime.loop.load import opened_live
from ekiden.runtime.state.cursor import has_open_handoffs
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore

_log = logging.getLogger("ekiden.integrations.realtime")


class SessionRecord:
    """A session that this process has claimed, and writes what happens into.

    Without a stored session it is one in memory. The claim is kept by `keep` and given up by
    `release`. Every write is one fenced transaction: once the lease is lost, all of them are
    `LeaseLost` and nothing is stored.
    """

    def __init__(self, run: RunState) -> None:
        self.run = run
        """What the runtime checks handoffs with, and records them in."""

    @classmethod
    async def open(
        cls,
        session: Session | None,
        *,
        agent: RealtimeAgent[Any],
        context: Any,
        config: RealtimeRunConfig,
    ) -> SessionRecord:
        """Claim the session, which begins with `agent` if it does not exist yet.

        `SessionBusy` while somebody else has it, `UserError` if it has an unfinished text run,
        `UnknownAgent` if it belongs to an agent that cannot be reached from `agent`.
        """
        options = RunOptions(
            root=agent,
            config=config.run_config(),
            context=context,
            hooks=config.hooks,
            is_reachable=session is not None,
        )
        if session is None:
            session = Session(new_id("live"), store=MemoryStore(config.clock))
        store, draft = session.store, session.draft(agent.name)
        await store.open()
        claim, row = await claimed(store, draft.id, options.config, create=draft)
        try:
            if row.status != "idle" or has_open_handoffs(row):
                raise UserError(
                    f"session {row.id!r} has an unfinished run ({row.status}): let it end or "
                    "resume it before it continues live"
                )
            return cls(await opened_live(options, store, claim, row))
        except BaseException:
            with suppress(StoreError):
                await store.release(claim)
            raise

    def messages(self, limit: int) -> list[Item]:
        """The last messages of the conversation so far."""
        said = [item for item in self.run.visible if is_message(item)]
        return said[-limit:] if limit else []

    async def message(self, item: Item) -> None:
        """Something was said."""
        self.run.record("message", items=(item,))
        await self.run.commit()

    async def tool_call(
        self, agent: str, tool: str, items: tuple[Item, ...], *, error: str | None
    ) -> None:
        """A call and its answer."""
        details = {"tool": tool}
        self.run.record("tool_call", items=items, details=details, error=error, agent=agent)
        await self.run.commit()

    async def keep(self) -> None:
        """Renew the lease for as long as this is awaited; `LeaseLost` when that fails."""
        run = self.run
        while run.is_reachable:
            await asyncio.sleep(run.claim.lease_s / 3)
            try:
                lost = await run.store.renew([run.claim])
            except StoreError as exc:
                _log.warning("the lease could not be renewed, trying again: %s", exc)
                continue
            if lost:
                raise LeaseLost(run.session_id)

    async def release(self) -> None:
        """Give the session up; if that cannot be told to the store, the lease runs out."""
        await end_live(self.run)
        with suppress(StoreError):
            await self.run.store.release(self.run.claim)
