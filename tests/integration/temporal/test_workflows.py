"""What Temporal has of a session: a workflow with a history of a few events, and no words."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.client import Client, WorkflowExecutionStatus

from ekiden.core.agent import Agent, Team
from ekiden.integrations.temporal.names import Wake, store_name, workflow_id
from ekiden.runtime import CodeContext
from ekiden.testing.contracts.engine import answered, asked_person, decide, done, settled
from tests.integration.temporal.desk import (
    SECRET,
    asks_person,
    echo_team,
    event_types,
    handle_of,
    said_in,
    start_by_hand,
    until,
    until_status,
)
from tests.support.temporal_engine import TemporalEngine

COMPLETED = WorkflowExecutionStatus.COMPLETED
RUNNING = WorkflowExecutionStatus.RUNNING


async def test_a_message_costs_one_activity_and_the_workflow_ends_afterwards(
    engine: TemporalEngine, temporal_client: Client
) -> None:
    await engine.start(echo_team())
    assert await answered(engine, "hello") == "you said: hello"
    handle = await handle_of(temporal_client, engine.store, "s")
    await until_status(handle, COMPLETED)
    assert await event_types(handle) == [
        "WORKFLOW_EXECUTION_STARTED",
        "WORKFLOW_EXECUTION_SIGNALED",
        "WORKFLOW_TASK_SCHEDULED",
        "WORKFLOW_TASK_STARTED",
        "WORKFLOW_TASK_COMPLETED",
        "ACTIVITY_TASK_SCHEDULED",
        "ACTIVITY_TASK_STARTED",
        "ACTIVITY_TASK_COMPLETED",
        "WORKFLOW_TASK_SCHEDULED",
        "WORKFLOW_TASK_STARTED",
        "WORKFLOW_TASK_COMPLETED",
        "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES",
        "TIMER_STARTED",
        "TIMER_FIRED",
        "WORKFLOW_TASK_SCHEDULED",
        "WORKFLOW_TASK_STARTED",
        "WORKFLOW_TASK_COMPLETED",
        "WORKFLOW_EXECUTION_COMPLETED",
    ]


@pytest.mark.slow
async def test_the_next_message_starts_a_finished_workflow_again(
    engine: TemporalEngine, temporal_client: Client
) -> None:
    await engine.start(echo_team())
    await answered(engine, "one")
    handle = await handle_of(temporal_client, engine.store, "s")
    await until_status(handle, COMPLETED)
    first = (await handle.describe()).run_id
    assert await answered(engine, "two") == "you said: two"
    second = await until(lambda found: found.status == COMPLETED, handle)
    assert second.run_id != first


async def test_message_texts_are_not_sent_to_temporal(
    engine: TemporalEngine, temporal_client: Client
) -> None:
    await engine.start(Team(Agent("desk", run=asks_person)))
    await engine.submit(f"please, {SECRET}", "s")
    await decide(engine, await asked_person(engine), "approve")
    assert await done(engine) == f"{SECRET}: approve"
    handle = await handle_of(temporal_client, engine.store, "s")
    await until_status(handle, COMPLETED)
    said = said_in((await handle.fetch_history()).to_json())
    assert '"status":"idle"' in said
    assert SECRET not in said


async def test_a_failed_agent_does_not_fail_the_workflow(
    engine: TemporalEngine, temporal_client: Client
) -> None:
    async def breaks(ctx: CodeContext[Any]) -> str:
        raise ValueError(SECRET)

    await engine.start(Team(Agent("desk", run=breaks)))
    await engine.submit("go", "s")
    assert (await settled(engine)).outcome == "failed"
    handle = await handle_of(temporal_client, engine.store, "s")
    await until_status(handle, COMPLETED)
    said = said_in((await handle.fetch_history()).to_json())
    assert '"status":"idle"' in said
    assert SECRET not in said


async def test_duplicate_late_and_unneeded_signals_change_nothing(
    engine: TemporalEngine, temporal_client: Client
) -> None:
    calls: list[str] = []
    begun, gate = asyncio.Event(), asyncio.Event()

    async def counts(ctx: CodeContext[Any]) -> str:
        calls.append(ctx.text)
        begun.set()
        await gate.wait()
        return "done"

    await engine.start(Team(Agent("desk", run=counts)))
    await engine.submit("go", "s")
    await begun.wait()
    handle = await handle_of(temporal_client, engine.store, "s")
    row = await engine.store.get("s")
    stale = Wake(agent="desk", mark=[row.created_at_us, row.epoch - 1])
    for signal in (stale, stale, Wake(agent="desk"), Wake(agent="desk")):
        await handle.signal("wake", signal)
    gate.set()
    await until_status(handle, COMPLETED)
    await handle_is_quiet(handle)
    assert calls == ["go"]
    assert (await event_types(handle)).count("ACTIVITY_TASK_COMPLETED") == 2, "one look for nothing"


async def handle_is_quiet(handle: Any) -> None:
    """The workflow is over and no other was started."""
    found = await handle.describe()
    assert found.status == COMPLETED


@pytest.mark.slow
async def test_a_signal_for_a_deleted_session_ends_the_workflow(
    engine: TemporalEngine, temporal_client: Client
) -> None:
    await engine.start(echo_team())
    await answered(engine, "hello")
    handle = await handle_of(temporal_client, engine.store, "s")
    await until_status(handle, COMPLETED)
    await engine.store.delete("s")
    assert await answered(engine, "hello again") == "you said: hello again"
    await until_status(handle, COMPLETED)


async def test_workflows_continue_as_new_and_lose_no_message(
    engine: TemporalEngine, temporal_client: Client
) -> None:
    engine.options["rounds"] = 2
    engine.options["linger_s"] = 30.0
    await engine.start(echo_team())
    said = [f"message {number}" for number in range(7)]
    for text in said:
        assert await answered(engine, text) == f"you said: {text}"
    handle = await handle_of(temporal_client, engine.store, "s")
    found = await handle.describe()
    assert found.status == RUNNING
    runs = [
        each.status async for each in temporal_client.list_workflows(f"WorkflowId = '{handle.id}'")
    ]
    assert runs.count(WorkflowExecutionStatus.CONTINUED_AS_NEW) >= 2
    await handle.terminate()


async def test_sessions_are_found_by_agent_status_outcome_and_store(
    engine: TemporalEngine, temporal_client: Client
) -> None:
    await engine.start(Team(Agent("asker", run=asks_person)))
    await engine.submit("please", "s")
    item = await asked_person(engine)
    name = await store_name(engine.store)
    waiting = f"EkidenStore = '{name}' and EkidenStatus = 'waiting' and EkidenAgent = 'asker'"
    assert await found_by(temporal_client, waiting) == [workflow_id(name, "s")]
    await decide(engine, item, "approve")
    await done(engine)
    ended = f"EkidenStore = '{name}' and EkidenStatus = 'idle' and EkidenOutcome = 'done'"
    assert await found_by(temporal_client, ended) == [workflow_id(name, "s")]


async def found_by(client: Client, query: str) -> list[str]:
    """The ids of the workflows that a query finds, once it finds any."""
    async with asyncio.timeout(60):
        while True:
            found = [each.id async for each in client.list_workflows(query)]
            if found:
                return found
            await asyncio.sleep(0.05)


async def test_cancelling_the_workflow_stops_the_run(
    engine: TemporalEngine, temporal_client: Client
) -> None:
    begun = asyncio.Event()

    async def waits(ctx: CodeContext[Any]) -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    await engine.start(Team(Agent("desk", run=waits)), config=engine.config(lease_s=1.5))
    await engine.submit("go", "s")
    await begun.wait()
    handle = await handle_of(temporal_client, engine.store, "s")
    await handle.cancel()
    await until_status(handle, WorkflowExecutionStatus.CANCELED)
    row = await settled(engine)
    assert (row.status, row.outcome, row.owner) == ("idle", None, None)


async def test_a_workflow_waits_for_a_session_claimed_elsewhere(
    engine: TemporalEngine, temporal_client: Client
) -> None:
    team = echo_team()
    engine.prepare(team)
    await engine.submit("hello", "s")
    await engine.store.claim("s", owner="zombie", lease_s=1.5)
    await engine.start(team)
    handle = await start_by_hand(temporal_client, engine.store, "s")
    assert await done(engine) == "you said: hello"
    await until_status(handle, COMPLETED)
    assert (await event_types(handle)).count("ACTIVITY_TASK_COMPLETED") >= 2


async def test_a_workflow_without_a_session_ends(
    engine: TemporalEngine, temporal_client: Client
) -> None:
    await engine.start(echo_team())
    handle = await start_by_hand(temporal_client, engine.store, "nobody")
    assert await handle.result() == "gone"
