"""Agents on a bus, in processes of their own: ``python -m tests.faults.bus_agents JOB``.

Each agent does one thing at a time, so that it answers nobody while it waits itself.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

from ekiden.bus import Bus, BusClient, BusSettings
from ekiden.core.conversation.messages import AgentMessage, VictimPolicy
from ekiden.core.errors.messages import AgentUnavailableError, BusError, DeadlockError
from ekiden.core.questions import Ask
from ekiden.project.stores import open_store
from tests.faults.ledger import Ledger
from tests.faults.processes import ROOT, environment
from tests.faults.waiting import until
from tests.support.forked import ForkedPopen

FOR_EVER_S = 3600.0
"""Nothing but a broken deadlock ends the wait for one who waits too."""

Handler: TypeAlias = Callable[[AgentMessage], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a process is to do until there is a file ``stop``."""

    store: str
    folder: str
    """Of the ledger."""
    agents: dict[str, list[str]]
    """Whom it serves, and whom each of them asks."""
    policy: VictimPolicy = "longest"


def start(job: Job) -> subprocess.Popen[bytes]:
    """The process; what it prints goes to the ledger's folder."""
    with Path(job.folder, "output.txt").open("ab") as output:
        return ForkedPopen(
            [sys.executable, "-m", "tests.faults.bus_agents", json.dumps(asdict(job))],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


def handler(seat: BusClient, asks: list[str], ledger: Ledger) -> Handler:
    """Asks on while the message says so, each time one of `asks` or several of them."""

    async def handle(message: AgentMessage) -> str:
        left, seed = message.payload
        if left == 0:
            return seat.name
        try:
            by = await _ask(seat, asks, left - 1, Random(f"{seed} {seat.name} {left}"))
        except DeadlockError as exc:
            facts = {"cycle": exc.cycle, "victim": exc.victim, "code": exc.code}
            ledger.note("deadlock", agent=seat.name, message=exc.message_id, **facts)
        except AgentUnavailableError as exc:
            # Of several one was enough, this branch goes on alone, and the others go home.
            ledger.note("alone", agent=seat.name, error=str(exc))
        except BusError as exc:
            ledger.note("failed", agent=seat.name, error=str(exc))
        else:
            ledger.note("answered", agent=seat.name, by=by)
        return seat.name

    return handle


async def _ask(seat: BusClient, asks: list[str], left: int, random: Random) -> list[str]:
    targets = random.sample(asks, random.randint(1, min(len(asks), 3)))
    payload = [left, random.random()]
    questions = [
        Ask(agent=target, subject="go on", payload=payload, timeout_s=FOR_EVER_S)
        for target in targets
    ]
    if len(questions) == 1:
        return [await seat.ask(targets[0], "go on", payload, timeout_s=FOR_EVER_S)]
    if random.random() < 0.5:
        return [(await seat.ask_any(questions))[1]]
    return await seat.ask_all(questions)


async def _do(job: Job) -> None:
    ledger = Ledger(Path(job.folder))
    async with (
        open_store(job.store) as store,
        Bus(store, settings=BusSettings(victim=job.policy)) as bus,
        AsyncExitStack() as serving,
    ):
        for name, asks in job.agents.items():
            handle = handler(bus.agent(name), asks, ledger)
            await serving.enter_async_context(bus.serve(name, handle))
            ledger.note("here", agent=name)
        await until(Path(job.folder, "stop").exists, "somebody says stop")


if __name__ == "__main__":
    asyncio.run(_do(Job(**json.loads(sys.argv[1]))))
