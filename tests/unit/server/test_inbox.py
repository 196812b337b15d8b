"""`/inbox` over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ekiden import Agent, Team, function_tool
from ekiden.core.questions import InboxItem
from ekiden.testing import ScriptedModel, call, say
from tests.support.serving import client_of, served
from tests.unit.server.counters import done
from tests.unit.server.desks import API, As, Served, problem, serving


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A server with the demo team."""
    async with serving(tmp_path, monkeypatch) as found:
        yield found


async def ask(desk: Served, name: str = "q1", **fields: Any) -> InboxItem:
    """Put a question before people."""
    given: dict[str, Any] = {
        "id": name,
        "kind": "approval",
        "from_agent": "销售",
        "subject": "15 % for 山田 🎉?",
        "options": ("yes", "no"),
    }
    return await (await desk.tenant_service()).inbox.post(InboxItem(**(given | fields)))


async def confirm(desk: Served, name: str = "c1", **fields: Any) -> InboxItem:
    """Ask whether a tool may run."""
    given: dict[str, Any] = {
        "kind": "confirmation",
        "options": ("approve", "reject"),
        "tool": "refund",
        "arguments": '{"amount": 5}',
    }
    return await ask(desk, name, **(given | fields))


async def test_inbox_items_equal_the_output_of_the_command(desk: Served) -> None:
    await ask(desk, "q1", context={"客户": [1, None]}, deadline_us=4_000_000_000_000_000)
    await confirm(desk, "c1", priority=4, role="经理")
    listed = await desk.get("/inbox")
    assert [each["id"] for each in listed["items"]] == ["c1", "q1"]
    assert listed["items"] == await desk.command("inbox", "list")
    assert await desk.get("/inbox/q1") == await desk.command("inbox", "show", "q1")


async def test_inbox_filters_equal_those_of_the_command(desk: Served) -> None:
    await ask(desk, "q1", assignee="安娜")
    await confirm(desk, "c1", priority=4, role="经理", session_id="s-1")
    for query, expected in {
        "role=经理": ["c1"],
        "assignee=安娜": ["q1"],
        "assignee=": ["c1"],
        "kind=confirmation": ["c1"],
        "agent=销售&priority=urgent": ["c1"],
        "session=s-1": ["c1"],
        "text=山田": ["c1", "q1"],
        "status=answered": [],
        "status=any&limit=1": ["c1"],
    }.items():
        found = await desk.get(f"/inbox?{query}")
        assert [each["id"] for each in found["items"]] == expected, query
    assert [each["id"] for each in await desk.pages("/inbox", limit=1)] == ["c1", "q1"]


async def test_an_answer_is_stored_with_its_author_and_channel(desk: Served) -> None:
    await ask(desk)
    told = done(await desk("POST", "/inbox/q1/answer", {"choice": "YES", "text": "好"}))
    assert (told["status"], told["closed_by"]) == ("answered", "local")
    answer = told["answer"]
    assert (answer["choice"], answer["text"], answer["via"]) == ("yes", "好", "http")
    assert await desk.get("/inbox/q1") == told


async def test_of_concurrent_answers_one_wins_and_the_others_learn_who(
    desk: Served,
) -> None:
    await ask(desk)
    names = [f"人{number}" for number in range(8)]
    answers = await asyncio.gather(
        *(desk("POST", "/inbox/q1/answer", {"choice": "yes", "by": name}) for name in names)
    )
    [won] = [each.json() for each in answers if each.status_code == 200]
    for each in answers:
        if each.status_code != 200:
            told = problem(each, 409, "inbox.closed")
            assert (told["closed_by"], told["status_of_item"]) == (won["closed_by"], "answered")


async def test_an_answer_with_a_stale_etag_is_refused(desk: Served) -> None:
    await ask(desk)
    seen = (await desk("GET", "/inbox/q1")).headers["etag"]
    changed = await desk("POST", "/inbox/q1/assign", {"assignee": "安娜"})
    assert changed.headers["etag"] != seen
    body = {"choice": "yes"}
    stale = await desk("POST", "/inbox/q1/answer", body, headers={"If-Match": seen})
    problem(stale, 412, "request.stale")
    fresh = {"If-Match": f'"other", {changed.headers["etag"]}'}
    done(await desk("POST", "/inbox/q1/answer", body, headers=fresh))
    problem(await desk("POST", "/inbox/q1/answer", body, headers=fresh), 409)
    await ask(desk, "q2")
    done(await desk("POST", "/inbox/q2/answer", body, headers={"If-Match": "*"}))


async def test_an_invalid_answer_with_a_valid_etag_is_a_client_error(desk: Served) -> None:
    await ask(desk)
    seen = {"If-Match": (await desk("GET", "/inbox/q1")).headers["etag"]}
    problem(await desk("POST", "/inbox/q1/answer", {"choice": "x"}, headers=seen), 422)


async def test_edited_arguments_must_be_confirmed(desk: Served) -> None:
    await confirm(desk)
    edited = {"choice": "approve", "arguments": {"amount": 7}}
    problem(await desk("POST", "/inbox/c1/answer", edited), 422, "inbox.answer_invalid")
    told = done(await desk("POST", "/inbox/c1/answer", {**edited, "confirm_edit": True}))
    assert json.loads(told["answer"]["arguments"]) == {"amount": 7}
    await confirm(desk, "c2")
    as_text = {"choice": "approve", "arguments": '{"amount": 5}', "always": True}
    told = done(await desk("POST", "/inbox/c2/answer", as_text))
    assert (told["answer"]["arguments"], told["answer"]["always"]) == (None, True)


async def test_identical_inbox_items_are_answered_together(desk: Served) -> None:
    for name in ("c1", "c2", "c3"):
        await confirm(desk, name)
    await confirm(desk, "c4", arguments='{"amount": 6}')
    told = done(await desk("POST", "/inbox/c2/answer", {"choice": "reject", "identical": True}))
    assert (sorted(told["answered"]), told["closed"]) == (["c1", "c2", "c3"], 0)
    assert [each["id"] for each in (await desk.get("/inbox"))["items"]] == ["c4"]


async def test_an_inbox_item_is_assigned_snoozed_and_cancelled(desk: Served) -> None:
    await ask(desk)
    assert done(await desk("POST", "/inbox/q1/assign", {"assignee": "安娜"}))["assignee"] == "安娜"
    assert done(await desk("POST", "/inbox/q1/assign", {"assignee": None}))["assignee"] is None
    done(await desk("POST", "/inbox/q1/snooze", {"for_s": 3600}))
    assert (await desk.get("/inbox"))["items"] == []
    assert len((await desk.get("/inbox?snoozed=true"))["items"]) == 1
    gone = done(await desk("POST", "/inbox/q1/cancel", {"reason": "不用了", "by": "安娜"}))
    assert (gone["status"], gone["reason"], gone["closed_by"]) == ("cancelled", "不用了", "安娜")
    problem(await desk("POST", "/inbox/q1/cancel"), 409, "inbox.closed")
    problem(await desk("POST", "/inbox/q1/answer", {"choice": "yes"}), 409, "inbox.closed")


async def test_an_invalid_answer_is_refused_and_the_item_stays_open(desk: Served) -> None:
    await ask(desk)
    wrong: dict[str, tuple[Any, ...]] = {
        "answer": (
            {},
            {"choice": "maybe"},
            {"choice": "yes", "always": True},
            {"choice": "yes", "arguments": "{}"},
            {"choice": "yes", "arguments": [1]},
            {"choice": "yes", "by": "nobody"},
            {"choice": "yes", "by": " "},
            {"choice": "yes", "unknown": 1},
            {"text": "x" * 100_001},
        ),
        "assign": ({}, {"assignee": ""}, {"assignee": "a\nb"}, {"assignee": 5}),
        "snooze": ({}, {"for_s": 0}, {"for_s": 5, "until_us": 5}, {"until_us": 5}),
        "cancel": ({"reason": "x" * 2001}, {"reason": None}, []),
    }
    for name, bodies in wrong.items():
        for body in bodies:
            problem(await desk("POST", f"/inbox/q1/{name}", body), 422)
        if bodies[0] != {}:
            continue
        problem(await desk("POST", f"/inbox/none/{name}", bodies[0] | _GOOD[name]), 404)
    for query in ("status=x", "kind=x", "priority=5", "limit=0", "cursor=x", "snoozed=x"):
        problem(await desk("GET", f"/inbox?{query}"), 422)
    assert (await desk.get("/inbox/q1"))["status"] == "open"


_GOOD: dict[str, dict[str, Any]] = {
    "answer": {"choice": "yes"},
    "assign": {"assignee": "ada"},
    "snooze": {"for_s": 5},
}


async def test_answering_needs_the_scope_and_the_callers_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, monkeypatch, gate=As("read", "answer")) as desk:
        await ask(desk)
        for name, body in _GOOD.items():
            other = {**body, "by": "bob"}
            problem(await desk("POST", f"/inbox/q1/{name}", other), 403, "auth.scope")
        problem(await desk("POST", "/inbox/q1/cancel", {"by": "bob"}), 403, "auth.scope")
        told = done(await desk("POST", "/inbox/q1/answer", {"choice": "no", "by": "ada"}))
        assert told["closed_by"] == "ada"
    async with serving(tmp_path, monkeypatch, gate=As("read", "run")) as desk:
        for name, body in _GOOD.items():
            problem(await desk("POST", f"/inbox/q1/{name}", body), 403, "auth.scope")
        problem(await desk("POST", "/inbox/q1/cancel"), 403, "auth.scope")
    async with serving(tmp_path, monkeypatch, gate=As("answer")) as desk:
        problem(await desk("GET", "/inbox"), 403)


def approving_team(run_meanwhile: Any) -> Team:
    """An agent one of whose tools people must allow, and the other of which does something."""

    @function_tool(confirmation=True)
    def refund(amount: int) -> str:
        """Give money back."""
        return f"{amount} paid"

    @function_tool
    async def meddle() -> str:
        """Try something."""
        return str(await run_meanwhile())

    model = ScriptedModel([call("refund", amount=5), say("退款完成")])
    meddler = ScriptedModel([call("meddle"), say("tried")])
    return Team(
        Agent("会计", model=model, tools=[refund]),
        Agent("meddler", model=meddler, tools=[meddle]),
    )


async def test_an_approval_resumes_the_run_and_cannot_be_given_by_an_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[httpx2.Response] = []

    async def meddle() -> int:
        async with client_of(found.app) as own:
            path = f"{API}/inbox/{item['id']}/answer"
            tried.append(await own.post(path, json={"choice": item["options"][0]}))
        return tried[0].status_code

    team = approving_team(meddle)
    async with serving(tmp_path, monkeypatch, team=team) as found:
        run = await found.ask("refund please", session_id="s", agent="会计")
        assert run["status"] == "waiting"
        [item] = (await found.get("/inbox?agent=会计"))["items"]
        assert run["questions"] == [item["id"]]
        await found.ask("help it", session_id="m", agent="meddler")
        problem(tried[0], 403, "inbox.forbidden")
        async with (
            served(found.app) as address,
            httpx2.AsyncClient(base_url=address, timeout=60) as person,
        ):
            body = {"choice": item["options"][0]}
            done(await person.post(f"{API}/inbox/{item['id']}/answer", json=body))
        runs = (await found.tenant_service()).runs
        ended = await runs.wait(run["run_id"], timeout_s=60)
        assert (ended.status, ended.output) == ("done", "退款完成")
