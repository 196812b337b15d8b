"""Both clients against a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ekiden.api.traces import LiveEvent, Position
from ekiden.client import AsyncClient, Client, ServerUnavailable
from ekiden.core.conversation.model import ModelDelta
from ekiden.core.errors import (
    EkidenError,
    HandoffNotFound,
    SessionNotFound,
    UnknownAgent,
    UserError,
)
from ekiden.core.errors.memory import MemoryNotFound
from ekiden.core.errors.messages import InboxItemClosed
from ekiden.core.errors.server import NotServed, PreconditionFailed, Unauthenticated
from ekiden.core.errors.stored_data import StaleState
from ekiden.core.events import Event
from ekiden.core.runs import Run, RunStarted
from tests.support.proxy import Proxy
from tests.support.relay_team import relay_team
from tests.support.server_thread import server_in_thread
from tests.support.serving import application, served


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    store = str(tmp_path / "s.db")
    async with application(tmp_path, team=relay_team(), store=store) as app, served(app) as url:
        yield url


@pytest.fixture
async def client(url: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(url, backoff_s=0.001) as client:
        yield client


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("plain")
    with (
        server_in_thread(folder, store=str(folder / "s.db"), team=relay_team()) as url,
        Client(url) as client,
    ):
        yield client


async def test_a_run_is_streamed_with_its_deltas(client: AsyncClient) -> None:
    found = [each async for each in client.runs.stream("hello there", session_id="a")]
    assert found[0] == RunStarted(run_id="a:1", session_id="a")
    assert "".join(each.text for each in found if isinstance(each, ModelDelta)) == (
        "you said: hello there"
    )
    run = found[-1]
    assert isinstance(run, Run)
    assert (run.status, run.output, run.chain) == (
        "done",
        "you said: hello there",
        ("user", "triage", "desk"),
    )
    again = [each async for each in client.runs.follow("a:1", after=3)]
    events = [each.seq for each in found if isinstance(each, Event)]
    assert [each.seq for each in again if isinstance(each, Event)] == events[3:]


async def test_a_waiting_run_continues_after_the_answer(client: AsyncClient) -> None:
    run = await client.runs.run("refund please", session_id="b")
    assert run.status == "waiting"
    (item_id,) = run.questions
    item = await client.inbox.get(item_id)
    assert [each.id async for each in client.inbox.list(session="b")] == [item_id]
    assert (await client.inbox.assign(item_id, "ann")).assignee == "ann"
    with pytest.raises(PreconditionFailed):
        await client.inbox.answer(item_id, "approve", expected_version=item.version)
    done = await client.inbox.answer(item_id, item.options[0])
    assert done.status == "answered"
    with pytest.raises(InboxItemClosed) as caught:
        await client.inbox.answer(item_id, item.options[0])
    assert caught.value.by == "local"
    last = [each async for each in client.runs.follow("b:1", until="outcome")][-1]
    assert isinstance(last, Run)
    assert last.output == "1042 is paid back"


async def test_a_run_is_started_awaited_and_cancelled(client: AsyncClient) -> None:
    run = await client.runs.start("hi", session_id="c")
    assert (await client.runs.wait(run.run_id)).status == "done"
    assert (await client.runs.cancel(run.run_id)).status == "done"
    before = await client.sessions.get("c")
    with pytest.raises(UserError, match="nothing to resume"):
        await client.runs.resume("c")
    assert await client.sessions.get("c") == before


async def test_sessions_are_listed_forked_and_deleted(client: AsyncClient) -> None:
    await client.runs.run("hi", session_id="s", user_id="ann", title="about hi")
    details = await client.sessions.get("s")
    assert (details.agent, details.user_id, details.meta["title"]) == ("desk", "ann", "about hi")
    events = [each async for each in client.sessions.events("s", types=["handoff"])]
    assert {each.event.type for each in events} == {"handoff"}
    assert [item async for item in client.sessions.items("s")]
    assert (await client.sessions.chain("s")).chain == ("user", "triage", "desk")
    assert [hit.session_id async for hit in client.sessions.search("about")] == ["s"]
    fork = await client.sessions.fork("s", session_id="t")
    assert (fork.session_id, fork.forked_from) == ("t", "s")
    assert (await client.sessions.rewind("t", to=1)).undone
    document = await client.sessions.export("s")
    made = await client.sessions.import_(document, id="u", user="bob")
    assert (made.session_id, made.user_id) == ("u", "bob")
    assert (await client.sessions.prune(keep=1, dry_run=True)).sessions
    await client.sessions.delete("u")
    with pytest.raises(SessionNotFound, match="'u'"):
        await client.sessions.get("u")


async def test_a_session_is_watched_across_runs(client: AsyncClient) -> None:
    await client.runs.run("one", session_id="w")
    async with client.runs.follow_session("w") as shown:
        first = await anext(shown)
        assert isinstance(first, Event)
        await client.runs.run("two", session_id="w")
        async for each in shown:
            if isinstance(each, Event) and each.items and "two" in str(each.items):
                break


async def test_handoffs_agents_routes_and_plans_are_read(client: AsyncClient) -> None:
    await client.runs.run("hi", session_id="h")
    found = [each async for each in client.handoffs.list(session="h")]
    assert [(each.source, each.target) for each in found] == [("triage", "desk")]
    assert (await client.handoffs.get(found[0].id)).status == "completed"
    assert [each async for each in client.handoffs.history("desk", since="7d")]
    with pytest.raises(HandoffNotFound):
        await client.handoffs.get("nope")
    end = await client.handoffs.start("h", to="triage", reason="back")
    assert end.session_id == "h"
    told = await client.handoffs.initiate("triage", "desk", "task-1")
    assert told.target_agent_id == "desk"
    assert [each.name async for each in client.agents.list()] == ["desk", "triage"]
    assert (await client.agents.get("desk")).kind == "model"
    with pytest.raises(UnknownAgent):
        await client.agents.get("nobody")
    assert [each.agent async for each in client.agents.ps()][:2] == ["desk", "triage"]
    assert [each async for each in client.agents.match(["x"])] == []
    assert [each async for each in client.agents.deadlocks()] == []
    assert (await client.agents.route("@billing hi")).agent == "billing"
    assert (await client.plans.preview("hi")).tasks
    assert [each async for each in client.plans.tasks()] == []


async def test_state_and_memory_are_read_and_written(client: AsyncClient) -> None:
    await client.runs.run("hi", session_id="v")
    version = (await client.state.update_session("v", {"a": 1})).version
    assert (await client.state.session("v")).variables["a"] == 1
    with pytest.raises(StaleState):
        await client.state.update_session("v", {"a": 2}, expected_version=version - 1)
    assert (await client.state.update_user("ann", {"x": 1})).versions == {"x": 1}
    assert (await client.state.user("ann")).variables["x"].value == 1
    key = (await client.memory.store("likes blue", metadata={"n": 1}, user="ann")).key
    assert (await client.memory.get(key, user="ann")).content == "likes blue"
    assert (await client.memory.search("blue", user="ann")).items[0].key == key
    assert [each.key async for each in client.memory.export(user="ann")] == [key]
    await client.memory.forget(key, user="ann")
    with pytest.raises(MemoryNotFound):
        await client.memory.get(key, user="ann")
    assert (await client.memory.clear(shared=True)).forgotten == 0
    assert (await client.memory.sync()).items == ()


async def test_audit_traces_costs_and_settings_are_read(client: AsyncClient) -> None:
    await client.runs.run("hi", session_id="x")
    records = [each async for each in client.audit.list(session="x", oldest_first=True)]
    assert records[0].source == "triage"
    assert [each async for each in client.audit.get(records[0].id)] == records[:1]
    lines = [line async for line in client.audit.export(session="x")]
    verified = await client.audit.verify(against="\n".join(lines))
    assert verified.ok
    assert verified.compared == len(lines) - 1
    assert (await client.traces.get("x")).spans
    assert [each async for each in client.traces.spans("x", kinds=["run"])]
    assert [line async for line in client.traces.export("x")]
    assert (await client.costs.get(by=["agent"])).by == ("agent",)
    assert (await client.settings.get("app")).key == "app"
    assert "store" in [each.key async for each in client.settings.list()]


async def test_messages_and_collaborations_are_read(client: AsyncClient) -> None:
    assert [each async for each in client.messages.list(agent="desk")] == []
    assert [each async for each in client.collaborations.list(agent="desk")] == []
    with pytest.raises(EkidenError):
        await client.messages.get("nope")
    with pytest.raises(EkidenError):
        await client.collaborations.get("nope")


async def test_keys_are_created_used_and_revoked(client: AsyncClient, url: str) -> None:
    key = await client.keys.create("root", scopes=["admin"])
    assert key.key not in repr(key)
    with pytest.raises(Unauthenticated):
        await client.sessions.list().page()
    async with AsyncClient(url, api_key=key.key) as known:
        other = await known.keys.create("reader", scopes=["read"], expires_s=3600)
        assert [each.name async for each in known.keys.list()] == ["root", "reader"]
        assert (await known.keys.revoke(other.id)).status == "revoked"
        async with AsyncClient(url, api_key=other.key) as gone:
            with pytest.raises(Unauthenticated):
                await gone.sessions.get("s")
            with pytest.raises(Unauthenticated):
                await anext(gone.events.subscribe())


async def test_events_arrive_live_and_a_subscription_can_be_resumed(client: AsyncClient) -> None:
    async with client.events.subscribe(sessions=["e"]) as live:
        begin = await anext(live)
        assert isinstance(begin, Position)
        await client.runs.run("refund", session_id="e")
        found: list[LiveEvent] = []
        async for each in live:
            assert isinstance(each, LiveEvent)
            found.append(each)
            if each.type == "inbox.new_item":
                break
    assert [each.event.seq for each in found] == list(range(1, len(found) + 1))
    rest = [
        each
        async for each in client.events.subscribe(sessions=["e"], after=found[1].id, follow=False)
    ]
    assert [each.id for each in rest if isinstance(each, LiveEvent)][: len(found) - 2] == [
        each.id for each in found[2:]
    ]
    assert isinstance(rest[-1], Position)
    inbox = [each async for each in client.events.subscribe(inbox=True, after="", follow=False)]
    assert {each.type for each in inbox if isinstance(each, LiveEvent)} == {"inbox.new_item"}


async def test_an_invalid_subscription_cursor_is_refused(client: AsyncClient) -> None:
    with pytest.raises(UserError, match="not the id of an event"):
        [each async for each in client.events.subscribe(after="nonsense")]


@pytest.mark.parametrize("after", range(0, 12, 2))
async def test_a_run_stream_resumes_after_a_lost_connection(url: str, after: int) -> None:
    async with Proxy(url) as proxy:
        through = f"http://127.0.0.1:{proxy.port}"
        async with AsyncClient(through, backoff_s=0.001) as client:
            proxy.strike("lose_answer", after=after)
            found = [each async for each in client.runs.stream("hello there", session_id="p")]
    events = [each.seq for each in found if isinstance(each, Event)]
    assert events == list(range(1, len(events) + 1))
    assert isinstance(found[-1], Run)
    assert found[-1].run_id == "p:1"


async def test_an_event_subscription_resumes_after_a_lost_connection(
    url: str, client: AsyncClient
) -> None:
    async with Proxy(url) as proxy:
        through = f"http://127.0.0.1:{proxy.port}"
        async with (
            AsyncClient(through, backoff_s=0.001) as watcher,
            watcher.events.subscribe(sessions=["q"]) as live,
        ):
            assert isinstance(await anext(live), Position)
            proxy.strike("lose_answer", after=2)
            await client.runs.run("hi", session_id="q")
            run = await client.sessions.get("q")
            numbers = []
            while len(numbers) < run.events:
                each = await anext(live)
                assert isinstance(each, LiveEvent)
                numbers.append(each.event.seq)
    assert numbers == list(range(1, run.events + 1))


async def test_an_unreachable_server_is_an_error() -> None:
    async with AsyncClient("http://127.0.0.1:1", retries=1, backoff_s=0) as client:
        with pytest.raises(ServerUnavailable, match="is unreachable"):
            await client.sessions.get("s")
        with pytest.raises(ServerUnavailable, match="is unreachable"):
            await anext(client.events.subscribe())


def test_the_sync_client_runs_and_streams(plain: Client) -> None:
    run = plain.runs.run("hello", session_id="a")
    assert run.output == "you said: hello"
    with plain.runs.stream("again", session_id="a") as shown:
        assert isinstance(list(shown)[-1], Run)
    assert [each.session_id for each in plain.sessions.list()] == ["a"]
    assert [
        each.session_id for each in plain.sessions.list(state=["idle", "failed"], text="A")
    ] == ["a"]
    assert not list(plain.sessions.list(state=["working"]))
    assert not list(plain.sessions.list(text="nobody's"))
    assert plain.sessions.list().page(limit=1).items[0].events == plain.sessions.get("a").events
    with pytest.raises(SessionNotFound):
        plain.sessions.get("nope")


def test_the_sync_client_reads_audit_and_settings(plain: Client) -> None:
    plain.runs.run("hi", session_id="plain")
    records = list(plain.audit.list(session="plain", oldest_first=True))
    assert list(plain.audit.get(records[0].id)) == records[:1]
    lines = list(plain.audit.export(session="plain"))
    assert len(lines) == len(records) + 1
    assert plain.audit.verify(against="\n".join(lines)).compared == len(records)
    assert next(plain.audit.export()).startswith("{")
    assert plain.settings.get("app") in list(plain.settings.list())
    with pytest.raises(NotServed, match="no mirror"):
        plain.mirror.status()


async def test_the_sync_client_works_beside_an_event_loop(plain: Client) -> None:
    runs = await asyncio.gather(
        *(asyncio.to_thread(plain.runs.run, f"n {number}") for number in range(8))
    )
    assert {run.output for run in runs} == {f"you said: n {number}" for number in range(8)}


async def test_variables_are_passed_in_every_way_to_start_a_run(
    client: AsyncClient,
) -> None:
    given = {"tier": "gold", "run:n": 1}
    await client.runs.run("hello", session_id="a", variables=given)
    async for _ in client.runs.stream("hello", session_id="b", variables=given):
        pass
    await client.runs.wait(
        (await client.runs.start("hello", session_id="c", variables=given)).run_id
    )
    for session in "abc":
        assert (await client.state.session(session)).variables == given
    with pytest.raises(UserError, match="is not the session's"):
        await client.runs.run("hello", session_id="d", variables={"app:x": 1})
