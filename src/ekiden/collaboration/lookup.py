"""Finds collaborations, and waits until one changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from ekiden.collaboration.ledger import Ledger
from ekiden.collaboration.protocol.record import Collaboration, Phase
from ekiden.collaboration.protocol.stored import COLLABORATIONS, read_record
from ekiden.core.errors import UserError
from ekiden.core.errors.collaboration import CollaborationUnreadable

_log = logging.getLogger("ekiden.collaboration")

_PAGE = 100
_LOOK_S = 1.0
"""Changes are hints: so often it is looked without one."""


class CollaborationReader:
    """Reads collaborations as they stand: those whose time is over are expired by looking."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def list(
        self,
        *,
        agent: str | None = None,
        phases: Sequence[Phase] | None = None,
        after: str = "",
        limit: int = _PAGE,
    ) -> Sequence[Collaboration]:
        """By id, which is by age: those behind `after`, of one agent and in some phases.

        What cannot be read is left out, with a warning in the log.
        """
        if limit < 1:
            raise UserError(f"`limit` is 1 or more, not {limit!r:.40}")
        found: list[Collaboration] = []
        store = self._ledger.store
        while True:
            documents = await store.list_documents(COLLABORATIONS, after=after, limit=_PAGE)
            for document in documents:
                after = document.key
                try:
                    record = read_record(document)
                except CollaborationUnreadable as exc:
                    _log.warning("%s; it is left out", exc)
                    continue
                if agent is not None and agent not in record.participants:
                    continue
                now_us = await store.now_us()
                if record.due_us is not None and record.due_us <= now_us:
                    record = await self._ledger.look(record.id)
                if phases is None or record.phase in phases:
                    found.append(record)
                if len(found) == limit:
                    return found
            if len(documents) < _PAGE:
                return found

    async def wait_for(
        self,
        collaboration_id: str,
        until: Callable[[Collaboration], bool] | None,
        *,
        timeout_s: float,
    ) -> Collaboration:
        """Until the condition holds or it is closed; `TimeoutError`."""
        async with asyncio.timeout(timeout_s):
            while True:
                found = await self._ledger.look(collaboration_id)
                if found.is_closed or (until is not None and until(found)):
                    return found
                await self._ledger.store.wait_for_change(_LOOK_S)

    async def collected(self, record: Collaboration) -> Collaboration:
        """A call when all have answered, or its deadline is over."""
        while record.phase == "discovery" and record.unanswered:
            left_s = (record.deadline_us - await self._ledger.store.now_us()) / 1e6
            if left_s <= 0:
                break
            await self._ledger.store.wait_for_change(min(left_s, _LOOK_S))
            record = await self._ledger.look(record.id)
        return record

    async def moment_us(self, in_s: float) -> int:
        """The time in so many seconds, on the store's clock."""
        return await self._ledger.store.now_us() + int(in_s * 1e6)
