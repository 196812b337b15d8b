"""Runs that a request follows, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ekiden import Agent, Team, function_tool
from ekiden.core.conversation.model import ModelDelta
from ekiden.core.errors import StoreUnavailable, UnknownAgent
from ekiden.core.events import Event
from ekiden.core.runs import Run
from ekiden.integrations.agui.events import agui_run_stream
from ekiden.project import load_project
from ekiden.project.run_tasks import RunOrder
from ekiden.project.service import TenantService
from ekiden.runtime import CodeContext
from ekiden.server.streams.follow import await_more, begin_run, join_run
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, delay, hang, say, stream
from tests.support.relay_team import relay_team
from tests.support.serving import application, client_of
from tests.support.until import until


@function_tool(confirmation=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"{amount} paid"


@asynccontextmanager
async def working(root: Path, team: Team) -> AsyncIterator[TenantService]:
    project = load_project(root, home=root / "home")
    project.team = team
    async with project:
        desk = TenantService(project, MemoryStore())
        await desk.open()
        try:
            yield desk
        finally:
            await desk.close(grace_s=0)


async def answer(desk: TenantService, item_id: str) -> None:
    await desk.inbox.answer(item_id, choice="approve", by="mira")


async def test_a_run_waiting_for_two_approvals_continues_after_both(tmp_path: Path) -> None:
    model = ScriptedModel([[call("pay", amount=1), call("pay", amount=2)], say("both are paid")])
    async with working(tmp_path, Team(Agent("one", model=model, tools=[pay]))) as desk:
        followed = await begin_run(desk, RunOrder(input="pay"), live=True)
        await followed.events(timeout_s=60)
        record = await followed.read()
        assert record.status == "waiting"
        first, second = record.questions
        followed = await await_more(desk, record.run_id)
        await answer(desk, first)
        await followed.events(timeout_s=60)
        assert (await followed.read()).questions == (second,)
        followed = await await_more(desk, record.run_id)
        await answer(desk, second)
        await followed.events(timeout_s=60)
        assert (await followed.read()).output == "both are paid"


async def test_a_run_whose_asked_agent_asks_a_person_is_followed_to_its_end(
    tmp_path: Path,
) -> None:
    async def boss(ctx: CodeContext[Any]) -> str:
        return f"told: {await ctx.ask('clerk', 'pay')}"

    model = ScriptedModel([call("pay", amount=1), say("paid")])
    clerk = Agent("clerk", model=model, tools=[pay])
    async with working(tmp_path, Team(Agent("boss", run=boss), clerk)) as desk:
        followed = await begin_run(desk, RunOrder(input="go"), live=True)
        await followed.events(timeout_s=60)
        record = await followed.read()
        [question] = record.questions
        followed = await await_more(desk, record.run_id)
        await answer(desk, question)
        await followed.events(timeout_s=60)
        assert (await followed.read()).output == "told: paid"


async def test_a_late_subscriber_sees_earlier_events(tmp_path: Path) -> None:
    async with working(tmp_path, relay_team()) as desk:
        started = await desk.runs.start(RunOrder(input="one", session_id="s"))
        await desk.runs.wait(started.run_id, timeout_s=60)
        await desk.runs.wait(
            (await desk.runs.start(RunOrder(input="two", session_id="s"))).run_id, timeout_s=60
        )
        followed = await join_run(desk, "s:1", after=0)
        events = await followed.events(timeout_s=60)
        assert events[-1].type == "agent_complete"
        assert max(event.seq for event in events) < (await desk.store.get("s")).seq


async def test_a_run_that_cannot_start_is_not_followed(tmp_path: Path) -> None:
    async with working(tmp_path, relay_team()) as desk:
        for live in (True, False):
            with pytest.raises(UnknownAgent):
                order = RunOrder(input="x", to="nobody", session_id="s")
                await begin_run(desk, order, live=live)
        assert not desk.tails.wants("s")


async def test_a_stopping_server_ends_followed_runs(tmp_path: Path) -> None:
    model = ScriptedModel([hang()])
    async with working(tmp_path, Team(Agent("one", model=model))) as desk:
        followed = await begin_run(desk, RunOrder(input="x"), live=True)
        await model.until_called()
        await desk.end_streams()
        assert not [each async for each in followed.shown() if not isinstance(each, Event)]
        assert (await followed.read()).status == "running"


async def test_deltas_that_arrive_while_the_end_is_looked_for_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = asyncio.Event()
    model = ScriptedModel([stream(delay(goes_on, say("all well")), chunks=2)])
    async with working(tmp_path, Team(Agent("one", model=model))) as desk:
        followed = await begin_run(desk, RunOrder(input="x"), live=True)
        await model.until_called()
        read = desk.runs.read

        async def read_at_the_end(run_id: str) -> Run:
            goes_on.set()
            await until(lambda: not desk.runs.active)
            return await read(run_id)

        monkeypatch.setattr(desk.runs, "read", read_at_the_end)
        shown = [each async for each in followed.shown()]
    assert [each.text for each in shown if isinstance(each, ModelDelta)] == ["all ", "well"]
    assert isinstance(shown[-1], Event)
    assert shown[-1].type == "agent_complete"


async def test_a_run_can_be_followed_as_agui_events(tmp_path: Path) -> None:
    async with working(tmp_path, relay_team()) as desk:
        started = await desk.runs.start(RunOrder(input="hello", session_id="s"))
        sent = b"".join([each async for each in agui_run_stream(desk, started.run_id)])
        assert sent.startswith(b'data: {"type":"RUN_STARTED","threadId":"s","runId":"s:1"}\n\n')
        assert b'"result":"you said: hello"' in sent


PATHS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "model": "one",
        "messages": [{"role": "user", "content": "x"}],
        "stream": True,
    },
    "/v1/responses": {"model": "one", "input": "x", "stream": True},
    "/api/v1/agui": {"threadId": "t", "runId": "r", "messages": [{"role": "user", "content": "x"}]},
}


@pytest.mark.parametrize("path", PATHS)
async def test_a_stream_reports_that_the_server_stops(tmp_path: Path, path: str) -> None:
    goes_on = asyncio.Event()
    model = ScriptedModel([delay(goes_on, say("late"))])
    team = Team(Agent("one", model=model))
    async with application(tmp_path, team=team) as app, client_of(app) as client:
        desk: TenantService = await app.state.service.tenant_service()

        async def stop() -> None:
            await model.until_called()
            await desk.end_streams()

        answer, _ = await asyncio.gather(client.post(path, json=PATHS[path]), stop())
        goes_on.set()
        assert "still working" in answer.text or "server.stopping" in answer.text


@pytest.mark.parametrize("path", PATHS)
async def test_a_stream_reports_that_the_store_fails(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(run_id: str) -> Run:
        raise StoreUnavailable("disk on fire")

    goes_on = asyncio.Event()
    model = ScriptedModel([delay(goes_on, say("hello"))])
    team = Team(Agent("one", model=model))
    async with application(tmp_path, team=team) as app, client_of(app) as client:
        desk: TenantService = await app.state.service.tenant_service()

        async def break_down() -> None:
            await model.until_called()
            monkeypatch.setattr(desk.runs, "read", fail)
            goes_on.set()

        answer, _ = await asyncio.gather(client.post(path, json=PATHS[path]), break_down())
        monkeypatch.undo()
    assert "store.unavailable" in answer.text
    assert "on fire" not in answer.text


async def test_runs_out_of_budget_or_stopped_are_reported_as_such(tmp_path: Path) -> None:
    model = ScriptedModel(respond=lambda request: call("noop"))

    @function_tool
    def noop() -> str:
        """Do nothing."""
        return "nothing"

    team = Team(Agent("one", model=model, tools=[noop]))
    async with application(tmp_path, team=team) as app, client_of(app) as client:
        body = {"model": "one", "messages": [{"role": "user", "content": "x"}]}
        told = (await client.post("/v1/chat/completions", json=body)).json()
        assert told["choices"][0]["finish_reason"] == "length"
        assert "budget" in told["choices"][0]["message"]["content"]
        response = (await client.post("/v1/responses", json={"model": "one", "input": "x"})).json()
        assert response["status"] == "incomplete"
        assert response["incomplete_details"] == {"reason": "max_output_tokens"}


async def test_a_stopped_run_is_reported_as_cancelled(tmp_path: Path) -> None:
    model = ScriptedModel([hang()])
    async with (
        application(tmp_path, team=Team(Agent("one", model=model))) as app,
        client_of(app) as client,
    ):
        body: dict[str, Any] = {"model": "one", "input": "x", "background": True}
        begun = (await client.post("/v1/responses", json=body)).json()
        await model.until_called()
        await client.post(f"/v1/responses/{begun['id']}/cancel")
        ask = {
            "model": "one",
            "messages": [{"role": "user", "content": ""}],
            "metadata": {"session_id": begun["metadata"]["session_id"]},
        }
        told = (await client.post("/v1/chat/completions", json=ask)).json()
        assert "stopped" in told["choices"][0]["message"]["content"]
        assert told["metadata"]["status"] == "stopped"
        streamed = await client.get(f"/v1/responses/{begun['id']}?stream=true")
        assert streamed.json()["error"]["param"] == "stream"
