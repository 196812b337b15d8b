"""The program that is killed: ``python -m tests.faults.child JOB`` with the job as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ekiden.core.agent import Team
from ekiden.core.errors import EkidenError, SessionNotFound
from ekiden.core.errors.messages import InboxItemClosed
from ekiden.core.handoffs import PolicyName
from ekiden.engine import Worker
from ekiden.project.stores import open_store
from ekiden.runtime import HandoffController, Runner
from ekiden.sessions import Session
from ekiden.storage.base import SessionFilter, SessionStatus, Store
from tests.faults import bad_disk
from tests.faults.acts import Act, HandTo, stored_acts
from tests.faults.family_life import carry_on_family, decide
from tests.faults.scenarios import KNOWN, Scenario
from tests.faults.visits import counted_visits
from tests.faults.waiting import until
from tests.faults.world import World

REFUSED = 3
"""The exit code for an error of Ekiden's own, whose code is in the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a process is to do."""

    task: Literal["carry_on", "count", "work", "toil", "ask", "decide", "hand_over", "cancel"] = (
        "carry_on"
    )
    scenario: str = "relay"
    store: str
    """Its URL."""
    session: str = "s"
    folder: str
    """Of the ledger."""
    lease_s: float = 30.0
    hang_at: str = ""
    """The steps at which the model never answers, as a pattern of ``session/step``."""
    meet: int = 1
    """How many processes must have come to the tool before it does anything."""
    concurrency: int = 8
    to: str = ""
    """Whom the session is to be handed to."""
    policy: PolicyName = "graceful"
    timeout_s: float = 240.0
    handoff: str = ""
    """The id of the handoff, or of the request for one, that is to be cancelled."""
    by: str = "anna"
    """The person who decides."""
    wanted: str = "A-42"
    """What code wants that does not do the same every time."""
    disk: str = ""
    """How the disk of a SQLite database fails, as `bad_disk.install` takes it."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))


async def carry_on(scenario: Scenario, world: World, session: Session, **config: Any) -> Any:
    """Take the scenario to its end from wherever the session stands; the answer, if it was new."""
    team, hooks = scenario.team(world), scenario.hooks(world)
    run_config = replace(scenario.config(world), **config)
    options: dict[str, Any] = {"hooks": hooks, "run_config": run_config, "context": world}
    answer = None
    if scenario.has_family:
        [text] = scenario.acts
        assert isinstance(text, str)
        await carry_on_family(team, text, session, options)
        return None
    for number, act in enumerate(scenario.acts, start=1):
        stored, _ = await _standing(session)
        if stored < number:
            answer = await _perform(act, scenario.streamed, team, session, options)
        if (await _standing(session))[1]:
            answer = (await Runner.resume(team, session, **options)).final_output
    return answer


async def _perform(
    act: Act, streamed: bool, team: Team, session: Session, options: dict[str, Any]
) -> Any:
    if isinstance(act, str) and streamed:
        streaming = Runner.run_streamed(team, act, session=session, **options)
        async for _ in streaming.events():
            pass
        return streaming.final_output
    if isinstance(act, str):
        return (await Runner.run(team, act, session=session, **options)).final_output
    controller = HandoffController(
        team, session.store, run_config=options["run_config"], context=options["context"]
    )
    if isinstance(act, HandTo):
        result = await controller.start(
            session.session_id,
            to=act.to,
            reason="a program says so",
            policy=act.policy,
            run=act.run,
        )
        return result.status
    try:
        said = await controller.answer(
            session.session_id, act.text, by="anna", give_back=act.give_back
        )
    except InboxItemClosed:  # She has, and nobody came to go on with it.
        said = await Runner.resume(team, session, **options)
    return said.final_output


async def _standing(session: Session) -> tuple[int, bool]:
    """How many acts are stored, and whether the last one's run is open."""
    try:
        row = await session.row()
    except SessionNotFound:
        return 0, False
    return stored_acts(await session.events()), row.outcome is None


async def _carry_on(job: Job, store: Store, world: World) -> Any:
    session = Session(job.session, store=store)
    return await carry_on(KNOWN[job.scenario], world, session, lease_s=job.lease_s)


async def _count(job: Job, store: Store, world: World) -> dict[str, int]:
    """How often the scenario passes each fault point."""
    with counted_visits() as visits:
        # Opened anew, so that its threads are counted.
        async with open_store(job.store) as fresh:
            await _carry_on(job, fresh, world)
    return dict(visits)


async def _work(job: Job, store: Store, world: World) -> int:
    """Be a worker from the moment that there is a file ``go`` until no session is ready."""
    scenario = KNOWN[job.scenario]
    config = replace(scenario.config(world), lease_s=job.lease_s)
    worker = Worker(store, scenario.team(world), concurrency=job.concurrency, run_config=config)
    world.ledger.note("worker")
    await until(Path(job.folder, "go").exists, "somebody says go")
    while (await store.list(SessionFilter(status="ready"), limit=1)).sessions:
        await worker.run(until_idle=True)
        await store.wait_for_change(0.1)
    return worker.finished


async def _toil(job: Job, store: Store, world: World) -> int:
    """Be a worker until no session is ready or waits."""
    scenario = KNOWN[job.scenario]
    config = replace(scenario.config(world), lease_s=job.lease_s)
    worker = Worker(store, scenario.team(world), concurrency=job.concurrency, run_config=config)
    while await _are_there(store, "ready") or await _are_there(store, "waiting"):
        await worker.run(until_idle=True)
        await store.wait_for_change(0.05)
    return worker.finished


async def _are_there(store: Store, status: SessionStatus) -> bool:
    return bool((await store.list(SessionFilter(status=status), limit=1)).sessions)


async def _ask(job: Job, store: Store, world: World) -> str | None:
    """Take a session as far as that is possible without people; its outcome."""
    scenario = KNOWN[job.scenario]
    [text] = scenario.acts
    assert isinstance(text, str)
    config = replace(scenario.config(world), lease_s=job.lease_s)
    session = Session(job.session, store=store)
    options = {"run_config": config, "context": world}
    await carry_on_family(scenario.team(world), text, session, options, decides=False)
    return (await session.row()).outcome


async def _decide(job: Job, store: Store, world: World) -> int:
    """Be a person who says yes to what is asked; how much that was."""
    return await decide(store, job.session, by=job.by)


def _controller(job: Job, store: Store, world: World) -> HandoffController:
    scenario = KNOWN[job.scenario]
    config = replace(scenario.config(world), lease_s=job.lease_s)
    return HandoffController(scenario.team(world), store, run_config=config, context=world)


async def _hand_over(job: Job, store: Store, world: World) -> str:
    """Be a program that requests a handoff of a session, whichever process runs it."""
    result = await _controller(job, store, world).start(
        job.session, to=job.to, reason="asked", policy=job.policy, timeout_s=job.timeout_s
    )
    return result.status


async def _cancel(job: Job, store: Store, world: World) -> str:
    """Be a program that cancels a handoff, or withdraws the request for one."""
    return (await _controller(job, store, world).cancel(job.handoff)).status


_TASKS: dict[str, Callable[[Job, Store, World], Awaitable[Any]]] = {
    "carry_on": _carry_on,
    "count": _count,
    "work": _work,
    "toil": _toil,
    "ask": _ask,
    "decide": _decide,
    "hand_over": _hand_over,
    "cancel": _cancel,
}


async def _do(job: Job) -> int:
    world = World(Path(job.folder), hang_at=job.hang_at, wanted=job.wanted, meet=job.meet)
    disk = bad_disk.install(job.disk) if job.disk else None
    try:
        async with open_store(job.store) as store:
            world.ledger.note("result", value=await _TASKS[job.task](job, store, world))
    except EkidenError as exc:
        world.ledger.note("error", code=exc.code, text=str(exc))
        print(f"{exc.code}: {exc}", file=sys.stderr)
        return REFUSED
    finally:
        if disk is not None:
            world.ledger.note("disk", **disk.done)
    return 0


def execute(job: Job) -> int:
    """Do the job in this process; its result, or its error, is the ledger's last line of ours."""
    return asyncio.run(_do(job))


if __name__ == "__main__":
    sys.exit(execute(Job(**json.loads(sys.argv[1]))))
