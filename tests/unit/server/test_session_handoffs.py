"""Handing sessions on over HTTP, and answering them as a person."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ekiden.core.current_agent import AGENT_HEADER
from ekiden.core.documents import from_json, to_json
from ekiden.core.runs import Run
from tests.unit.server.counters import counter, done
from tests.unit.server.desks import As, Served, problem


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A server of a team that hands over, with the session `s`, which triage has."""
    async with counter(tmp_path, monkeypatch) as found:
        await found.ask("我要退款 👋", session_id="s")
        yield found


async def to_people(desk: Served) -> None:
    """Hand the session to people."""
    told = done(await desk("POST", "/sessions/s/handoff", {"to": "person:support"}))
    assert told["status"] == "completed", told


async def test_a_session_handoff_returns_the_targets_answer(desk: Served) -> None:
    told = done(
        await desk(
            "POST", "/sessions/s/handoff", {"to": "billing", "reason": "要钱", "summary": "s"}
        )
    )
    assert (told["status"], told["agent"], told["outcome"]) == ("completed", "billing", "done")
    assert told["speaker"] == "billing"
    assert told["output"].endswith("退款👋")
    await desk.ask("more", session_id="z")
    by_command = await desk.command("handoff", "start", "z", "--to", "billing")
    assert told.keys() == by_command.keys()
    same = ("status", "agent", "outcome", "speaker", "output", "source", "target", "error")
    assert {name: told[name] for name in same} == {name: by_command[name] for name in same}


async def test_a_refused_handoff_returns_its_reason_and_changes_nothing(desk: Served) -> None:
    told = done(await desk("POST", "/sessions/s/handoff", {"to": "closed"}))
    assert (told["status"], told["error"]["code"]) == ("failed", "AGENT_UNAVAILABLE")
    assert (told["agent"], told["output"]) == ("triage", None)


async def test_an_unknown_session_or_agent_is_not_found(desk: Served) -> None:
    problem(await desk("POST", "/sessions/none/handoff", {"to": "billing"}), 404)
    told = problem(await desk("POST", "/sessions/s/handoff", {"to": "ghost"}), 404)
    assert told["refusal"] == "AGENT_NOT_FOUND"
    problem(await desk("POST", "/sessions/none/answer", {"text": "hello"}), 404)


async def test_an_invalid_handoff_request_is_refused(desk: Served) -> None:
    to = {"to": "billing"}
    for wrong in ({}, {"to": ""}, {**to, "timeout_s": 0}, {**to, "policy": "x"}, {**to, "x": 1}):
        problem(await desk("POST", "/sessions/s/handoff", wrong), 422)


async def test_a_person_answers_a_session_handed_to_people(desk: Served) -> None:
    await to_people(desk)
    run = done(await desk("POST", "/sessions/s/answer", {"text": "我们会换货。", "by": "安娜"}))
    assert to_json(from_json(Run, run)) == run
    assert (run["status"], run["output"]) == ("done", "我们会换货。")
    items = (await desk.get("/inbox?status=any"))["items"]
    assert [item["closed_by"] for item in items] == ["安娜"]


async def test_an_answer_can_return_the_session_to_the_agent(desk: Served) -> None:
    await to_people(desk)
    run = done(await desk("POST", "/sessions/s/answer", {"text": "you do it", "back": True}))
    assert run["session_id"] == "s"
    assert (await desk.get("/inbox"))["items"] == []


async def test_of_two_simultaneous_answers_one_wins_and_the_other_is_refused(desk: Served) -> None:
    await to_people(desk)
    answers = await asyncio.gather(
        *(
            desk("POST", "/sessions/s/answer", {"text": f"from {name}", "by": name})
            for name in ("ada", "bob", "cid")
        )
    )
    assert [each.status_code for each in answers].count(200) == 1
    for each in answers:
        if each.status_code != 200:
            problem(each, 409)


async def test_a_session_that_does_not_wait_for_a_person_cannot_be_answered(desk: Served) -> None:
    told = problem(
        await desk("POST", "/sessions/s/answer", {"text": "hello"}), 409, "session.not_waiting"
    )
    assert "does not wait for a person" in told["detail"]
    problem(await desk("POST", "/sessions/s/answer", {"text": " "}), 422)
    problem(await desk("POST", "/sessions/s/answer", {}), 422)
    await to_people(desk)
    done(await desk("POST", "/sessions/s/answer", {"text": "yes"}))
    problem(await desk("POST", "/sessions/s/answer", {"text": "again"}), 409)


async def test_calling_agents_cannot_answer_for_people(desk: Served) -> None:
    await to_people(desk)
    headers = {AGENT_HEADER: "triage"}
    refused = await desk("POST", "/sessions/s/answer", {"text": "yes"}, headers=headers)
    problem(refused, 403, "inbox.forbidden")
    [item] = (await desk.get("/inbox"))["items"]
    refused = await desk(
        "POST", f"/inbox/{item['id']}/answer", {"choice": "answer", "text": "x"}, headers=headers
    )
    problem(refused, 403, "inbox.forbidden")


async def test_only_an_administrator_can_answer_under_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with counter(tmp_path, monkeypatch, gate=As("read", "run", "answer")) as desk:
        await desk.ask("hi", session_id="s")
        await to_people(desk)
        body = {"text": "yes", "by": "bob"}
        problem(await desk("POST", "/sessions/s/answer", body), 403, "auth.scope")
        done(await desk("POST", "/sessions/s/answer", {"text": "yes", "by": "ada"}))
    async with counter(tmp_path, monkeypatch, gate=As("read", "run")) as desk:
        problem(await desk("POST", "/sessions/s/answer", {"text": "yes"}), 403, "auth.scope")
