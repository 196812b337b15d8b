"""The tools of the MCP server, their arguments, and one call: progress, cancellation, its run."""

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
from ekiden.core.errors.server import Forbidden
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

_MAX_TEXT = 1_000_000

SessionId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=128,
        pattern=SESSION_ID,
        description="The session's id, as ask_team and list_sessions give it.",
    ),
]
RunId = Annotated[
    str, Field(min_length=3, max_length=140, description="The run's id: SESSION:NUMBER.")
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
Limit = Annotated[int, Field(ge=1, le=200, description="How many at most.")]
Cursor = Annotated[str | None, Field(max_length=500, description="next_cursor of the page before.")]


class ToolArguments(BaseModel):
    """What one tool takes; anything else is refused."""

    model_config = ConfigDict(extra="forbid")


class ListAgents(ToolArguments):
    """Nothing."""


class RouteArguments(ToolArguments):
    """A request to be routed."""

    input: Said
    strategy: Annotated[
        Literal["rule", "semantic", "llm", "hybrid"] | None,
        Field(description="The routing strategy. Default: the setting `agents.routing.strategy`."),
    ] = None


class AskTeam(ToolArguments):
    """Something new for the team."""

    input: Said
    agent: Annotated[
        str | None,
        Field(
            max_length=200,
            description='Who is to take it; "auto" lets the router decide; else the team\'s entry.',
        ),
    ] = None
    title: Annotated[str | None, Field(max_length=500, description="For lists.")] = None
    user_id: Annotated[
        str | None, Field(max_length=500, description="Whose conversation it is.")
    ] = None
    wait_s: Wait = 120


class ContinueSession(ToolArguments):
    """Something more in a session."""

    session_id: SessionId
    input: Said
    agent: Annotated[
        str | None,
        Field(
            max_length=200,
            description="The agent to take it; by default the one that has the session.",
        ),
    ] = None
    wait_s: Wait = 120


class GetRun(ToolArguments):
    """A run, perhaps once it is over."""

    run_id: RunId
    wait_s: Wait = 0


class CancelRun(ToolArguments):
    """A run to be stopped."""

    run_id: RunId


class ListSessions(ToolArguments):
    """Which sessions."""

    agent: Annotated[
        str | None, Field(max_length=200, description="Only those that this agent has.")
    ] = None
    status: Annotated[
        Literal["idle", "ready", "waiting"] | None, Field(description="Only those so.")
    ] = None
    limit: Limit = 20
    cursor: Cursor = None


class GetSession(ToolArguments):
    """A session with the end of its conversation."""

    session_id: SessionId
    last: Annotated[
        int, Field(ge=1, le=1000, description="How many items of the conversation, from its end.")
    ] = 50


class ListInbox(ToolArguments):
    """Which questions to people."""

    session_id: Annotated[
        str | None, Field(max_length=128, description="Only what this session waits for.")
    ] = None
    role: Annotated[str | None, Field(max_length=200, description="Only for this role.")] = None
    limit: Limit = 20
    cursor: Cursor = None


class AnswerInbox(ToolArguments):
    """A person's decision."""

    item_id: Annotated[str, Field(min_length=1, max_length=128, description="As list_inbox gives.")]
    choice: Annotated[
        str | None,
        Field(max_length=1000, description="One of the item's options, if it has any."),
    ] = None
    text: Annotated[
        str, Field(max_length=100_000, description="In the person's words; needed without options.")
    ] = ""
    seen_version: Annotated[
        int | None,
        Field(ge=0, description="The item's version that the person saw; another is refused."),
    ] = None
    wait_s: Wait = 120


class HandOver(ToolArguments):
    """A session for another agent."""

    session_id: SessionId
    to: Annotated[AgentName, Field(description="Who gets it.")]
    reason: Annotated[str, Field(max_length=2000, description="Why; shown to people.")] = ""
    summary: Annotated[
        str, Field(max_length=20_000, description="What the new agent should know.")
    ] = ""
    wait_s: Wait = 120


async def list_agents(tool_call: ToolCallRequest, given: ListAgents) -> dict[str, Any]:
    """Who is in the team."""
    shown = [agent for agent in tool_call.desk.team if agent.scope != "system"]
    return {"items": [to_json(agent_summary(tool_call.service.project, agent)) for agent in shown]}


async def route(tool_call: ToolCallRequest, given: RouteArguments) -> dict[str, Any]:
    """Who would get a request."""
    address = AddressedMessage(text=given.input, to=None, strategy=given.strategy)
    return (await decide(tool_call.service.project, address)).to_json()


async def ask_team(tool_call: ToolCallRequest, given: AskTeam) -> dict[str, Any]:
    """Begin a session."""
    order = RunOrder(input=given.input, to=given.agent, title=given.title, user_id=given.user_id)
    return await followed(tool_call, await begin_run(tool_call.desk, order), wait_s=given.wait_s)


async def continue_session(tool_call: ToolCallRequest, given: ContinueSession) -> dict[str, Any]:
    """Say something more."""
    await tool_call.desk.store.get(given.session_id)
    order = RunOrder(input=given.input, session_id=given.session_id, to=given.agent)
    return await followed(tool_call, await begin_run(tool_call.desk, order), wait_s=given.wait_s)


async def get_run(tool_call: ToolCallRequest, given: GetRun) -> dict[str, Any]:
    """A run as it stands; it goes on whatever becomes of this call."""
    run = await tool_call.desk.runs.read(given.run_id)
    if not given.wait_s:
        return await run_result(tool_call.desk, run)
    place = await last_event(tool_call.desk, run.session_id)
    joined = await join_run(tool_call.desk, given.run_id, after=place)
    return await followed(tool_call, joined, wait_s=given.wait_s, is_ours=False)


async def cancel_run(tool_call: ToolCallRequest, given: CancelRun) -> dict[str, Any]:
    """Stop a run."""
    return await run_result(tool_call.desk, await tool_call.desk.runs.cancel(given.run_id))


async def list_sessions(tool_call: ToolCallRequest, given: ListSessions) -> dict[str, Any]:
    """Sessions, newest first."""
    where = SessionFilter(status=given.status, agent=given.agent)
    page = await tool_call.desk.store.list(where, limit=given.limit, cursor=given.cursor)
    return {
        "items": [to_json(summary_of(row)) for row in page.sessions],
        "next_cursor": page.next_cursor,
    }


async def get_session(tool_call: ToolCallRequest, given: GetSession) -> dict[str, Any]:
    """A session with the end of its conversation."""
    store = tool_call.desk.store
    row = await store.get(given.session_id)
    record = to_json(details_of(row, await store.events(given.session_id)))
    items = record["items"]
    return {**record, "items": items[-given.last :], "items_before": len(items[: -given.last])}


async def list_inbox(tool_call: ToolCallRequest, given: ListInbox) -> dict[str, Any]:
    """What waits for people, the most urgent first."""
    query = InboxQuery(session_id=given.session_id, role=given.role)
    page = await tool_call.desk.inbox.list(query, limit=given.limit, cursor=given.cursor)
    return {"items": [to_json(item) for item in page.items], "next_cursor": page.next_cursor}


async def answer_inbox(tool_call: ToolCallRequest, given: AnswerInbox) -> dict[str, Any]:
    """Decide in the name of the caller; then wait for the run that waited for it."""
    desk = tool_call.desk
    item = await desk.inbox.get(given.item_id)
    place = 0 if item.session_id is None else await last_event(desk, item.session_id)
    item = await desk.inbox.answer(
        given.item_id,
        by=tool_call.name,
        choice=given.choice,
        text=given.text,
        seen_version=given.seen_version,
        via="mcp",
    )
    run = None
    if item.session_id is not None and not item.notice:
        row = await desk.store.get(item.session_id)
        joined = await join_run(desk, run_id_of(row.id, run_number(row)), after=place)
        run = await followed(tool_call, joined, wait_s=given.wait_s, is_ours=False)
    return {"item": to_json(item), "run": run}


async def handoff(tool_call: ToolCallRequest, given: HandOver) -> dict[str, Any]:
    """Hand a session to another agent, and wait for what that one says."""
    desk = tool_call.desk
    place = await last_event(desk, given.session_id)
    result = await desk.controller.start(
        given.session_id,
        to=given.to,
        reason=given.reason,
        summary=given.summary,
        by=Actor(kind="program", name=tool_call.name),
        run=False,
    )
    run = None
    if result.error is None:
        row = await desk.store.get(given.session_id)
        joined = await join_run(desk, run_id_of(row.id, run_number(row)), after=place)
        run = await followed(tool_call, joined, wait_s=given.wait_s, is_ours=False)
    end = await end_of(desk.store, given.session_id, result)
    return {"handoff": to_json(end), "run": run}


TellProgress: TypeAlias = Callable[[float, str], Awaitable[None]]
"""Says how far the call is, as a number that grows, and in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """The client of the server."""

    caller: Caller
    may_answer: bool
    """Whether this one may decide what people are asked: not for an agent that calls us."""

    def may(self, scope: Scope) -> bool:
        """Whether a tool that needs the scope is offered."""
        return self.may_answer if scope == "answer" else self.caller.may(scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRequest:
    """One call of one tool."""

    visitor: Visitor
    service: Service
    desk: TenantService
    tell: TellProgress

    @property
    def name(self) -> str:
        """Who calls, for people."""
        return self.visitor.caller.name

    def check(self, scope: Scope) -> None:
        """`Forbidden` without the scope."""
        if not self.visitor.may(scope):
            raise Forbidden(scope)


_log = logging.getLogger("ekiden.integrations.mcp_server")

_STOP_S = 5.0


async def followed(
    tool_call: ToolCallRequest, run: FollowedRun, *, wait_s: float, is_ours: bool = True
) -> dict[str, Any]:
    """The run once it is over or waits for people, or as it stands after `wait_s` seconds.

    If the call is cancelled meanwhile, a run that it began is stopped; it can be gone on with. A
    server that ends leaves it to the next one.
    """
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await _tell(tool_call, run)
    except asyncio.CancelledError:
        if is_ours and not tool_call.service.is_stopping:
            await _stop(tool_call.desk, run.run_id)
        raise
    finally:
        run.close()
    return await run_result(tool_call.desk, await run.read())


async def run_result(desk: TenantService, run: Run) -> dict[str, Any]:
    """A run, with what people are asked in full: `answer_inbox` takes the ids."""
    asked = [to_json(await desk.inbox.get(each)) for each in run.questions]
    return {**to_json(run), "questions": asked}


def words_of(run: dict[str, Any]) -> str | None:
    """A run for whoever reads only text; `None` if it says nothing that the JSON does not."""
    if run["status"] == "done" and isinstance(run["output"], str):
        return str(run["output"])
    if run["questions"]:
        asked = [
            f"- {item['id']}: {item['subject']} ({', '.join(item['options']) or 'in words'})"
            for item in run["questions"]
        ]
        return (
            f"Run {run['run_id']} waits for a person's decision; it continues after an answer in "
            "the inbox:\n" + "\n".join(asked)
        )
    if run["error"] is not None:
        return f"Run {run['run_id']} ended: {run['error']['message']}"
    return None


async def _tell(tool_call: ToolCallRequest, run: FollowedRun) -> None:
    step = 0
    async with aclosing(run.shown()) as stream:
        async for shown in stream:
            if shown is None or isinstance(shown, ModelDelta):
                continue
            step += 1
            await tool_call.tell(float(step), _told(shown))


def _told(event: Event) -> str:
    if is_transfer(event) and event.details is not None:
        return f"{event.details['from']} handed the conversation to {event.details['to']}"
    if event.type == "tool_call" and event.details is not None:
        return f"{event.agent} used {event.details.get('tool', 'a tool')}"
    return f"{event.agent}: {event.type}" if event.agent else event.type


async def _stop(desk: TenantService, run_id: str) -> None:
    with anyio.move_on_after(_STOP_S, shield=True):
        try:
            await desk.runs.cancel(run_id)
        except EkidenError as exc:
            _log.warning("run %s was given up, but continues: %s", run_id, exc)
