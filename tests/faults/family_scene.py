"""A session with all whom it asks, that several processes work on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeAlias

from tests.faults.ask_scenarios import ASKS
from tests.faults.child import Job
from tests.faults.databases import Database
from tests.faults.family import (
    Family,
    FamilyEnd,
    check_family_end,
    check_family_work,
    read_family,
)
from tests.faults.ledger import Ledger

FamilyReference: TypeAlias = Callable[[str], Awaitable[FamilyEnd]]


class FamilyScene:
    """A session of one scenario with all whom it asks, and who works on them."""

    def __init__(self, scenario: str, database: Database, session_id: str, ledger: Ledger) -> None:
        self.database = database
        self.ledger = ledger
        self.job = Job(
            scenario=scenario, store=database.url, session=session_id, folder=str(ledger.folder)
        )

    def job_with(self, **changes: Any) -> Job:
        """The session's job, changed."""
        return replace(self.job, **changes)

    async def find(self) -> Family | None:
        """What is stored now."""
        async with self.database.open() as store:
            return await read_family(store, self.job.session)

    async def left_by(self, dead: int) -> Family | None:
        """What is stored; and the process has nothing any longer."""
        found = await self.find()
        await self.database.expire_leases_of(dead)
        return found

    async def check_work(self, before: Family | None, rescuer: int) -> None:
        """The process that continued did what was left and nothing else."""
        after = await self.find()
        if after is not None:
            check_family_work(before, after, self.ledger, rescuer=rescuer)

    async def check_end(self, unharmed: FamilyReference) -> None:
        """All is as it was meant to be."""
        async with self.database.open() as store:
            await check_family_end(
                store, self.job.session, self.ledger, await unharmed(self.job.scenario)
            )
        assert self.ledger.effects() == sorted(ASKS[self.job.scenario].effects)
