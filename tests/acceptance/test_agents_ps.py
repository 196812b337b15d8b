"""`ekiden agents ps` and `ekiden agents deadlocks` show what any process stored."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from ekiden.bus.deadlocks import break_deadlock
from ekiden.core.conversation.messages import AgentMessage, Letter, agent_queue, node_agent
from ekiden.core.questions import InboxItem
from ekiden.project import open_store
from ekiden.storage.base import DocumentWrite, NewSession, QueuePut, Store
from tests.acceptance.conftest import Project


@pytest.fixture
async def store(project: Project) -> AsyncIterator[Store]:
    """The project's store, as another process has it open."""
    async with open_store(str(project.folder / ".ekiden" / "ekiden.db")) as opened:
        yield opened


async def ask(store: Store, asker: str, target: str, subject: str, session: str = "") -> None:
    """A query that waits for its answer."""
    message = AgentMessage(
        id=f"{asker}>{target}",
        type="query",
        from_agent=node_agent(asker),
        to_agent=node_agent(target),
        subject=subject,
    )
    put = QueuePut(
        queue=agent_queue(node_agent(target)),
        key=message.id,
        body=Letter(message=message, awaits=target).to_json(),
        waiter=asker,
        session_id=session or None,
    )
    await store.put_messages([put])


async def test_ps_shows_waiting_agents_reasons_and_running_agents(
    project: Project, store: Store
) -> None:
    await store.create(NewSession(id="s1", agent="billing", status="waiting"))
    await store.create(NewSession(id="s2", agent="orders", status="waiting"))
    await store.create(NewSession(id="s3", agent="technical", status="ready"))
    await ask(store, "billing#t", "orders#t", "在庫は？", session="s1")
    item = InboxItem(
        kind="approval",
        from_agent="orders",
        subject="20 % discount?",
        role="ceo",
        session_id="s2",
        created_at_us=await store.now_us(),
    )
    await store.write_documents(
        [DocumentWrite(collection="inbox.open", key=item.id, body=item.to_json())]
    )
    await store.claim("s3", owner="worker-1", lease_s=60)
    counts, _, who = project("agents", "ps").out.partition("\n\n")
    assert counts.splitlines()[0].split() == ["agent", "idle", "ready", "waiting", "run", "by"]
    header, *rows = who.splitlines()
    assert header.split() == ["agent", "status", "waits", "for", "why", "since", "session"]
    assert [row.split()[:3] for row in rows] == [
        ["billing", "internal", "orders"],
        ["orders", "user", "person:ceo"],
        ["technical", "none", "at"],
    ]
    assert ("在庫は？" in rows[0], "20 % discount?" in rows[1]) == (True, True)
    assert [row.split()[-1] for row in rows] == ["s1", "s2", "s3"]


@pytest.mark.slow
async def test_ps_as_json_lists_every_wait_and_clear_removes_stale_ones(
    project: Project, store: Store
) -> None:
    await ask(store, "a", "b", "first")
    found = {each["agent"]: each for each in project("agents", "ps", "--json").json}
    [wait] = found["a"]["waits"]
    assert (found["a"]["status"], found["a"]["known"]) == ("internal", False)
    assert (wait["waiting_for"], wait["reason"], wait["message_id"]) == (["b"], "first", "a>b")
    assert {each["status"] for each in found.values() if each["agent"] != "a"} == {"none"}
    await ask(store, "b", "a", "second")
    await break_deadlock(store, "b")
    left = project("agents", "ps", "--json").json
    assert [each["agent"] for each in left if each["waits"]] == ["b"]


@pytest.mark.slow
async def test_deadlocks_are_listed_current_ones_first(project: Project, store: Store) -> None:
    assert project("agents", "deadlocks").out == "no deadlocks\n"
    await ask(store, "pm#1", "sales#1", "data")
    await ask(store, "sales#1", "pm#1", "which?")
    await break_deadlock(store, "sales#1")
    await ask(store, "会计", "会计", "自问")
    header, *rows = project("agents", "deadlocks").out.splitlines()
    assert header.split() == ["found", "cycle", "state", "victim", "policy", "given", "up"]
    assert [row.split()[2:] for row in rows] == [
        ["会计", "→", "会计", "present"],
        ["pm", "→", "sales", "→", "pm", "resolved", "pm", "longest", "pm#1>sales#1"],
    ]
    present, past = project("agents", "deadlocks", "--json").json
    assert (present["resolved"], present["victim"], present["cycle"]) == (
        False, None, ["会计", "会计"],
    )  # fmt: skip
    assert (past["resolved"], past["given_up"]) == (True, ["pm#1>sales#1"])


@pytest.mark.slow
async def test_deadlocks_are_listed_in_pages(project: Project, store: Store) -> None:
    for name in "abc":
        await ask(store, name, name, "myself")
        await break_deadlock(store, name)
    first = project("agents", "deadlocks", "--json", "--limit", "2")
    cursor = json.loads(first.err)["next_cursor"]
    rest = project("agents", "deadlocks", "--json", "--cursor", cursor)
    assert [each["victim"] for each in first.json + rest.json] == ["c", "b", "a"]
    assert rest.err == ""
    assert project("agents", "deadlocks", "--limit", "1").err.startswith("more: --cursor ")


@pytest.mark.slow
def test_without_a_store_no_agent_waits_and_deadlocks_exits_with_7(project: Project) -> None:
    assert {each["status"] for each in project("agents", "ps", "--json").json} == {"none"}
    refused = project("agents", "deadlocks", "--json")
    assert (refused.code, refused.error["code"]) == (7, "store.unavailable")
    assert project("agents", "deadlocks", "--limit", "0").code == 2


@pytest.mark.slow
def test_the_help_describes_what_ps_shows(project: Project) -> None:
    assert "An agent can wait for another agent" in project("agents", "ps", "--help").out
    assert "in a circle" in project("agents", "deadlocks", "--help").out
    overview = project("--help").out
    assert "agents deadlocks" in overview
