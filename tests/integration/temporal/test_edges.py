"""What others do to a session while it has a workflow, and what goes wrong beside it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.worker import Worker

from ekiden.core.agent import Agent, Team
from ekiden.core.errors import StoreUnavailable
from ekiden.engine.store_worker import StoreWorker
from ekiden.integrations.temporal import (
    TemporalAddress,
    TemporalFleet,
    TemporalSettings,
    TemporalWorker,
)
from ekiden.integrations.temporal.names import Due, TimeJob, store_name
from ekiden.integrations.temporal.workflows import RUN_TIMERS, TimekeeperWorkflow
from ekiden.runtime import CodeContext, RunConfig
from ekiden.storage.base import Document, SessionRow
from ekiden.storage.memory import MemoryStore
from ekiden.storage.postgres import PostgresStore
from ekiden.testing.contracts.engine import answered, asked_person, decide, done
from tests.integration.temporal.desk import (
    SECRET,
    asks_person,
    attempts,
    echo,
    echo_team,
    event_types,
    handle_of,
    said_in,
    until,
    until_status,
)
from tests.support.temporal import DevServer, client_of
from tests.support.temporal_engine import TemporalEngine

COMPLETED = WorkflowExecutionStatus.COMPLETED


@pytest.mark.slow
async def test_a_further_message_costs_the_documented_number_of_events(
    engine: TemporalEngine, temporal_client: Client
) -> None:
    engine.options["linger_s"] = 30.0
    await engine.start(echo_team())
    await answered(engine, "one")
    handle = await handle_of(temporal_client, engine.store, "s")
    first = await until(lambda found: found.history_length >= 13, handle)
    await answered(engine, "two")
    second = await until(lambda found: found.history_length >= 27, handle)
    assert (first.history_length, second.history_length) == (13, 27)
    further = (await event_types(handle))[13:]
    assert further.count("WORKFLOW_TASK_COMPLETED") == 2
    assert further.count("ACTIVITY_TASK_COMPLETED") == 1
    await handle.terminate()


@pytest.mark.slow
async def test_an_answer_that_ends_a_wait_costs_as_much_as_a_message(
    engine: TemporalEngine, temporal_client: Client
) -> None:
    engine.options["linger_s"] = 30.0
    await engine.start(Team(Agent("desk", run=asks_person)))
    await engine.submit("go", "s")
    item = await asked_person(engine)
    handle = await handle_of(temporal_client, engine.store, "s")
    await until(lambda found: found.history_length >= 13, handle)
    await decide(engine, item, "approve")
    await done(engine)
    found = await until(lambda found: found.history_length >= 27, handle)
    assert found.history_length == 27
    await handle.terminate()


@pytest.mark.slow
async def test_the_workflow_of_a_waiting_session_ends_when_it_is_deleted(
    engine: TemporalEngine, temporal_client: Client
) -> None:
    engine.options["look_s"] = 0.3
    await engine.start(Team(Agent("desk", run=asks_person)))
    await engine.submit("go", "s")
    await asked_person(engine)
    handle = await handle_of(temporal_client, engine.store, "s")
    await until(lambda found: found.history_length >= 24, handle)
    assert "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES" not in (await event_types(handle))[13:]
    await engine.store.delete("s")
    assert await handle.result() == "gone"


async def test_cancelling_the_workflow_of_a_queued_session_leaves_it_idle(
    engine: TemporalEngine, temporal_client: Client
) -> None:
    ran: list[str] = []
    gate = asyncio.Event()

    async def slow(ctx: CodeContext[Any]) -> str:
        ran.append(ctx.text)
        await gate.wait()
        return "ok"

    await engine.start(Team(Agent("desk", run=slow)), concurrency=1)
    await engine.submit("first", "s")
    async with asyncio.timeout(60):
        while not ran:
            await engine.store.wait_for_change(0.1)
    await engine.submit("second", "queued")
    handle = await handle_of(temporal_client, engine.store, "queued")
    await handle.cancel()
    await until_status(handle, WorkflowExecutionStatus.CANCELED)
    row = await engine.store.get("queued")
    assert (row.status, row.owner) == ("idle", None)
    gate.set()
    await done(engine)
    assert ran == ["first"]


class Blabbing(PostgresStore):
    """Fails with an unexpected error that quotes a message."""

    failures = 0

    async def get(self, session_id: str) -> SessionRow:
        if self.failures:
            self.failures -= 1
            raise ValueError(f"not readable: {SECRET}")
        return await super().get(session_id)


@pytest.mark.slow
async def test_the_text_of_an_unexpected_error_is_not_sent_to_temporal(
    postgres_url: str, temporal_server: DevServer, temporal_client: Client
) -> None:
    async with Blabbing(postgres_url) as store:
        engine = TemporalEngine(store, temporal_server.address, linger_s=0.1)
        engine.prepare(echo_team())
        await engine.submit("hello", "s")
        store.failures = 1
        await engine.start(echo_team())
        handle = await handle_of(temporal_client, store, "s")
        await until_status(handle, COMPLETED)
        assert await attempts(handle) == [2]
        history = said_in((await handle.fetch_history()).to_json())
        assert "ValueError" in history
        assert SECRET not in history
        await engine.stop()


async def test_until_idle_ignores_sessions_of_agents_that_cannot_run_here(
    postgres_store: PostgresStore, temporal_server: DevServer
) -> None:
    team = Team(Agent("desk", run=echo, runs_on={"gpu"}), Agent("other", run=echo))
    engine = TemporalEngine(postgres_store, temporal_server.address)
    engine.prepare(team)
    await engine.submit("hello", "s")
    worker = TemporalWorker(postgres_store, team, address=temporal_server.address)
    async with asyncio.timeout(60):
        await worker.run(until_idle=True)
    assert (await postgres_store.get("s")).status == "ready"


class Late(MemoryStore):
    """Cannot be used at first."""

    failures = 1

    async def get_document(self, collection: str, key: str) -> Document | None:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("not yet")
        return await super().get_document(collection, key)


async def test_a_brief_outage_of_one_tenants_store_does_not_end_the_others(
    temporal_server: DevServer, caplog: pytest.LogCaptureFixture
) -> None:
    store = Late()
    engine = TemporalEngine(store, temporal_server.address)
    engine.prepare(echo_team())
    await engine.submit("hello", "s")
    fleet = TemporalFleet(
        address=TemporalAddress(temporal_server.address), terms=TemporalSettings()
    )
    team = echo_team()
    fleet.add(StoreWorker(store, team, serves=["desk"], config=RunConfig(), name="there"))
    async with asyncio.timeout(60):
        await fleet.run(until_idle=True)
    assert fleet.finished == 1
    assert "the store of there cannot be used, trying again: not yet" in caplog.text


async def test_the_name_of_a_store_is_stored_with_its_place(postgres_store: PostgresStore) -> None:
    place = await postgres_store.place()
    assert all(part.isdigit() for part in place.split("/"))
    name = await store_name(postgres_store)
    assert await store_name(postgres_store) == name
    document = await postgres_store.get_document("temporal", "identity")
    assert document is not None
    assert document.body == {"name": name, "place": place}


@pytest.mark.slow
async def test_endless_signals_do_not_fill_the_timekeepers_history() -> None:
    looked = asyncio.Event()

    @activity.defn(name=RUN_TIMERS)
    async def look() -> Due:
        looked.set()
        return Due(in_s=None)

    with DevServer(settings=["limit.historyCount.suggestContinueAsNew=40"]) as server:
        client = await client_of(server)
        async with Worker(
            client, task_queue="q", workflows=[TimekeeperWorkflow], activities=[look]
        ):
            job = TimeJob(queue="q", due_s=3600.0)
            handle = await client.start_workflow(
                TimekeeperWorkflow.run, job, id="keeper", task_queue="q"
            )
            keeper = client.get_workflow_handle("keeper")
            for number in range(30):
                await keeper.signal("due", Due(in_s=3000.0 - 60 * number))
                await until(
                    lambda found: not found.raw_description.HasField("pending_workflow_task"),
                    keeper,
                )
            assert (await keeper.describe()).run_id != handle.first_execution_run_id
            await keeper.signal("due", Due(in_s=0.1))
            async with asyncio.timeout(60):
                await looked.wait()
            await until_status(keeper, COMPLETED)
