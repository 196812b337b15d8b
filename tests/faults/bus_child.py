"""A process on a bus that is killed, or not: ``python -m tests.faults.bus_child JOB``."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, cast

from ekiden.bus import Bus, BusSettings
from ekiden.core.conversation.messages import AgentMessage
from ekiden.core.errors.messages import AgentUnavailableError
from ekiden.project.stores import open_store
from ekiden.storage.base import Store
from tests.faults.ledger import Ledger
from tests.faults.mischief import MischievousStore
from tests.faults.mortal import MortalStore
from tests.faults.processes import ROOT, environment
from tests.faults.waiting import DEADLINE_S, until
from tests.support.forked import ForkedPopen

CLERK = "clerk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What the process is to do."""

    task: Literal["serve", "ask", "tell"]
    store: str
    folder: str
    """Of the ledger."""
    ids: tuple[str, ...] = ()
    """Of the messages that are asked or told."""
    hangs: bool = False
    """Whether the serving process never finishes a message."""
    waits: bool = False
    """Whether it does so only when there is a file ``answer``."""
    shares: bool = False
    """Whether it begins only when it knows of another process that serves: who believes to be alone
    takes more than it can do."""
    visibility_s: float = 30.0
    seed: int | None = None
    """How much mischief the store makes."""
    dies_at: int = 0
    """The write at which the process is killed: before it, or after it if the number is
    negative."""
    ttl: float | None = None
    """After how many seconds a message expires."""


def start(job: Job, **env: str) -> subprocess.Popen[bytes]:
    """The process; what it prints goes to the ledger's folder."""
    with Path(job.folder, "output.txt").open("ab") as output:
        return ForkedPopen(
            [sys.executable, "-m", "tests.faults.bus_child", json.dumps(asdict(job))],
            cwd=ROOT,
            env={**environment(), **env},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


def question(message_id: str) -> AgentMessage:
    """What the clerk is asked under this id."""
    return AgentMessage(
        type="query",
        id=message_id,
        from_agent="desk",
        to_agent=CLERK,
        subject="book",
        payload={"order": message_id},
        timeout_seconds=DEADLINE_S,
    )


async def ask(bus: Bus, message_id: str) -> AgentMessage:
    """Ask the clerk, again if the sign of life of a busy server was late."""
    while True:
        try:
            return await bus.query(question(message_id))
        except AgentUnavailableError:
            await asyncio.sleep(0.05)


def news(message_id: str, ttl: float | None = None) -> AgentMessage:
    """The message for the clerk under this id."""
    return AgentMessage(
        id=message_id, from_agent="desk", to_agent=CLERK, payload={"order": message_id}, ttl=ttl
    )


def settings(job: Job) -> BusSettings:
    """Patient, but quick to find out who is dead."""
    return BusSettings(
        visibility_s=job.visibility_s, max_attempts=100, max_deliveries=100, retry_s=0.05
    )


async def _do(job: Job) -> None:
    ledger = Ledger(Path(job.folder))
    async with open_store(job.store) as opened:
        store: Store | MischievousStore | MortalStore = opened
        if job.seed is not None:
            store = MischievousStore(opened, job.seed)
        if job.dies_at:
            store = MortalStore(opened, nth=abs(job.dies_at), before=job.dies_at > 0)
        async with Bus(cast("Store", store), settings=settings(job)) as bus:
            match job.task:
                case "serve":
                    await _serve(bus, job, ledger)
                    if isinstance(store, MischievousStore):
                        ledger.note("mischief", done=dict(store.done))
                case "ask":
                    await asyncio.gather(*(_ask(bus, each, ledger) for each in job.ids))
                case "tell":
                    await asyncio.gather(*(bus.send(news(each, job.ttl)) for each in job.ids))
                    ledger.note("told")


async def _serve(bus: Bus, job: Job, ledger: Ledger) -> None:
    async def handle(message: AgentMessage) -> Any:
        ledger.note("got", id=message.id, redelivered=message.redelivered)
        if job.hangs:
            await asyncio.Event().wait()
        if job.waits:
            await until(Path(job.folder, "answer").exists, "somebody says answer")
        return {"reply": ledger.take_effect(message.id, message.payload["order"])}

    async with bus.serve(CLERK, handle, concurrency=3) as service:
        if job.shares:
            await until(lambda: not service.alone, "another one serves")
        ledger.note("here")
        await until(Path(job.folder, "stop").exists, "somebody says stop")


async def _ask(bus: Bus, message_id: str, ledger: Ledger) -> None:
    ledger.note("asks", id=message_id)
    answer = await ask(bus, message_id)
    ledger.note("answer", id=message_id, value=answer.payload)


if __name__ == "__main__":
    asyncio.run(_do(Job(**json.loads(sys.argv[1]))))
