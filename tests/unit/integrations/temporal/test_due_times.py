"""The timekeeper gets few signals, and one it refuses stops no others."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, cast

import pytest
from temporalio.api.operatorservice.v1 import ListSearchAttributesResponse
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from ekiden.integrations.temporal import connection, signaller as signaller_module
from ekiden.integrations.temporal.connection import TERM_S, LeaderLease
from ekiden.integrations.temporal.names import SessionJob, workflow_id
from ekiden.integrations.temporal.signaller import WorkflowSignaller
from ekiden.storage.base import NewSession
from ekiden.storage.memory import MemoryStore
from ekiden.storage.timers import Timer, timer_removal, timer_write
from ekiden.testing import ManualClock
from tests.support.until import until

JOB = SessionJob(session="", agent="", queue="q", store="desk")
LABELS: dict[str, list[str]] = {"desk": []}


class Workflow:
    """A workflow that has an activity to do."""

    status = WorkflowExecutionStatus.RUNNING
    raw_description = DescribeWorkflowExecutionResponse()
    raw_description.pending_activities.add()

    async def describe(self) -> Workflow:
        return self


class Forgotten:
    """A workflow that is not there."""

    async def describe(self) -> None:
        raise RPCError("workflow not found", RPCStatusCode.NOT_FOUND, b"")


class Cluster:
    """Records signals, in place of a client."""

    def __init__(self) -> None:
        self.signals: list[Any] = []
        self.waits: list[float] = []
        self.refuses_time = False
        self.known: set[str] = set()
        self.checks = 0
        self.namespace = "default"
        self.operator_service = self
        self.is_indexed = True

    async def list_search_attributes(self, request: Any) -> Any:
        return ListSearchAttributesResponse()

    async def add_search_attributes(self, request: Any) -> None:
        self.is_indexed = True

    def get_workflow_handle(self, name: str) -> Any:
        self.checks += 1
        return Workflow() if name in self.known else Forgotten()

    async def start_workflow(self, run: Any, job: Any, **options: Any) -> None:
        (signal,) = options["start_signal_args"]
        if options["start_signal"] == "wake":
            if not self.is_indexed:
                raise RPCError("no search attributes", RPCStatusCode.INVALID_ARGUMENT, b"")
            self.known.add(options["id"])
            self.signals.append(signal)
            return
        if self.refuses_time:
            raise RPCError("too many signals", RPCStatusCode.INVALID_ARGUMENT, b"")
        self.waits.append(round(signal.in_s))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def signaller(store: MemoryStore, cluster: Cluster) -> WorkflowSignaller:
    client: Any = cluster
    return WorkflowSignaller(store, client, job=JOB, labels=LABELS)


async def due_in(store: MemoryStore, seconds: float, name: str = "t") -> Timer:
    timer = Timer(due_us=await store.now_us() + int(seconds * 1e6), kind="inbox", id=name)
    await store.write_documents([timer_write(timer)])
    return timer


async def test_sessions_are_signalled_although_the_timer_workflow_is_full(
    store: MemoryStore,
    cluster: Cluster,
    signaller: WorkflowSignaller,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await due_in(store, 60)
    cluster.refuses_time = True
    await store.create(NewSession(id="one", agent="desk", status="ready"))
    await signaller.update()
    await store.create(NewSession(id="two", agent="desk", status="ready"))
    await signaller.update()
    assert len(cluster.signals) == 2
    assert caplog.text.count("too many signals") == 1


async def test_a_later_deadline_is_sent_only_after_the_earlier_one_passed(
    store: MemoryStore, cluster: Cluster, signaller: WorkflowSignaller
) -> None:
    first = await due_in(store, 60, "first")
    await signaller.update()
    later = await due_in(store, 90, "later")
    await store.write_documents([timer_removal(first)])
    await signaller.update()
    await store.write_documents([timer_removal(later)])
    await signaller.update()
    await due_in(store, 100, "last")
    await signaller.update()
    assert cluster.waits == [60]
    store.advance(70)
    await signaller.update()
    assert cluster.waits == [60, 30]


async def test_an_earlier_deadline_is_sent(
    store: MemoryStore, cluster: Cluster, signaller: WorkflowSignaller
) -> None:
    await due_in(store, 60, "late")
    await signaller.update()
    await due_in(store, 5, "soon")
    await signaller.update()
    await signaller.update()
    assert cluster.waits == [60, 5]


async def test_an_overdue_deadline_after_a_clock_change_is_sent_once(
    store: MemoryStore, cluster: Cluster, signaller: WorkflowSignaller
) -> None:
    await due_in(store, 3600)
    await signaller.update()
    store.advance(3601)
    await signaller.update()
    await signaller.update()
    assert cluster.waits == [3600, 0]


async def test_signallers_for_different_agents_hold_separate_leases(
    store: MemoryStore, cluster: Cluster
) -> None:
    client: Any = cluster
    old = WorkflowSignaller(store, client, job=JOB, labels=LABELS)
    new = WorkflowSignaller(store, client, job=JOB, labels={**LABELS, "billing": []})
    same = WorkflowSignaller(store, client, job=JOB, labels=dict(LABELS))
    moved = WorkflowSignaller(store, client, job=JOB, labels={"desk": ["gpu"]})
    held = [await each._lease.hold() for each in (old, new, same, moved)]
    assert held == [True, True, False, True]


async def test_a_takeover_signals_only_unsignalled_sessions(cluster: Cluster) -> None:
    clock = ManualClock()
    store, client = MemoryStore(clock), cast(Any, cluster)
    first = WorkflowSignaller(store, client, job=JOB, labels=LABELS)
    assert await first._lease.hold()
    await store.create(NewSession(id="signalled", agent="desk", status="ready"))
    await first.update()
    await store.create(NewSession(id="missed", agent="desk", status="ready"))
    clock.advance(TERM_S + 1)
    second = WorkflowSignaller(store, client, job=JOB, labels=LABELS)
    assert await second._lease.hold()
    await store.create(NewSession(id="fresh", agent="desk", status="ready"))
    cluster.known.add(workflow_id(JOB.store, "fresh"))
    signalled = len(cluster.signals)
    await second.update()
    assert len(cluster.signals) - signalled == 2
    assert cluster.checks == 2
    await second.update()
    assert len(cluster.signals) - signalled == 2


def _is_renewed(lease: LeaderLease, until_us: int) -> bool:
    return lease._until_us != until_us


async def test_the_lease_is_renewed_during_a_long_update(
    store: MemoryStore, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_RENEW_EVERY_S", 0.001)
    is_stuck = asyncio.Event()

    async def stuck(*_: Any, **__: Any) -> None:
        is_stuck.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(cluster, "start_workflow", stuck)
    client: Any = cluster
    signaller = WorkflowSignaller(store, client, job=JOB, labels=LABELS)
    await store.create(NewSession(id="one", agent="desk", status="ready"))
    other = LeaderLease(store, signaller._lease._key.removeprefix("office/"))
    async with asyncio.timeout(30):
        task = asyncio.create_task(signaller.run())
        await is_stuck.wait()
        for _ in range(3):
            held_until_us = signaller._lease._until_us
            store.advance(TERM_S * 0.6)
            await until(partial(_is_renewed, signaller._lease, held_until_us))
            assert not await other.hold()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert await other.hold()
    assert not other.is_taken_over


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every update may check what was signalled before."""
    monkeypatch.setattr(signaller_module, "_CHECK_S", 0.0)
    monkeypatch.setattr(signaller_module, "_CHECK_EVERY_S", 0.0)


@pytest.mark.usefixtures("impatient")
async def test_a_queued_session_is_signalled_again_only_if_temporal_forgot_it(
    store: MemoryStore, cluster: Cluster, signaller: WorkflowSignaller
) -> None:
    await store.create(NewSession(id="one", agent="desk", status="ready"))
    for _ in range(10):
        await signaller.update()
    assert len(cluster.signals) == 1
    assert cluster.checks
    cluster.known.clear()
    await signaller.update()
    assert [each.mark is None for each in cluster.signals] == [False, True]


@pytest.mark.usefixtures("impatient")
async def test_sessions_are_checked_in_samples_and_all_after_one_was_forgotten(
    store: MemoryStore, cluster: Cluster, signaller: WorkflowSignaller
) -> None:
    for number in range(100):
        await store.create(NewSession(id=f"s{number}", agent="desk", status="ready"))
    await signaller.update()
    cluster.checks = 0
    await signaller.update()
    assert 0 < cluster.checks <= 20
    cluster.known.clear()
    await signaller.update()
    assert len(cluster.signals) == 200


async def test_lost_search_attributes_are_registered_again(
    store: MemoryStore, cluster: Cluster, signaller: WorkflowSignaller
) -> None:
    await store.create(NewSession(id="one", agent="desk", status="ready"))
    cluster.is_indexed = False
    await signaller.update()
    assert not cluster.signals
    await signaller.update()
    assert len(cluster.signals) == 1
