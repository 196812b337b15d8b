"""Agents that wait for each other in processes of their own.

``python -m tests.faults.waiters JOB`` with the job as JSON. Each agent does one thing at a time:
while it waits it answers nobody. Nothing but a broken deadlock ends a wait for one who waits too.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Literal

from ekiden.app.stores import open_store
from ekiden.bus.deadlocks import break_deadlock
from ekiden.bus.graph import VictimPolicy
from ekiden.core.ids import new_id
from ekiden.core.message_answers import answer_json, error_of
from ekiden.core.message_errors import DeadlockError
from ekiden.core.messages import AgentMessage, GroupMode, Letter, agent_queue
from ekiden.storage.base import MessageFilter, MessageSettle, QueuePut, Store, StoredMessage
from tests.faults.ledger import Ledger
from tests.faults.processes import ROOT, environment
from tests.faults.waiting import until

_FOR_EVER_S = 3600.0
_HINT_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a process is to do."""

    task: Literal["ask_once", "ask_often"]
    store: str
    folder: str
    """Of the ledger."""
    agents: tuple[str, ...]
    """Those of this process."""
    everybody: tuple[str, ...]
    asks: str = ""
    """Whom the one agent asks, once there is a file ``go-<agent>``."""
    rounds: int = 0
    seed: int = 0
    policy: VictimPolicy = "longest"


def start(job: Job) -> subprocess.Popen[bytes]:
    """The process; what it prints goes to the ledger's folder."""
    with Path(job.folder, "output.txt").open("ab") as output:
        return subprocess.Popen(
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

    async def ask_once(self) -> None:
        """Ask when told to; tell how that ended; then answer until everybody has finished."""
        self._ledger.note("here", agent=self.name)
        go = Path(self._job.folder, f"go-{self.name}")
        await until(go.exists, f"{self.name} is told to ask")
        await self._ask([self._job.asks], "all")
        await self._answer_until_all_have_finished()

    async def ask_often(self) -> None:
        """Ask at random, and answer in between."""
        random = Random(f"{self._job.seed} {self.name}")
        others = [name for name in self._job.everybody if name != self.name]
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
        stored = time.monotonic()
        broken = await self._look(targets)
        if broken:
            self._ledger.note("broke", agent=self.name, after_s=time.monotonic() - stored)
        self._ledger.note("waits", agent=self.name)
        await self._wait(queries, mode)

    async def _look(self, targets: Sequence[str]) -> bool:
        found = await break_deadlock(
            self._store, self.name, policy=self._job.policy, awaits=targets
        )
        return found is not None

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
                await self._look([query.to_agent or "" for query in queries])
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
                facts = {"cycle": error.cycle, "victim": error.victim, "code": error.code}
                self._ledger.note("deadlock", agent=self.name, message=row.key, **facts)
            elif row.state == "answered":
                self._ledger.note("answered", agent=self.name, by=row.answer["payload"])


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
            waiter = Waiter(name, job, store)
            group.create_task(waiter.ask_once() if job.task == "ask_once" else waiter.ask_often())


def _job(text: str) -> Job:
    data = json.loads(text)
    lists = {name: tuple(data[name]) for name in ("agents", "everybody")}
    return Job(**{**data, **lists})


if __name__ == "__main__":
    asyncio.run(_do(_job(sys.argv[1])))
