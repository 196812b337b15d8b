"""AG-UI over a real socket; every event is read with the protocol's own types."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from ag_ui.core import (
    CustomEvent,
    Event,
    EventType,
    ResumeEntry,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    TextMessageContentEvent,
    ToolCallResultEvent,
    UserMessage,
)
from fastapi import FastAPI
from pydantic import TypeAdapter

from ekiden.project.service import TenantService
from tests.support.relay_team import REFUNDS, relay_team
from tests.support.serving import application, served

EVENT: TypeAdapter[Any] = TypeAdapter(Event)


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[FastAPI]:
    REFUNDS.clear()
    async with application(tmp_path, team=relay_team(), store=str(tmp_path / "s.db")) as app:
        yield app


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    async with (
        served(app) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as client,
    ):
        yield client


def given(text: str | None = None, **more: Any) -> RunAgentInput:
    messages = [] if text is None else [UserMessage(id="u1", content=text)]
    fields: dict[str, Any] = {
        "thread_id": "thread",
        "run_id": "run",
        "messages": messages,
        "tools": [],
        "context": [],
        "forwarded_props": {},
        **more,
    }
    return RunAgentInput(**fields)


async def run(client: httpx2.AsyncClient, sent: RunAgentInput) -> list[Any]:
    body = sent.model_dump_json(by_alias=True)
    headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
    async with client.stream("POST", "/api/v1/agui", content=body, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line async for line in response.aiter_lines()]
    found = [EVENT.validate_json(line[6:]) for line in lines if line.startswith("data: ")]
    check_order(found)
    return found


def check_order(events: list[Any]) -> None:
    """What clients of the protocol insist on."""
    assert events[0].type == EventType.RUN_STARTED
    assert events[-1].type in (EventType.RUN_FINISHED, EventType.RUN_ERROR)
    steps: list[str] = []
    open_messages: set[str] = set()
    for event in events:
        match event.type:
            case EventType.STEP_STARTED:
                steps.append(event.step_name)
            case EventType.STEP_FINISHED:
                steps.remove(event.step_name)
            case EventType.TEXT_MESSAGE_START:
                open_messages.add(event.message_id)
            case EventType.TEXT_MESSAGE_CONTENT:
                assert event.message_id in open_messages
            case EventType.TEXT_MESSAGE_END:
                open_messages.remove(event.message_id)
    assert steps == []
    assert open_messages == set()


def said(events: list[Any]) -> str:
    return "".join(event.delta for event in events if isinstance(event, TextMessageContentEvent))


def kinds(events: list[Any]) -> list[str]:
    return [event.type.value for event in events]


async def test_an_agui_run_shows_a_handoff(client: httpx2.AsyncClient) -> None:
    events = await run(client, given("hello there"))
    assert said(events) == "you said: hello there"
    last = events[-1]
    assert isinstance(last, RunFinishedEvent)
    assert (last.thread_id, last.run_id) == ("thread", "run")
    assert isinstance(last.outcome, RunFinishedSuccessOutcome)
    assert last.result == "you said: hello there"
    assert kinds(events)[:4] == ["RUN_STARTED", "CUSTOM", "STATE_SNAPSHOT", "STEP_STARTED"]
    assert "TOOL_CALL_START" in kinds(events)
    moves = [event.value for event in events if isinstance(event, CustomEvent)]
    assert {"agent": "triage", "id": "thread.h1", "from": "triage", "to": "desk"}.items() <= moves[
        1
    ].items()


async def test_an_approval_is_an_interrupt_that_resume_answers(
    client: httpx2.AsyncClient,
) -> None:
    events = await run(client, given("refund it"))
    last = events[-1]
    assert isinstance(last, RunFinishedEvent)
    assert isinstance(last.outcome, RunFinishedInterruptOutcome)
    [waits] = last.outcome.interrupts
    assert (waits.reason, waits.tool_call_id) == ("tool_call", "c2")
    assert waits.response_schema is not None
    assert waits.response_schema["required"] == ["approved"]
    assert REFUNDS == []
    resume = [ResumeEntry(interrupt_id=waits.id, status="resolved", payload={"approved": True})]
    events = await run(client, given(run_id="run-2", resume=resume))
    assert said(events) == "1042 is paid back"
    assert [event.content for event in events if isinstance(event, ToolCallResultEvent)] == [
        "1042 is paid back"
    ]
    assert events[-1].run_id == "run-2"
    assert REFUNDS == ["1042"]
    events = await run(client, given("thanks"))
    assert said(events) == "you said: thanks"


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"status": "resolved", "payload": False}, "the person refused"),
        ({"status": "resolved", "payload": "reject"}, "the person refused"),
        ({"status": "resolved", "payload": {"approved": False, "reason": "不"}}, "refused: 不"),
        ({"status": "resolved", "payload": {"choice": "reject", "text": "no"}}, "refused: no"),
        ({"status": "cancelled"}, "The tool was not run"),
    ],
)
async def test_a_rejection_can_take_several_forms(
    client: httpx2.AsyncClient, entry: dict[str, Any], words: str
) -> None:
    waits = (await run(client, given("refund it")))[-1].outcome.interrupts[0]
    resume = [ResumeEntry(interrupt_id=waits.id, **entry)]
    assert words in said(await run(client, given(resume=resume)))
    assert REFUNDS == []


async def test_arguments_can_be_edited(client: httpx2.AsyncClient) -> None:
    waits = (await run(client, given("refund it")))[-1].outcome.interrupts[0]
    payload = {"approved": True, "editedArgs": {"order": "1043"}}
    resume = [ResumeEntry(interrupt_id=waits.id, status="resolved", payload=payload)]
    await run(client, given(resume=resume))
    assert REFUNDS == ["1043"]


async def test_a_new_thread_receives_the_history_and_the_context(
    client: httpx2.AsyncClient, app: FastAPI
) -> None:
    messages = [
        {"id": "1", "role": "system", "content": "be brief"},
        {"id": "2", "role": "user", "content": "hello"},
        {"id": "3", "role": "assistant", "content": "you said: hello"},
        {"id": "4", "role": "tool", "content": "x", "toolCallId": "c9"},
        {"id": "5", "role": "user", "content": [{"type": "text", "text": "again"}]},
    ]
    context = [{"description": "page", "value": "orders"}]
    events = await run(client, given(messages=messages, context=context))
    assert said(events) == "you said: again"
    desk: TenantService = await app.state.service.tenant_service()
    first = (await desk.store.events("thread"))[0]
    assert [item["role"] for item in first.items] == [
        "developer",
        "system",
        "user",
        "assistant",
        "user",
    ]


async def test_a_running_run_is_shown_to_a_reconnecting_client(
    client: httpx2.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELAY_FOLDER", str(tmp_path))
    body = json.loads(given("hold:go now").model_dump_json(by_alias=True))
    async with client.stream("POST", "/api/v1/agui", json=body) as response:
        assert response.headers["X-Ekiden-Run"] == "thread:1"
        await anext(response.aiter_lines())
    nothing_new = {"threadId": "thread", "runId": "again", "messages": []}
    async with client.stream("POST", "/api/v1/agui", json=nothing_new) as response:
        (tmp_path / "go").touch()
        lines = [line async for line in response.aiter_lines()]
    events = [EVENT.validate_json(line[6:]) for line in lines if line.startswith("data: ")]
    check_order(events)
    assert said(events) == "you said: hold:go now"
    over = await client.post("/api/v1/agui", json=nothing_new)
    assert (over.status_code, over.json()["code"]) == (422, "request.invalid")


async def test_a_failure_is_a_run_error(client: httpx2.AsyncClient) -> None:
    events = await run(client, given("hold:x"))  # There is no folder to look for files in.
    assert isinstance(events[-1], RunErrorEvent)
    assert events[-1].code == "run.failed"


UNREADABLE: list[tuple[dict[str, Any], int]] = [
    ({}, 422),
    ({"threadId": "t"}, 422),
    ({"threadId": "a/b", "runId": "r", "messages": []}, 422),
    ({"threadId": "t", "runId": "r", "messages": [{"role": "user", "content": " "}]}, 422),
    ({"threadId": "t", "runId": "r", "messages": [{"role": "user", "content": [1]}]}, 422),
    ({"threadId": "t", "runId": "r", "messages": [{"role": "robot", "content": "x"}]}, 422),
    ({"threadId": "t", "runId": "r", "messages": [{"role": "system"}]}, 422),
    ({"threadId": "t", "runId": "r", "resume": [{"interruptId": "x", "status": "?"}]}, 422),
    (
        {"threadId": "t", "runId": "r", "resume": [{"interruptId": "x", "status": "resolved"}]},
        422,
    ),
    (
        {
            "threadId": "t",
            "runId": "r",
            "messages": [{"role": "user", "content": "x"}],
            "forwardedProps": {"agent": "nobody"},
        },
        404,
    ),
]


async def test_an_unreadable_request_is_a_problem(client: httpx2.AsyncClient) -> None:
    for body, status in UNREADABLE:
        answer = await client.post("/api/v1/agui", json=body)
        assert answer.status_code == status, body
        assert answer.headers["content-type"] == "application/problem+json"


async def test_an_answer_that_fits_no_interrupt_is_a_problem(client: httpx2.AsyncClient) -> None:
    waits = (await run(client, given("refund it")))[-1].outcome.interrupts[0]
    for entry, status in (
        ({"interruptId": "inb_none", "status": "resolved", "payload": True}, 404),
        ({"interruptId": waits.id, "status": "resolved", "payload": 7}, 422),
        ({"interruptId": waits.id, "status": "resolved", "payload": "perhaps"}, 422),
        ({"interruptId": waits.id, "status": "resolved"}, 422),
    ):
        body = {"threadId": "thread", "runId": "r", "resume": [entry]}
        answer = await client.post("/api/v1/agui", json=body)
        assert answer.status_code == status, answer.text
    await run(client, given("hello", thread_id="other"))
    entry = {"interruptId": waits.id, "status": "resolved", "payload": True}
    body = {"threadId": "other", "runId": "r", "resume": [entry]}
    assert (await client.post("/api/v1/agui", json=body)).status_code == 422
    assert REFUNDS == []
