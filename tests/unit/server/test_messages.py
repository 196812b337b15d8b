"""`/messages` over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ekiden.core.conversation.messages import AgentMessage, Letter, agent_queue
from ekiden.storage.base import MessageSettle, QueuePut
from tests.unit.server.counters import counter, done, posted, without_workers
from tests.unit.server.desks import As, Served, problem


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A server of a team that hands over."""
    async with counter(tmp_path, monkeypatch) as found:
        yield found


@pytest.fixture
async def idle(tmp_path: Path) -> AsyncIterator[Served]:
    """One without workers."""
    async with without_workers(tmp_path) as found:
        yield found


async def test_a_query_returns_the_answer_of_the_agent(desk: Served) -> None:
    body = {
        "to": "陌生人",
        "subject": "退款?",
        "payload": {"订单": [1042, None]},
        "priority": "high",
    }
    told = done(await desk("POST", "/messages", body))
    assert (told["state"], told["error"]) == ("answered", None)
    assert told["answer"].endswith("退款👋")
    message = told["message"]
    assert (message["from_agent"], message["to_agent"]) == ("caller:local", "陌生人")
    assert (message["payload"], message["priority"]) == (body["payload"], 3)
    assert await desk.get(f"/messages/{message['id']}") == told
    session = await desk.get(f"/sessions/{told['answered_in']}")
    assert (session["agent"], session["outcome"]) == ("陌生人", "done")
    assert "caller:local" in json.dumps(session["items"], ensure_ascii=False)


async def test_a_query_to_a_failing_agent_returns_its_error(desk: Served) -> None:
    told = done(await desk("POST", "/messages", {"to": "broken", "subject": "tear"}))
    assert (told["state"], told["answer"]) == ("failed", None)
    assert "no paper" in told["error"]


async def test_a_notification_is_accepted_without_waiting(idle: Served) -> None:
    told = done(await idle("POST", "/messages", {"to": "billing", "type": "notify"}), 202)
    assert (told["state"], told["message"]["type"]) == ("open", "notify")
    asked = await idle("POST", "/messages", {"to": "billing", "wait_s": 0.05})
    assert done(asked, 202)["state"] == "open"
    sessions = (await idle.get("/sessions?state=working"))["items"]
    assert {each["session_id"] for each in sessions} >= {told["answered_in"]}


async def test_the_location_header_names_a_new_message(idle: Served) -> None:
    stored = await idle("POST", "/messages", {"to": "billing", "type": "notify"})
    found = await idle.client.get(stored.headers["Location"])
    assert found.json() == stored.json()


async def test_a_query_to_a_person_stays_open_until_answered(desk: Served) -> None:
    told = done(await desk("POST", "/messages", {"to": "person:support", "subject": "?"}), 202)
    [item] = (await desk.get("/inbox"))["items"]
    body = {"choice": "answer", "text": "人工回复"}
    done(await desk("POST", f"/inbox/{item['id']}/answer", body))
    store = await desk.store()
    path = f"/messages/{told['message']['id']}"
    while (found := await desk.get(path))["state"] == "open":
        await store.wait_for_change(1.0)
    assert (found["state"], found["answer"]) == ("answered", "人工回复")


async def test_messages_are_listed_by_agent_and_state(idle: Served) -> None:
    desk, store = idle, await idle.store()
    for number, agent in enumerate(("billing", "陌生人", "billing")):
        message = AgentMessage(id=f"m{number}", from_agent="pm", to_agent=agent, type="query")
        await store.put_messages(
            [
                QueuePut(
                    queue=agent_queue(agent),
                    key=message.id,
                    body=Letter(message=message, awaits=agent).to_json(),
                    waiter="pm",
                )
            ]
        )
    await store.put_messages([QueuePut(queue="other", body={}, key="not-a-letter")])
    await store.put_messages([QueuePut(queue=agent_queue("odd"), body=[1], key="odd")])
    await store.settle_messages([MessageSettle(key="m2", state="dead")])

    async def ids(query: str) -> list[str]:
        found = (await desk.get(f"/messages{query}"))["items"]
        return [each["message"]["id"] for each in found]

    assert await ids("") == ["m0", "m1", "m2", "odd"]
    assert await ids("?agent=陌生人") == ["m1"]
    assert await ids("?state=dead") == ["m2"]
    assert await ids("?waiter=pm&agent=billing&state=open") == ["m0"]
    assert await ids("?session=s") == []
    paged = await desk.pages("/messages", limit=1)
    assert [each["message"]["id"] for each in paged] == ["m0", "m1", "m2", "odd"]
    problem(await desk("GET", "/messages/not-a-letter"), 404, "bus.not_found")
    unknown = await desk("POST", "/messages/requeue", {"ids": ["m2", "none"]})
    problem(unknown, 404, "bus.not_found")
    again = done(await desk("POST", "/messages/requeue", {"ids": ["m2", "m0", "m2"]}))
    assert again == {"requeued": 1}
    assert await ids("?state=dead") == []


async def test_an_invalid_message_is_refused_and_not_stored(desk: Served) -> None:
    problem(await desk("POST", "/messages", {"to": "ghost"}), 404, "agent.unknown")
    wrong: list[dict[str, Any]] = [
        {},
        {"to": ""},
        {"to": "billing", "type": "response"},
        {"to": "billing", "subject": "x" * 501},
        {"to": "billing", "subject": "\ud800"},
        {"to": "billing", "payload": float("inf")},
        {"to": "billing", "payload": "x" * 1_000_001},
        {"to": "billing", "priority": 5},
        {"to": "billing", "correlation_id": "a\nb"},
        {"to": "billing", "wait_s": 601},
        {"to": "billing", "from_agent": "triage"},
    ]
    for body in wrong:
        problem(await desk("POST", "/messages", **posted(json.dumps(body))), 422)
    for ids in ([], [""], [1], "m1", ["x"] * 1001):
        problem(await desk("POST", "/messages/requeue", {"ids": ids}), 422)
    for query in ("state=x", "limit=0", "cursor=x", "cursor=-1", "cursor=٣"):
        problem(await desk("GET", f"/messages?{query}"), 422)
    assert (await desk.get("/messages"))["items"] == []
    assert (await desk.get("/sessions"))["items"] == []


async def test_a_full_mailbox_refuses_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EKIDEN_BUS_MAILBOX_BOUND", "1")
    body = {"to": "billing", "type": "notify"}
    async with without_workers(tmp_path) as idle:
        done(await idle("POST", "/messages", body), 202)
        problem(await idle("POST", "/messages", body), 503, "bus.mailbox_full")
        assert len((await idle.get("/sessions"))["items"]) == 1


async def test_payloads_are_returned_unchanged(idle: Served) -> None:
    payload = ["👩‍👩‍👧", 10**30, -0.5, {"": [[]]}, "\x00"]
    body = json.dumps({"to": "billing", "type": "notify", "payload": payload})
    told = done(await idle("POST", "/messages", **posted(body)), 202)
    assert told["message"]["payload"] == payload


async def test_message_routes_need_their_scopes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with counter(tmp_path, monkeypatch, gate=As("read")) as desk:
        problem(await desk("POST", "/messages", {"to": "billing"}), 403, "auth.scope")
        problem(await desk("POST", "/messages/requeue", {"ids": ["x"]}), 403, "auth.scope")
        assert (await desk.get("/messages"))["items"] == []
    async with counter(tmp_path, monkeypatch, gate=As("run", "answer")) as desk:
        problem(await desk("GET", "/messages"), 403)
        problem(await desk("POST", "/messages/requeue", {"ids": ["x"]}), 403)
