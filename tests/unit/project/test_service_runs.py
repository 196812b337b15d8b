"""Runs that a service starts for others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ekiden import Agent, CodeContext, Team
from ekiden.core.conversation.model import ModelDelta, ModelEvent, ModelRequest
from ekiden.core.errors import SessionBusy, SessionNotFound, StaleDocument, UnknownAgent, UserError
from ekiden.core.errors.server import RunNotFound, ServerStopping, TooManyRequests
from ekiden.core.events import Event
from ekiden.core.runs import RunError, parse_run_id
from ekiden.project import load_project
from ekiden.project.run_tasks import RunOrder
from ekiden.project.runs import RunStarter
from ekiden.project.service import Service, TenantService
from ekiden.project.stores import tenant_store
from ekiden.storage.base import DocumentWrite
from tests.support.cases import each_case
from tests.support.relay_team import relay_team


@pytest.fixture
async def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    monkeypatch.setenv("RELAY_FOLDER", str(tmp_path))
    project = load_project(tmp_path, home=tmp_path / "home")
    project.team = relay_team()
    async with Service(project, store=str(tmp_path / "s.db")) as service:
        yield service


@pytest.fixture
async def desk(service: Service) -> TenantService:
    return await service.tenant_service()


def order(text: str = "hello", **more: object) -> RunOrder:
    return RunOrder(input=text, **more)


async def test_a_background_run_finishes_and_its_result_is_read(desk: TenantService) -> None:
    started = await desk.runs.start(order(session_id="a", title="A title", user_id="kim"))
    assert (started.run_id, started.after) == ("a:1", 0)
    record = await desk.runs.wait("a:1", timeout_s=60)
    assert (record.status, record.output) == ("done", "you said: hello")
    row = await desk.store.get("a")
    assert (row.user_id, row.meta["title"]) == ("kim", "A title")


async def test_the_result_of_a_run_equals_its_stored_record(desk: TenantService) -> None:
    for number, text in enumerate(("hello", "hand it to the desk", "hello again"), 1):
        started, watching = await desk.runs.start_watched(order(text, session_id="a"))
        shown = [each async for each in watching if isinstance(each, Event)]
        stored = await desk.store.events("a", after=started.after)
        assert [event.seq for event in shown] == [event.seq for event in stored]
        record = await desk.runs.read(f"a:{number}")
        assert await desk.runs.read_ended(f"a:{number}") == record
        again = await desk.runs.start(order(text, session_id=f"b{number}"))
        waited = await desk.runs.wait(again.run_id, timeout_s=60)
        assert waited == await desk.runs.read(again.run_id)


async def test_cancelling_the_caller_does_not_stop_its_run(
    desk: TenantService, tmp_path: Path
) -> None:
    (tmp_path / "go").touch()
    caller = asyncio.create_task(desk.runs.start(order("hello hold:go", session_id="a")))
    while not desk.runs.active:  # noqa: ASYNC110 - a turn of the loop, not a time
        await asyncio.sleep(0)
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    async with desk.tails.follow("a") as tail:
        async for shown in tail:
            if getattr(shown, "type", None) == "agent_complete":
                break
    assert (await desk.runs.wait("a:1", timeout_s=60)).status == "done"


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (order(to="nobody"), UnknownAgent),
        (order(session_id="../x"), UserError),
        (order(session_id="x" * 200), UserError),
    ],
)
async def test_an_invalid_run_is_refused_before_anything_is_stored(
    desk: TenantService, wrong: RunOrder, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await desk.runs.start(wrong)
    with pytest.raises(error):
        await desk.runs.start_watched(wrong)
    assert desk.runs.active == 0


async def test_a_conflicting_idempotency_document_prevents_the_message(
    desk: TenantService,
) -> None:
    def along(number: int) -> DocumentWrite:
        body = {"number": number}
        return DocumentWrite(collection="once", key="k", body=body, expected_version=0)

    await desk.runs.start(order(session_id="a", along=along))
    await desk.runs.wait("a:1", timeout_s=60)
    document = await desk.store.get_document("once", "k")
    assert document is not None
    assert document.body == {"number": 1}
    before = (await desk.store.get("a")).seq
    with pytest.raises(StaleDocument):
        await desk.runs.start(order(session_id="a", along=along))
    assert (await desk.store.get("a")).seq == before


async def test_a_running_session_is_busy(desk: TenantService, tmp_path: Path) -> None:
    await desk.runs.start(order("hello hold:go", session_id="a"))
    with pytest.raises(SessionBusy):
        await desk.runs.start(order(session_id="a"))
    (tmp_path / "go").touch()
    assert (await desk.runs.wait("a:1", timeout_s=60)).status == "done"


async def test_a_wait_that_times_out_returns_the_running_record(
    desk: TenantService, tmp_path: Path
) -> None:
    await desk.runs.start(order("hello hold:go", session_id="a"))
    assert (await desk.runs.wait("a:1", timeout_s=0.01)).status == "running"
    (tmp_path / "go").touch()
    assert (await desk.runs.wait("a:1", timeout_s=60)).status == "done"


async def test_a_start_with_too_many_queued_runs_is_refused_with_retry_after(
    service: Service,
) -> None:
    lazy = TenantService(service.project, tenant_store(service.store_url, "lazy"), workers=0)
    await lazy.open()
    try:
        runs = RunStarter(lazy.store, lazy.team, lazy.tails, lazy.config, most=0, most_queued=2)
        for name in ("a", "b"):
            assert (await runs.start(order(session_id=name))).run_id == f"{name}:1"
        for _ in range(2):
            with pytest.raises(TooManyRequests) as refused:
                await runs.start(order(session_id="c"))
            assert refused.value.retry_after_s > 0
    finally:
        await lazy.close()


async def test_a_stopping_service_refuses_new_runs_and_loses_none(
    service: Service, tmp_path: Path
) -> None:
    desk = await service.tenant_service()
    await desk.runs.start(order("hello hold:go", session_id="a"))
    await service.stop(grace_s=0.05)
    with pytest.raises(ServerStopping):
        await desk.runs.start(order())
    with pytest.raises(ServerStopping):
        await desk.runs.resume("a")
    with pytest.raises(ServerStopping):
        await service.tenant_service()
    (tmp_path / "go").touch()
    async with Service(service.project, store=service.store_url) as another:
        again = await another.tenant_service()
        assert (await again.runs.wait("a:1", timeout_s=60)).output == "you said: hello hold:go"


async def test_a_failed_run_has_the_reason(desk: TenantService) -> None:
    class Broken:
        async def respond(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            raise RuntimeError("no luck")
            yield

    for agent in desk.team:
        agent.model = Broken()
    await desk.runs.start(order(session_id="a"))
    record = await desk.runs.wait("a:1", timeout_s=60)
    assert (record.status, record.output) == ("failed", None)
    assert record.error == RunError(code="run.failed", message="RuntimeError: no luck")


async def test_resuming_a_finished_or_unknown_session_is_refused(desk: TenantService) -> None:
    await desk.runs.start(order(session_id="a"))
    await desk.runs.wait("a:1", timeout_s=60)
    with pytest.raises(UserError):
        await desk.runs.resume("a")
    with pytest.raises(SessionNotFound):
        await desk.runs.resume("b")


@each_case("wrong", ["", "a", ":1", "a:", "a:x", "a:-1", "a:１", "a:" + "9" * 30])
def test_an_invalid_run_id_is_not_found(wrong: str) -> None:
    with pytest.raises(RunNotFound):
        parse_run_id(wrong)


def test_a_session_may_have_colons_in_its_id() -> None:
    assert parse_run_id("a:b:7") == ("a:b", 7)


async def test_tenants_have_stores_of_their_own(service: Service, tmp_path: Path) -> None:
    ours, theirs = await service.tenant_service(), await service.tenant_service("acme")
    await ours.runs.start(order(session_id="a"))
    await ours.runs.wait("a:1", timeout_s=60)
    with pytest.raises(SessionNotFound):
        await theirs.store.get("a")
    assert ours.app != theirs.app
    assert (tmp_path / "s.tenants" / "acme.db").exists()
    assert set(service.tenant_services) == {"default", "acme"}


@pytest.mark.parametrize("name", ["", "A", "../x", "a" * 33, "_a", "a-b", "ü"])
def test_an_invalid_tenant_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError):
        tenant_store(str(tmp_path / "s.db"), name)


def test_a_tenant_in_postgresql_has_a_schema() -> None:
    url = "postgresql://me@127.0.0.1:1/db?schema=desk&sslmode=disable"
    assert "schema=desk__acme" in tenant_store(url, "acme").url
    assert "schema=ekiden__acme" in tenant_store("postgresql://me@127.0.0.1:1/db", "acme").url


async def test_each_tenant_reports_existing_and_new_tenants(
    service: Service,
) -> None:
    seen: list[str] = []
    service.each_tenant(lambda desk: seen.append(desk.tenant))
    await service.tenant_service("acme")
    await service.tenant_service("acme")
    assert seen == ["default", "acme"]


async def test_a_run_that_waits_for_people_is_stopped_and_its_questions_cancelled(
    desk: TenantService,
) -> None:
    await desk.runs.start(order("please refund it", session_id="a"))
    record = await desk.runs.wait("a:1", timeout_s=60)
    [question] = record.questions
    stopped = await desk.runs.cancel("a:1")
    assert (stopped.status, stopped.outcome, stopped.questions) == ("stopped", None, ())
    assert (await desk.inbox.get(question)).status == "cancelled"
    await desk.runs.resume("a")
    again = await desk.runs.wait("a:1", timeout_s=60)
    assert again.status == "waiting"
    assert again.questions != (question,)
    await desk.runs.start(order("hello", session_id="a"))
    assert (await desk.runs.wait("a:2", timeout_s=60)).status == "done"
    assert (await desk.runs.read("a:1")).status in ("stopped", "waiting")


async def test_a_queued_run_is_stopped(service: Service, tmp_path: Path) -> None:
    lazy = TenantService(service.project, tenant_store(service.store_url, "lazy"), workers=0)
    await lazy.open()
    try:
        await lazy.runs.start(order(session_id="a"))
        assert (await lazy.runs.read("a:1")).status == "queued"
        assert (await lazy.runs.cancel("a:1")).status == "stopped"
    finally:
        await lazy.close()


async def test_resuming_a_running_session_changes_nothing(
    desk: TenantService, tmp_path: Path
) -> None:
    await desk.runs.start(order("hello hold:go", session_id="a"))
    with pytest.raises(SessionBusy):
        await desk.runs.resume("a")
    (tmp_path / "go").touch()
    record = await desk.runs.wait("a:1", timeout_s=60)
    assert (record.status, record.output) == ("done", "you said: hello hold:go")


async def test_a_message_does_not_interrupt_a_queued_run(service: Service, tmp_path: Path) -> None:
    lazy = TenantService(service.project, tenant_store(service.store_url, "lazy"), workers=0)
    await lazy.open()
    try:
        await lazy.runs.start(order("one", session_id="a"))
        with pytest.raises(SessionBusy):
            await lazy.runs.start(order("two", session_id="a"))
        assert (await lazy.runs.read("a:1")).status == "queued"
    finally:
        await lazy.close()


async def test_a_shorter_queue_accepts_new_runs(desk: TenantService, tmp_path: Path) -> None:
    none = RunStarter(desk.store, desk.team, desk.tails, desk.config, most=0, most_queued=3)
    for name in "abc":
        await none.start(order(session_id=name))
    for name in "abc":
        assert (await none.wait(f"{name}:1", timeout_s=60)).status == "done"
    assert (await none.start(order(session_id="d"))).run_id == "d:1"


async def test_deltas_of_the_previous_run_are_not_shown(
    desk: TenantService, tmp_path: Path
) -> None:
    await desk.runs.start(order("first hold:go", session_id="a"))
    second = asyncio.create_task(
        desk.runs.start_watched(order("second", session_id="a", on_busy="wait"))
    )
    while not desk.tails.wants("a"):  # noqa: ASYNC110 - a turn of the loop, not a time
        await asyncio.sleep(0)
    (tmp_path / "go").touch()
    started, watching = await second
    assert started.run_id == "a:2"
    texts = [each.text async for each in watching if isinstance(each, ModelDelta)]
    assert "".join(texts) == "you said: second"


async def test_wait_returns_the_given_run_not_a_later_one(
    desk: TenantService, tmp_path: Path
) -> None:
    await desk.runs.start(order("one", session_id="a"))
    await desk.runs.wait("a:1", timeout_s=60)
    await desk.runs.start(order("two hold:go", session_id="a"))
    assert (await desk.runs.wait("a:1", timeout_s=60)).output == "you said: one"
    (tmp_path / "go").touch()
    assert (await desk.runs.wait("a:2", timeout_s=60)).status == "done"


async def test_stopping_a_run_keeps_queued_messages_of_the_session(
    desk: TenantService, tmp_path: Path
) -> None:
    await desk.runs.start(order("one hold:never", session_id="a"))
    waits = asyncio.create_task(desk.runs.start(order("two", session_id="a", on_busy="wait")))
    assert (await desk.runs.cancel("a:1")).status == "stopped"
    assert (await waits).run_id == "a:2"
    assert (await desk.runs.wait("a:2", timeout_s=60)).output == "you said: two"


async def test_a_run_continued_by_the_worker_is_stopped(
    desk: TenantService, tmp_path: Path
) -> None:
    await desk.runs.start(order("please refund it hold:go", session_id="a"))
    (tmp_path / "go").touch()
    [question] = (await desk.runs.wait("a:1", timeout_s=60)).questions
    (tmp_path / "go").unlink()
    await desk.inbox.answer(question, choice="approve", by="kim", via="test")
    while (await desk.runs.read("a:1")).status != "running":
        await desk.store.wait_for_change(0.05)
    assert (await desk.runs.cancel("a:1")).status == "stopped"


async def test_a_wait_returns_immediately_when_the_server_stops(
    service: Service, tmp_path: Path
) -> None:
    desk = await service.tenant_service()
    await desk.runs.start(order("hello hold:go", session_id="a"))
    waiting = asyncio.create_task(desk.runs.wait("a:1", timeout_s=60))
    await asyncio.sleep(0)
    await desk.end_streams()
    assert (await waiting).status == "running"
    (tmp_path / "go").touch()


async def test_an_earlier_run_interrupted_by_a_message_is_stopped_and_its_stream_ends(
    desk: TenantService,
) -> None:
    await desk.runs.start(order("please refund it", session_id="a"))
    await desk.runs.wait("a:1", timeout_s=60)
    watching = desk.runs.watch("a:1", through_waits=True, quiet_s=0.05)
    seen = []
    async for shown in watching:
        if isinstance(shown, Event):
            seen.append(shown.seq)
        if shown is None and "a:2" not in seen:
            seen.append("a:2")
            await desk.runs.start(order("never mind", session_id="a"))
    await desk.runs.wait("a:2", timeout_s=60)
    numbers = [each for each in seen if each != "a:2"]
    second = [each async for each in desk.runs.watch("a:2") if isinstance(each, Event)]
    assert numbers == list(range(1, second[0].seq))
    assert (await desk.runs.read("a:1")).status == "stopped"


async def _ask_the_desk(ctx: CodeContext) -> str:
    return str(await ctx.ask("desk", "please refund it"))


async def test_a_stream_ends_when_an_asked_agent_waits_for_a_person(tmp_path: Path) -> None:
    project = load_project(tmp_path, home=tmp_path / "home")
    project.team = Team(Agent("caller", run=_ask_the_desk), *relay_team())
    async with Service(project, store=str(tmp_path / "s.db")) as service:
        desk = await service.tenant_service()
        await desk.runs.start(order(session_id="a"))
        async for _ in desk.runs.watch("a:1", quiet_s=3600):
            """The events of the run: the question to the desk is the last."""
        assert (await desk.runs.read("a:1")).status == "waiting"
