"""Rows of the store become signals, and deadlines are kept."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import Client, WorkflowExecutionStatus

from ekiden.core.agent import Agent, Team
from ekiden.core.errors import StoreUnavailable
from ekiden.integrations.temporal import TemporalWorker, signaller
from ekiden.integrations.temporal.connection import TERM_S, LeaderLease
from ekiden.integrations.temporal.names import Due, care_queue, store_name, timekeeper_id
from ekiden.runtime import CodeContext
from ekiden.storage.base import Claim, NewSession, SessionRow
from ekiden.storage.postgres import PostgresStore
from ekiden.storage.postgres.database import Unreachable
from ekiden.testing.contracts.engine import answered, asked_person, done
from tests.integration.temporal.desk import (
    SECRET,
    attempts,
    echo,
    echo_team,
    handle_of,
    said_in,
    until_status,
)
from tests.support.temporal import DevServer
from tests.support.temporal_engine import TemporalEngine

COMPLETED = WorkflowExecutionStatus.COMPLETED


async def test_a_deadline_is_kept_by_a_temporal_timer(
    engine: TemporalEngine, temporal_client: Client
) -> None:
    async def asks(ctx: CodeContext[Any]) -> str:
        answer = await ctx.request_approval("may I?", deadline_s=2.5, default="reject")
        return f"{answer.choice} by {answer.by}"

    await engine.start(Team(Agent("desk", run=asks)))
    await engine.submit("go", "s")
    assert await done(engine) == "reject by nobody"
    queue = f"ekiden-{await store_name(engine.store)}"
    keeper = temporal_client.get_workflow_handle(timekeeper_id(queue))
    await until_status(keeper, COMPLETED)
    history = (await keeper.fetch_history()).to_json()
    assert "EVENT_TYPE_TIMER_FIRED" in history
    assert care_queue(queue) in history


async def test_an_earlier_deadline_set_later_is_kept(
    engine: TemporalEngine, temporal_client: Client
) -> None:
    async def asks(ctx: CodeContext[Any]) -> str:
        answer = await ctx.request_approval("may I?", deadline_s=float(ctx.text), default="reject")
        return str(answer.choice)

    await engine.start(Team(Agent("desk", run=asks)))
    await engine.submit("3600", "late")
    await asked_person(engine, "late")
    await engine.submit("0.5", "soon")
    assert await done(engine, "soon") == "reject"
    assert (await engine.store.get("late")).status == "waiting"
    queue = f"ekiden-{await store_name(engine.store)}"
    keeper = temporal_client.get_workflow_handle(timekeeper_id(queue))
    assert (await keeper.describe()).status == WorkflowExecutionStatus.RUNNING
    await keeper.signal("due", Due(in_s=0.0))
    await keeper.terminate()


async def test_agents_that_need_labels_run_on_workers_with_the_labels(
    postgres_store: PostgresStore, temporal_server: DevServer
) -> None:
    ran: dict[str, str] = {}

    async def hands_over(ctx: CodeContext[Any]) -> Any:
        ran["triage"] = ctx.context
        return ctx.hand_off("painter", reason="it paints")

    async def paints(ctx: CodeContext[Any]) -> str:
        ran["painter"] = ctx.context
        return "painted"

    painter = Agent("painter", run=paints, runs_on={"gpu"})
    team = Team(Agent("triage", run=hands_over, handoffs=[painter]), painter)
    engine = TemporalEngine(postgres_store, temporal_server.address, context="plain")
    other = TemporalEngine(
        postgres_store, temporal_server.address, context="with gpu", labels={"gpu"}
    )
    await engine.start(team)
    await engine.submit("paint", "s")
    async with asyncio.timeout(60):
        while (await postgres_store.get("s")).agent != "painter":
            await postgres_store.wait_for_change(0.1)
    assert "painter" not in ran
    await other.start(team)
    assert await done(engine) == "painted"
    assert ran["painter"] == "with gpu"
    for each in (engine, other):
        await each.stop()


class FlakyStore(PostgresStore):
    """Goes away at the next claims."""

    failures = 0

    async def claim(
        self, session_id: str, *, owner: str, lease_s: float, create: NewSession | None = None
    ) -> tuple[Claim, SessionRow]:
        if create is None and self.failures:
            self.failures -= 1
            raise StoreUnavailable(f"gone: {SECRET}")
        return await super().claim(session_id, owner=owner, lease_s=lease_s, create=create)


async def test_an_activity_is_retried_after_a_store_outage(
    postgres_url: str, temporal_server: DevServer, temporal_client: Client
) -> None:
    async with FlakyStore(postgres_url) as store:
        engine = TemporalEngine(store, temporal_server.address, linger_s=0.1)
        await engine.start(echo_team())
        store.failures = 2
        assert await answered(engine, "hello") == "you said: hello"
        handle = await handle_of(temporal_client, store, "s")
        await until_status(handle, COMPLETED)
        assert 3 in await attempts(handle)
        history = said_in((await handle.fetch_history()).to_json())
        assert "store.unavailable" in history
        assert SECRET not in history
        await engine.stop()


class AwayStore(PostgresStore):
    """Cannot be reached by the next activities."""

    failures = 0

    async def get(self, session_id: str) -> SessionRow:
        if activity.in_activity() and self.failures:
            self.failures -= 1
            raise Unreachable("gone")
        return await super().get(session_id)


async def test_an_activity_waits_for_an_unavailable_database_with_short_pauses(
    postgres_url: str, temporal_server: DevServer, temporal_client: Client
) -> None:
    async with AwayStore(postgres_url) as store:
        engine = TemporalEngine(store, temporal_server.address, linger_s=0.1)
        await engine.start(echo_team())
        store.failures = 2
        assert await answered(engine, "hello") == "you said: hello"
        handle = await handle_of(temporal_client, store, "s")
        await until_status(handle, COMPLETED)
        assert store.failures == 0
        assert await attempts(handle) == [1]
        [scheduled] = [
            event.activity_task_scheduled_event_attributes
            for event in (await handle.fetch_history()).events
            if event.HasField("activity_task_scheduled_event_attributes")
        ]
        assert scheduled.retry_policy.maximum_interval.seconds <= 2
        await engine.stop()


async def test_a_session_whose_workflow_was_terminated_is_signalled_again(
    engine: TemporalEngine, temporal_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signaller, "_CHECK_S", 0.1)
    team = Team(Agent("desk", run=echo, runs_on={"gpu"}), Agent("other", run=echo))
    await engine.start(team)
    await engine.submit("hello", "s")
    handle = await handle_of(temporal_client, engine.store, "s")
    await until_status(handle, WorkflowExecutionStatus.RUNNING)
    await handle.terminate()
    await until_status(handle, WorkflowExecutionStatus.RUNNING)
    await engine.stop()
    engine.options["labels"] = {"gpu"}
    await engine.start(team)
    assert await done(engine) == "you said: hello"


async def test_sessions_of_other_teams_are_left_alone(engine: TemporalEngine) -> None:
    engine.prepare(Team(Agent("stranger", run=echo)))
    await engine.submit("hello", "theirs")
    await engine.start(echo_team())
    assert await answered(engine, "hello", "ours") == "you said: hello"
    assert (await engine.store.get("theirs")).status == "ready"


async def test_one_process_at_a_time_holds_the_leader_lease(
    postgres_store: PostgresStore,
) -> None:
    first, second = LeaderLease(postgres_store, "x"), LeaderLease(postgres_store, "x")
    assert await first.hold()
    assert not await second.hold()
    assert await first.hold()
    await second.leave()
    assert not await second.hold()
    await first.leave()
    assert await second.hold()
    assert not await first.hold()
    assert TERM_S < 5


async def test_an_unreachable_temporal_is_reported_with_advice(
    postgres_store: PostgresStore,
) -> None:
    worker = TemporalWorker(postgres_store, echo_team(), address="127.0.0.1:9")
    with pytest.raises(Exception, match="temporal server start-dev") as raised:
        await worker.run()
    assert getattr(raised.value, "code", "") == "temporal.unavailable"


async def test_a_worker_stopped_before_it_began_ends(
    postgres_store: PostgresStore, temporal_server: DevServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "ekiden")
    worker = TemporalWorker(postgres_store, echo_team(), address=temporal_server.address)
    worker.stop()
    await worker.run()
    assert not caplog.records
    assert worker.finished == 0
    assert not await worker.cancel("s")
