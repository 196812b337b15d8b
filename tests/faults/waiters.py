"""Agents that wait for each other in processes of their own.

``python -m tests.faults.waiters JOB`` with the job as JSON. Each agent does one thing at a time:
while it waits it answers nobody. Nothing but a broken deadlock ends a wait for one who waits too.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from ekiden.bus.deadlocks import break_deadlock
from ekiden.core.conversation.messages import (
    AgentMessage,
    GroupMode,
    Letter,
    agent_queue,
    answer_json,
    error_of,
)
from ekiden.core.errors.messages import DeadlockError
from ekiden.core.values import new_id
from ekiden.project.stores import open_store
from ekiden.storage.base import MessageFilter, MessageSettle, QueuePut, Store, StoredMessage
from tests.faults.ledger import Ledger
from tests.faults.processes import ROOT, environment
from tests.support.forked import ForkedPopen

_FOR_EVER_S = 3600.0
_HINT_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a process is to do."""

    store: str
    folder: str
    """Of the ledger."""
    agents: list[str]
    """Those of this process."""
    everybody: list[str]
    rounds: int
    seed: int


def start(job: Job) -> subprocess.Popen[bytes]:
    """The process; what it prints goes to the ledger's folder."""
    with Path(job.folder, "output.txt").open("ab") as output:
        return ForkedPopen(
            [sys.executable, "-m", "tests.faults.waiters", json.dumps(asdict(job))],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


class Waiter:
    """One agent."""

    def __init__(self, name: str, job: Job, store: Store) -> None:
        self.name = name
        self._job = job
        self._store = store
        self._ledger = Ledger(Path(job.folder))

    async def live(self) -> None:
        """Ask at random, and answer in between."""
        random = Random(f"{self._job.seed} {self.name}")
        everybody = self._job.everybody
        others = [name for name in everybody if name != self.name]
        # Each agent asks the next one before it answers anybody: a deadlock, however slow the
        # machine is.
        await self._ask([everybody[(everybody.index(self.name) + 1) % len(everybody)]], "all")
        for _ in range(self._job.rounds):
            await self._answer()
            modes: Sequence[GroupMode] = ("any", "all")
            await self._ask(random.sample(others, random.randint(1, 3)), random.choice(modes))
        await self._answer_until_all_have_finished()

    async def _answer_until_all_have_finished(self) -> None:
        self._ledger.note("finished", agent=self.name)
        while len(self._ledger.lines("finished")) < len(self._job.everybody):
            await self._answer()
            await self._store.wait_for_change(_HINT_S)
        await self._answer()

    async def _answer(self) -> None:
        where = MessageFilter(queue=agent_queue(self.name), states={"open"})
        rows = await self._store.find_messages(where, limit=1000)
        names = [row.key for row in rows if row.key is not None]
        answer = answer_json(self.name)
        await self._store.settle_messages(
            [MessageSettle(key=name, state="answered", answer=answer) for name in names]
        )

    async def _ask(self, targets: Sequence[str], mode: GroupMode) -> None:
        group = new_id("grp")
        queries = [
            AgentMessage(
                type="query", from_agent=self.name, to_agent=each, timeout_seconds=_FOR_EVER_S
            )
            for each in targets
        ]
        puts = [_put(query, (group, mode)) for query in queries]
        await self._store.put_messages(puts)
        await break_deadlock(self._store, self.name, awaits=targets)
        await self._wait(queries, mode)

    async def _wait(self, queries: Sequence[AgentMessage], mode: GroupMode) -> None:
        names = [query.id for query in queries]
        failed = 0
        while True:
            rows = await self._store.find_messages(MessageFilter(keys=names), limit=100)
            states = [row.state for row in rows]
            if "open" not in states or (mode == "any" and "answered" in states):
                break
            if mode == "all" and "failed" in states:
                break
            if states.count("failed") > failed:
                failed = states.count("failed")
                await break_deadlock(self._store, self.name)
                continue
            await self._store.wait_for_change(_HINT_S)
        self._tell(queries, rows)
        await self._store.settle_messages(
            [MessageSettle(key=name, state="cancelled") for name in names]
        )

    def _tell(self, queries: Sequence[AgentMessage], rows: Sequence[StoredMessage]) -> None:
        asked = {query.id: query for query in queries}
        for row in rows:
            error = None if row.answer is None else error_of(row.answer, asked[row.key or ""])
            if isinstance(error, DeadlockError):
                self._ledger.note("deadlock", agent=self.name, message=row.key)


def _put(query: AgentMessage, group: tuple[str, GroupMode]) -> QueuePut:
    target = query.to_agent or ""
    return QueuePut(
        queue=agent_queue(target),
        key=query.id,
        body=Letter(message=query, awaits=target, group=group).to_json(),
        waiter=query.from_agent,
    )


async def _do(job: Job) -> None:
    async with open_store(job.store) as store, asyncio.TaskGroup() as group:
        for name in job.agents:
            group.create_task(Waiter(name, job, store).live())


if __name__ == "__main__":
    asyncio.run(_do(Job(**json.loads(sys.argv[1]))))
