"""The tools of the MCP server: arguments, calls, progress and cancellation."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

import anyio
from pydantic import BaseModel, ConfigDict, Field

from ekiden.api.local.agents import summary_of as agent_summary
from ekiden.api.local.handoffs import end_of
from ekiden.api.local.sessions import details_of, summary_of
from ekiden.api.methods.values import SESSION_ID
from ekiden.core.conversation.model import ModelDelta
from ekiden.core.documents import to_json
from ekiden.core.errors import EkidenError
from ekiden.core.events import Event
from ekiden.core.handoffs.request import Actor
from ekiden.core.runs import Run, run_id_of
from ekiden.inbox import InboxQuery
from ekiden.project.routing import AddressedMessage, decide
from ekiden.project.runs.tasks import RunOrder
from ekiden.project.service import Service, TenantService
from ekiden.server.access.access import Caller, Scope
from ekiden.server.streams.follow import FollowedRun, begin_run, join_run, last_event
from ekiden.sessions import is_transfer
from ekiden.sessions.progress import run_number
from ekiden.storage.base import SessionFilter

_log = logging.getLogger("ekiden.integrations.mcp_server")

_MAX_TEXT = 1_000_000
_STOP_S = 5.0

SessionId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=128,
        pattern=SESSION_ID,
        description="The id of the session, as ask_team and list_sessions return it.",
    ),
]
RunId = Annotated[
    str, Field(min_length=3, max_length=140, description="The id of the run: SESSION:NUMBER.")
]
Said = Annotated[
    str, Field(min_length=1, max_length=_MAX_TEXT, description="The message, in plain words.")
]
AgentName = Annotated[str, Field(min_length=1, max_length=200)]
Wait = Annotated[
    float,
    Field(
        ge=0,
        le=3600,
        description="Seconds to wait for the answer; the run continues afterwards, and get_run "
        "waits for it.",
    ),
]
Limit = Annotated[int, Field(ge=1, le=200, description="The maximum number of items.")]
Cursor = Annotated[
    str | None, Field(max_length=500, description="next_cursor of the previous page.")
]


class ToolArguments(BaseModel):
    """The arguments of a tool; unknown arguments are refused."""

    model_config = ConfigDict(extra="forbid")


class ListAgents(ToolArguments):
    """No arguments."""


class RouteArguments(ToolArguments):
    """The request to route."""

    input: Said
    strategy: Annotated[
        Literal["rule", "semantic", "llm", "hybrid"] | None,
        Field(description="The routing strategy. Default: the setting `agents.routing.strategy`."),
    ] = None


class AskTeam(ToolArguments):
    """A message for a new session."""

    input: Said
    agent: Annotated[
        str | None,
        Field(
            max_length=200,
            description='The agent that gets the message; "auto": the router decides. Default: the '
            "team's entry agent.",
        ),
    ] = None
    title: Annotated[
        str | None, Field(max_length=500, description="The title of the session, for lists.")
    ] = None
    user_id: Annotated[
        str | None, Field(max_length=500, description="The user of the session.")
    ] = None
    wait_s: Wait = 120


class ContinueSession(ToolArguments):
    """A message for an existing session."""

    session_id: SessionId
    input: Said
    agent: Annotated[
        str | None,
        Field(
            max_length=200,
            description="The agent that gets the message. Default: the session's active agent.",
        ),
    ] = None
    wait_s: Wait = 120


class GetRun(ToolArguments):
    """The run to get."""

    run_id: RunId
    wait_s: Wait = 0


class CancelRun(ToolArguments):
    """The run to stop."""

    run_id: RunId


class ListSessions(ToolArguments):
    """A filter for sessions."""

    agent: Annotated[
        str | None, Field(max_length=200, description="Only sessions with this active agent.")
    ] = None
    status: Annotated[
        Literal["idle", "ready", "waiting"] | None,
        Field(description="Only sessions with this status."),
    ] = None
    limit: Limit = 20
    cursor: Cursor = None


class GetSession(ToolArguments):
    """The session to get."""

    session_id: SessionId
    last: Annotated[
        int, Field(ge=1, le=1000, description="The number of conversation items from the end.")
    ] = 50


class ListInbox(ToolArguments):
    """A filter for inbox items."""

    session_id: Annotated[
        str | None, Field(max_length=128, description="Only questions of this session.")
    ] = None
    role: Annotated[
        str | None, Field(max_length=200, description="Only questions for this role.")
    ] = None
    limit: Limit = 20
    cursor: Cursor = None


class AnswerInbox(ToolArguments):
    """A person's decision."""

    item_id: Annotated[
        str,
        Field(
            min_length=1,
            max_length=128,
            description="The id of the inbox item, as list_inbox returns it.",
        ),
    ]
    choice: Annotated[
        str | None,
        Field(max_length=1000, description="One of the item's options, if it has any."),
    ] = None
    text: Annotated[
        str,
        Field(
            max_length=100_000,
            description="The answer in the person's words; required for an item without options.",
        ),
    ] = ""
    seen_version: Annotated[
        int | None,
        Field(
            ge=0,
            description="The version of the item that the person saw. If the item has changed "
            "since, the answer is refused.",
        ),
    ] = None
    wait_s: Wait = 120


class HandOver(ToolArguments):
    """A handoff of a session."""

    session_id: SessionId
    to: Annotated[AgentName, Field(description="The target agent.")]
    reason: Annotated[
        str, Field(max_length=2000, description="The reason, which is shown to people.")
    ] = ""
    summary: Annotated[
        str, Field(max_length=20_000, description="What the new agent should know.")
    ] = ""
    wait_s: Wait = 120


async def list_agents(tool_call: ToolCallRequest, given: ListAgents) -> dict[str, Any]:
    """The agents of the team."""
    shown = [agent for agent in tool_call.tenant.team if agent.scope != "system"]
    return {"items": [to_json(agent_summary(tool_call.service.project, agent)) for agent in shown]}


async def route(tool_call: ToolCallRequest, given: RouteArguments) -> dict[str, Any]:
    """The agent that would get a request."""
    address = AddressedMessage(text=given.input, to=None, strategy=given.strategy)
    return (await decide(tool_call.service.project, address)).to_json()


async def ask_team(tool_call: ToolCallRequest, given: AskTeam) -> dict[str, Any]:
    """Start a session, and wait for the answer."""
    order = RunOrder(input=given.input, to=given.agent, title=given.title, user_id=given.user_id)
    return await _wait(tool_call, await begin_run(tool_call.tenant, order), wait_s=given.wait_s)


async def continue_session(tool_call: ToolCallRequest, given: ContinueSession) -> dict[str, Any]:
    """Send a message to a session, and wait for the answer."""
    await tool_call.tenant.store.get(given.session_id)
    order = RunOrder(input=given.input, session_id=given.session_id, to=given.agent)
    return await _wait(tool_call, await begin_run(tool_call.tenant, order), wait_s=given.wait_s)


async def get_run(tool_call: ToolCallRequest, given: GetRun) -> dict[str, Any]:
    """A run in its current state, or after waiting for it."""
    run = await tool_call.tenant.runs.read(given.run_id)
    if not given.wait_s:
        return await _run_result(tool_call.tenant, run)
    after = await last_event(tool_call.tenant, run.session_id)
    joined = await join_run(tool_call.tenant, given.run_id, after=after)
    return await _wait(tool_call, joined, wait_s=given.wait_s, stop_on_cancel=False)


async def cancel_run(tool_call: ToolCallRequest, given: CancelRun) -> dict[str, Any]:
    """Stop a run."""
    return await _run_result(tool_call.tenant, await tool_call.tenant.runs.cancel(given.run_id))


async def list_sessions(tool_call: ToolCallRequest, given: ListSessions) -> dict[str, Any]:
    """Sessions, newest first."""
    where = SessionFilter(status=given.status, agent=given.agent)
    page = await tool_call.tenant.store.list(where, limit=given.limit, cursor=given.cursor)
    return {
        "items": [to_json(summary_of(row)) for row in page.sessions],
        "next_cursor": page.next_cursor,
    }


async def get_session(tool_call: ToolCallRequest, given: GetSession) -> dict[str, Any]:
    """A session with the end of its conversation."""
    store = tool_call.tenant.store
    row = await store.get(given.session_id)
    record = to_json(details_of(row, await store.events(given.session_id)))
    items = record["items"]
    return {**record, "items": items[-given.last :], "items_before": len(items[: -given.last])}


async def list_inbox(tool_call: ToolCallRequest, given: ListInbox) -> dict[str, Any]:
    """Questions to people, the most urgent first."""
    query = InboxQuery(session_id=given.session_id, role=given.role)
    page = await tool_call.tenant.inbox.list(query, limit=given.limit, cursor=given.cursor)
    return {"items": [to_json(item) for item in page.items], "next_cursor": page.next_cursor}


async def answer_inbox(tool_call: ToolCallRequest, given: AnswerInbox) -> dict[str, Any]:
    """Answer a question in the name of the caller, and wait for the run that resumes."""
    tenant = tool_call.tenant
    item = await tenant.inbox.get(given.item_id)
    after = 0 if item.session_id is None else await last_event(tenant, item.session_id)
    item = await tenant.inbox.answer(
        given.item_id,
        by=tool_call.client.caller.name,
        choice=given.choice,
        text=given.text,
        seen_version=given.seen_version,
        via="mcp",
    )
    run = None
    if item.session_id is not None and not item.notice:
        run = await _wait_for_last_run(tool_call, item.session_id, after, given.wait_s)
    return {"item": to_json(item), "run": run}


async def handoff(tool_call: ToolCallRequest, given: HandOver) -> dict[str, Any]:
    """Hand a session to another agent, and wait for the answer."""
    tenant = tool_call.tenant
    after = await last_event(tenant, given.session_id)
    result = await tenant.controller.start(
        given.session_id,
        to=given.to,
        reason=given.reason,
        summary=given.summary,
        by=Actor(kind="program", name=tool_call.client.caller.name),
        run=False,
    )
    run = None
    if result.error is None:
        run = await _wait_for_last_run(tool_call, given.session_id, after, given.wait_s)
    end = await end_of(tenant.store, given.session_id, result)
    return {"handoff": to_json(end), "run": run}


ReportProgress: TypeAlias = Callable[[float, str], Awaitable[None]]
"""Reports the progress of a call, as a growing number and a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpClient:
    """A client of the MCP server."""

    caller: Caller
    may_answer: bool
    """Whether the client may answer questions to people; agents may not."""

    def may(self, scope: Scope) -> bool:
        """Whether a tool that needs the scope is offered."""
        return self.may_answer if scope == "answer" else self.caller.may(scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRequest:
    """One call of one tool."""

    client: McpClient
    service: Service
    tenant: TenantService
    report: ReportProgress


async def _wait_for_last_run(
    tool_call: ToolCallRequest, session_id: str, after: int, wait_s: float
) -> dict[str, Any]:
    row = await tool_call.tenant.store.get(session_id)
    run_id = run_id_of(row.id, run_number(row))
    joined = await join_run(tool_call.tenant, run_id, after=after)
    return await _wait(tool_call, joined, wait_s=wait_s, stop_on_cancel=False)


async def _wait(
    tool_call: ToolCallRequest, run: FollowedRun, *, wait_s: float, stop_on_cancel: bool = True
) -> dict[str, Any]:
    """Wait at most `wait_s` seconds until the run has ended or waits for people.

    With `stop_on_cancel` a cancelled call stops the run, which can be resumed. If the server is
    stopping, the run continues on the next server instead.
    """
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await _report(tool_call, run)
    except asyncio.CancelledError:
        if stop_on_cancel and not tool_call.service.is_stopping:
            await _stop(tool_call.tenant, run.run_id)
        raise
    finally:
        run.close()
    return await _run_result(tool_call.tenant, await run.read())


async def _run_result(tenant: TenantService, run: Run) -> dict[str, Any]:
    """The run with its whole questions instead of their ids."""
    questions = [to_json(await tenant.inbox.get(each)) for each in run.questions]
    return {**to_json(run), "questions": questions}


def text_of_run(run: dict[str, Any]) -> str | None:
    """The run as text, for clients that show only text. `None`: the JSON is as good."""
    if run["status"] == "done" and isinstance(run["output"], str):
        return str(run["output"])
    if run["questions"]:
        questions = [
            f"- {item['id']}: {item['subject']} ({', '.join(item['options']) or 'in words'})"
            for item in run["questions"]
        ]
        return (
            f"Run {run['run_id']} waits for a person's decision; it continues after an answer in "
            "the inbox:\n" + "\n".join(questions)
        )
    if run["error"] is not None:
        return f"Run {run['run_id']} ended: {run['error']['message']}"
    return None


async def _report(tool_call: ToolCallRequest, run: FollowedRun) -> None:
    step = 0
    async with aclosing(run.shown()) as stream:
        async for shown in stream:
            if shown is None or isinstance(shown, ModelDelta):
                continue
            step += 1
            await tool_call.report(float(step), _progress_text(shown))


def _progress_text(event: Event) -> str:
    if is_transfer(event) and event.details is not None:
        return f"{event.details['from']} handed the conversation to {event.details['to']}"
    if event.type == "tool_call" and event.details is not None:
        return f"{event.agent} used {event.details.get('tool', 'a tool')}"
    return f"{event.agent}: {event.type}" if event.agent else event.type


async def _stop(tenant: TenantService, run_id: str) -> None:
    # The call is cancelled: without the shield, the first await here would be cancelled, too.
    with anyio.move_on_after(_STOP_S, shield=True):
        try:
            await tenant.runs.cancel(run_id)
        except EkidenError as exc:
            _log.warning("run %s was given up, but continues: %s", run_id, exc)
