"""The tools of the MCP server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from ekiden.api.local.agents import summary_of as agent_summary
from ekiden.api.local.handoffs import end_of
from ekiden.api.local.sessions import details_of, summary_of
from ekiden.api.methods.values import SESSION_ID
from ekiden.core.documents import to_json
from ekiden.core.handoffs import Actor
from ekiden.inbox import InboxQuery
from ekiden.integrations.mcp_server.calls import (
    ToolCallRequest,
    run_result,
    wait_for,
    wait_for_last_run,
)
from ekiden.project.routing import AddressedMessage, decide
from ekiden.project.run_tasks import RunOrder
from ekiden.server.access import Scope
from ekiden.server.streams.follow import begin_run, join_run, last_event
from ekiden.storage.base import SessionFilter

_MAX_TEXT = 1_000_000

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
    """The arguments of a tool. Unknown arguments are refused."""

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
        str | None, Field(max_length=1000, description="One of the item's options, if it has any.")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """A tool of the MCP server."""

    name: str
    title: str
    description: str
    """The description for models: what the tool does, and when to use it."""
    scope: Scope
    """The scope that the client's key needs."""
    arguments: type[ToolArguments]
    call: Callable[[ToolCallRequest, Any], Awaitable[dict[str, Any]]]
    result: Mapping[str, Any] = field(default_factory=lambda: {"type": "object"})
    """The JSON Schema of the result."""
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False


_PAGE: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "items": {"type": "array", "items": {"type": "object"}},
        "next_cursor": {"type": ["string", "null"]},
    },
    "required": ["items"],
}
_RUN: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "run_id": {"type": "string"},
        "session_id": {"type": "string"},
        "status": {
            "enum": [
                *("queued", "running", "waiting", "stopped"),
                *("done", "refused", "failed", "out_of_budget"),
            ]
        },
        "agent": {"type": ["string", "null"]},
        "output": {"description": "The answer, of a run that is done."},
        "chain": {"type": "array", "items": {"type": "string"}},
        "questions": {
            "type": "array",
            "items": {"type": "object"},
            "description": "What people have to decide before it continues.",
        },
        "error": {"type": ["object", "null"]},
    },
    "required": ["run_id", "session_id", "status", "output", "questions"],
}


def _with_run(name: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "object"}, "run": {"anyOf": [_RUN, {"type": "null"}]}},
        "required": [name, "run"],
    }


OFFERS: Final[list[OfferedTool]] = []
"""All tools of the server, in the order in which clients see them."""

_Call = TypeVar("_Call", bound=Callable[[ToolCallRequest, Any], Awaitable[dict[str, Any]]])


def offered(
    title: str, arguments: type[ToolArguments], *, scope: Scope, **options: Any
) -> Callable[[_Call], _Call]:
    """Offer the function as a tool. Its docstring is the description for models."""

    def register(call: _Call) -> _Call:
        tool = OfferedTool(
            name=call.__name__,
            title=title,
            description=" ".join((call.__doc__ or title).split()),
            scope=scope,
            arguments=arguments,
            call=call,
            **options,
        )
        OFFERS.append(tool)
        return call

    return register


@offered("Ask the team", AskTeam, scope="run", result=_RUN)
async def ask_team(tool_call: ToolCallRequest, given: AskTeam) -> dict[str, Any]:
    """Begin a conversation with the team of agents and wait for the answer. The agents hand the
    work to each other as needed. If the status is waiting, people have to decide something first:
    show them the `questions`."""
    order = RunOrder(input=given.input, to=given.agent, title=given.title, user_id=given.user_id)
    return await wait_for(tool_call, await begin_run(tool_call.tenant, order), wait_s=given.wait_s)


@offered("Continue a session", ContinueSession, scope="run", result=_RUN)
async def continue_session(tool_call: ToolCallRequest, given: ContinueSession) -> dict[str, Any]:
    """Send another message in a session, and wait for the answer."""
    await tool_call.tenant.store.get(given.session_id)
    order = RunOrder(input=given.input, session_id=given.session_id, to=given.agent)
    return await wait_for(tool_call, await begin_run(tool_call.tenant, order), wait_s=given.wait_s)


@offered("Look at a run", GetRun, scope="read", result=_RUN, read_only=True)
async def get_run(tool_call: ToolCallRequest, given: GetRun) -> dict[str, Any]:
    """Get a run. With wait_s, wait until it has ended or waits for people."""
    run = await tool_call.tenant.runs.read(given.run_id)
    if not given.wait_s:
        return await run_result(tool_call.tenant, run)
    after = await last_event(tool_call.tenant, run.session_id)
    joined = await join_run(tool_call.tenant, given.run_id, after=after)
    return await wait_for(tool_call, joined, wait_s=given.wait_s, stop_on_cancel=False)


@offered("Stop a run", CancelRun, scope="run", result=_RUN, destructive=True, idempotent=True)
async def cancel_run(tool_call: ToolCallRequest, given: CancelRun) -> dict[str, Any]:
    """Stop a run. Its work is kept."""
    return await run_result(tool_call.tenant, await tool_call.tenant.runs.cancel(given.run_id))


@offered("List sessions", ListSessions, scope="read", result=_PAGE, read_only=True)
async def list_sessions(tool_call: ToolCallRequest, given: ListSessions) -> dict[str, Any]:
    """List conversations with the team, newest first."""
    where = SessionFilter(status=given.status, agent=given.agent)
    page = await tool_call.tenant.store.list(where, limit=given.limit, cursor=given.cursor)
    return {
        "items": [to_json(summary_of(row)) for row in page.sessions],
        "next_cursor": page.next_cursor,
    }


@offered("Look at a session", GetSession, scope="read", read_only=True)
async def get_session(tool_call: ToolCallRequest, given: GetSession) -> dict[str, Any]:
    """Get a conversation with its agents, its handoffs and its last messages."""
    store = tool_call.tenant.store
    row = await store.get(given.session_id)
    record = to_json(details_of(row, await store.events(given.session_id)))
    items = record["items"]
    return {**record, "items": items[-given.last :], "items_before": len(items[: -given.last])}


@offered("List the inbox", ListInbox, scope="read", result=_PAGE, read_only=True)
async def list_inbox(tool_call: ToolCallRequest, given: ListInbox) -> dict[str, Any]:
    """List questions of agents to people, most urgent first."""
    query = InboxQuery(session_id=given.session_id, role=given.role)
    page = await tool_call.tenant.inbox.list(query, limit=given.limit, cursor=given.cursor)
    return {"items": [to_json(item) for item in page.items], "next_cursor": page.next_cursor}


@offered(
    "Answer a question of the inbox",
    AnswerInbox,
    scope="answer",
    result=_with_run("item"),
    destructive=True,
)
async def answer_inbox(tool_call: ToolCallRequest, given: AnswerInbox) -> dict[str, Any]:
    """Pass on a person's final decision about an inbox item. The waiting run continues, and its
    answer is returned. Only pass on what a person decided. Never decide yourself."""
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
        run = await wait_for_last_run(tool_call, item.session_id, after, given.wait_s)
    return {"item": to_json(item), "run": run}


@offered("Hand a session over", HandOver, scope="run", result=_with_run("handoff"))
async def handoff(tool_call: ToolCallRequest, given: HandOver) -> dict[str, Any]:
    """Hand a session to another agent, and wait for the answer. The other agent must be a handoff
    target of the session's agent."""
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
        run = await wait_for_last_run(tool_call, given.session_id, after, given.wait_s)
    end = await end_of(tenant.store, given.session_id, result)
    return {"handoff": to_json(end), "run": run}


@offered("Find the agent for a request", RouteArguments, scope="run", read_only=True)
async def route(tool_call: ToolCallRequest, given: RouteArguments) -> dict[str, Any]:
    """Find out which agent would get a request, and why, without running the request."""
    address = AddressedMessage(text=given.input, to=None, strategy=given.strategy)
    return (await decide(tool_call.service.project, address)).to_json()


@offered("List the agents", ListAgents, scope="read", result=_PAGE, read_only=True)
async def list_agents(tool_call: ToolCallRequest, given: ListAgents) -> dict[str, Any]:
    """List the agents of the team, with their descriptions and handoff targets."""
    shown = [agent for agent in tool_call.tenant.team if agent.scope != "system"]
    return {"items": [to_json(agent_summary(tool_call.service.project, agent)) for agent in shown]}
