"""A session that several processes work on, one after the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.faults.aftermath import check_audit
from tests.faults.child import Job
from tests.faults.databases import Database
from tests.faults.evidence import Record, check_log, read
from tests.faults.ledger import Ledger
from tests.faults.scenarios import KNOWN


class Scene:
    """One session of one scenario in one database, and who works on it."""

    def __init__(self, scenario: str, database: Database, session_id: str, ledger: Ledger) -> None:
        self.database = database
        self.session_id = session_id
        self.ledger = ledger
        self.entry = KNOWN[scenario].entry
        self.job = Job(
            scenario=scenario, store=database.url, session=session_id, folder=str(ledger.folder)
        )

    def job_with(self, **changes: Any) -> Job:
        """The session's job, changed."""
        return replace(self.job, **changes)

    async def find(self) -> Record | None:
        """What is stored now; whatever it is, it is consistent."""
        async with self.database.open() as store:
            record = await read(store, self.session_id)
            if record is not None:
                await check_audit(store, self.session_id)
                check_log(record, entry=self.entry)
        return record

    async def read(self) -> Record:
        """The same, where there must be something."""
        record = await self.find()
        assert record is not None
        return record

    async def left_by_the_dead(self) -> Record | None:
        """What is stored; the process that had the session has lost it."""
        record = await self.find()
        await self.database.expire_lease(self.session_id)
        return record
