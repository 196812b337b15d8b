"""Records histories of workflows, for the tests that replay them.

``python -m tests.integration.temporal.record_histories`` writes those that are missing into the
folder ``histories``; with ``--anew`` all of them. A history that was released stays: it shows that
workflows which were begun by an earlier version go on under this one. A new way of a workflow gets
a new file.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowHistory

from ekiden.core.agent import Agent, Team
from ekiden.core.errors import StoreUnavailable
from ekiden.integrations.temporal.names import store_name, timekeeper_id
from ekiden.runtime import CodeContext
from ekiden.storage.base import Claim, NewSession, SessionRow
from ekiden.storage.sqlite import SqliteStore
from ekiden.testing.contracts.engine import answered, asked_person, decide, done
from tests.integration.temporal.desk import asks_person, echo, handle_of, start_by_hand, until
from tests.support.temporal import DevServer, client_of
from tests.support.temporal_engine import TemporalEngine

FOLDER = Path(__file__).parent / "histories"
_OVER = ("COMPLETED", "CANCELED")
_LOOKED_AT_ONCE = 24
"""Events of a workflow whose session waits, after one look."""
_OF_THE_MACHINE = frozenset({"stackTrace", "binaryChecksum", "buildId", "sdkVersion", "sdkName"})


class Scene:
    """A store and a worker in which something is recorded."""

    def __init__(self, client: Client, store: FlakyFile, engine: TemporalEngine) -> None:
        self.client = client
        self.store = store
        self.engine = engine

    async def history(self, session_id: str = "s") -> WorkflowHistory:
        """That of the workflow of a session, once it is over."""
        handle = await handle_of(self.client, self.store, session_id)
        await until(lambda found: found.status is not None and found.status.name in _OVER, handle)
        return await handle.fetch_history()


class FlakyFile(SqliteStore):
    """Goes away at the next claims."""

    failures = 0

    async def claim(
        self, session_id: str, *, owner: str, lease_s: float, create: NewSession | None = None
    ) -> tuple[Claim, SessionRow]:
        if create is None and self.failures:
            self.failures -= 1
            raise StoreUnavailable("gone")
        return await super().claim(session_id, owner=owner, lease_s=lease_s, create=create)


async def message(scene: Scene) -> WorkflowHistory:
    """Two messages to one session, and its end."""
    await scene.engine.start(Team(Agent("desk", run=echo)))
    await answered(scene.engine, "one")
    await answered(scene.engine, "two")
    return await scene.history()


async def person(scene: Scene) -> WorkflowHistory:
    """A person is asked, and answers."""
    await scene.engine.start(Team(Agent("desk", run=asks_person)))
    await scene.engine.submit("go", "s")
    await decide(scene.engine, await asked_person(scene.engine), "approve")
    await done(scene.engine)
    return await scene.history()


async def deadline(scene: Scene) -> WorkflowHistory:
    """The timekeeper's: two deadlines, of which the second is the earlier one."""

    async def asks(ctx: CodeContext[Any]) -> str:
        answer = await ctx.request_approval("?", deadline_s=float(ctx.text), default="reject")
        return str(answer.choice)

    await scene.engine.start(Team(Agent("desk", run=asks)))
    await scene.engine.submit("6", "late")
    await asked_person(scene.engine, "late")
    await scene.engine.submit("2", "soon")
    await done(scene.engine, "soon")
    await done(scene.engine, "late")
    name = f"ekiden-{await store_name(scene.store)}"
    handle = scene.client.get_workflow_handle(timekeeper_id(name))
    await until(lambda found: found.status.name in _OVER, handle)
    return await handle.fetch_history()


async def continued(scene: Scene) -> WorkflowHistory:
    """A run that continued as new after two rounds."""
    scene.engine.options.update(rounds=2, linger_s=20.0)
    await scene.engine.start(Team(Agent("desk", run=echo)))
    for number in range(3):
        await answered(scene.engine, f"message {number}")
    handle = await handle_of(scene.client, scene.store, "s")
    now = await handle.describe()
    started = (await handle.fetch_history()).events[0]
    before = started.workflow_execution_started_event_attributes.continued_execution_run_id
    first = scene.client.get_workflow_handle(handle.id, run_id=before or now.run_id)
    await handle.terminate()
    return await first.fetch_history()


async def handed_on(scene: Scene) -> WorkflowHistory:
    """A session is handed to an agent that needs a label, on another task queue."""

    async def hands_over(ctx: CodeContext[Any]) -> Any:
        return ctx.hand_off("painter", reason="it paints")

    painter = Agent("painter", run=echo, runs_on={"gpu"})
    team = Team(Agent("triage", run=hands_over, handoffs=[painter]), painter)
    other = TemporalEngine(scene.store, scene.engine.address, labels={"gpu"})
    await scene.engine.start(team)
    await scene.engine.submit("paint", "s")
    async with asyncio.timeout(60):
        while (await scene.store.get("s")).agent != "painter":
            await scene.store.wait_for_change(0.1)
    await other.start(team)
    await done(scene.engine)
    found = await scene.history()
    await other.stop()
    return found


async def retried(scene: Scene) -> WorkflowHistory:
    """The store was away twice."""
    await scene.engine.start(Team(Agent("desk", run=echo)))
    scene.store.failures = 2
    await answered(scene.engine, "hello")
    return await scene.history()


async def busy(scene: Scene) -> WorkflowHistory:
    """Another process had the session, and its lease ran out."""
    team = Team(Agent("desk", run=echo))
    scene.engine.prepare(team)
    await scene.engine.submit("hello", "s")
    await scene.store.claim("s", owner="zombie", lease_s=3.0)
    await scene.engine.start(team)
    await start_by_hand(scene.client, scene.store, "s")
    await done(scene.engine)
    return await scene.history()


async def cancelled(scene: Scene) -> WorkflowHistory:
    """The workflow was cancelled while the session was run."""
    begun = asyncio.Event()

    async def waits(ctx: CodeContext[Any]) -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    team = Team(Agent("desk", run=waits))
    await scene.engine.start(team, config=scene.engine.config(lease_s=1.5))
    await scene.engine.submit("go", "s")
    await begun.wait()
    await (await handle_of(scene.client, scene.store, "s")).cancel()
    return await scene.history()


async def looked_at(scene: Scene) -> WorkflowHistory:
    """A session that waited was looked at, and again after it was deleted."""
    scene.engine.options.update(look_s=0.5)
    await scene.engine.start(Team(Agent("desk", run=asks_person)))
    await scene.engine.submit("go", "s")
    await asked_person(scene.engine)
    handle = await handle_of(scene.client, scene.store, "s")
    await until(lambda found: found.history_length >= _LOOKED_AT_ONCE, handle)
    await scene.store.delete("s")
    return await scene.history()


async def cancelled_in_line(scene: Scene) -> WorkflowHistory:
    """The workflow was cancelled before the session was run."""
    team = Team(Agent("desk", run=echo, runs_on={"gpu"}), Agent("other", run=echo))
    await scene.engine.start(team, concurrency=1)
    await scene.engine.submit("go", "s")
    await (await handle_of(scene.client, scene.store, "s")).cancel()
    return await scene.history()


SCENES: dict[str, Callable[[Scene], Awaitable[WorkflowHistory]]] = {
    each.__name__: each
    for each in (
        message,
        person,
        deadline,
        continued,
        handed_on,
        retried,
        busy,
        cancelled,
        looked_at,
        cancelled_in_line,
    )
}


async def record(name: str, server: DevServer, folder: Path) -> Path:
    """Play one scene and write its history."""
    client = await client_of(server)
    file = folder / f"{name}.db"
    async with FlakyFile(file) as store:
        engine = TemporalEngine(store, server.address, linger_s=1.0)
        try:
            history = await SCENES[name](Scene(client, store, engine))
        finally:
            await engine.stop(drain=False)
    written = FOLDER / f"{name}.json"
    written.write_text(json.dumps(_plain(json.loads(history.to_json())), indent=1) + "\n")
    return written


def _plain(found: Any) -> Any:
    """The history without what tells of the machine that it was recorded on."""
    if isinstance(found, dict):
        return {
            key: "recorder" if key == "identity" else _plain(value)
            for key, value in found.items()
            if key not in _OF_THE_MACHINE
        }
    if isinstance(found, str):
        return re.sub(r"\d+@[\w.-]+", "recorder", found)
    return [_plain(each) for each in found] if isinstance(found, list) else found


async def main(arguments: list[str]) -> None:
    """Record what is wanted."""
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--anew", action="store_true", help="record all, also those there are")
    anew = parser.parse_args(arguments).anew
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, DevServer() as server:
        for name in SCENES:
            if anew or not (FOLDER / f"{name}.json").exists():
                print(await record(name, server, Path(folder)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
