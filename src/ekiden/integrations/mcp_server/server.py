"""The MCP server, and serving it over the standard streams."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from mcp import MCPError
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)
from pydantic import ValidationError

from ekiden import __version__
from ekiden.core.current_agent import acting_agent
from ekiden.core.errors import EkidenError
from ekiden.core.errors.server import RequestInvalid
from ekiden.core.values import dumps
from ekiden.integrations.mcp_server import tools
from ekiden.integrations.mcp_server.tools import ToolCallRequest, Visitor, words_of
from ekiden.project.service import Service
from ekiden.server.access.access import Caller, Scope
from ekiden.server.problems import words_for

_log = logging.getLogger("ekiden.integrations.mcp_server")

Context: TypeAlias = ServerRequestContext[Any, Any]
FindVisitor: TypeAlias = Callable[[Context], Awaitable[Visitor]]
"""Who makes a request."""

_INSTRUCTIONS = (
    "A team of agents that hand work to each other durably. ask_team starts a conversation, "
    "continue_session continues one. A run with the status waiting needs a person's "
    "decision: show the person its questions; answer_inbox passes on what the person "
    "decided. A run with the status running continues by itself: get_run waits for it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """A tool."""

    name: str
    title: str
    about: str
    """For models: what it does, and when to use it."""
    scope: Scope
    takes: type[tools.ToolArguments]
    call: Callable[[ToolCallRequest, Any], Awaitable[dict[str, Any]]]
    gives: Mapping[str, Any] = field(default_factory=lambda: {"type": "object"})
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


OFFERS: Final[tuple[OfferedTool, ...]] = (
    OfferedTool(
        name="ask_team",
        title="Ask the team",
        about="Begin a conversation with the team of agents and wait for the answer. They hand the "
        "work to each other as needed. A status of waiting means that people have to decide "
        "something first: show them `questions`.",
        scope="run",
        takes=tools.AskTeam,
        call=tools.ask_team,
        gives=_RUN,
    ),
    OfferedTool(
        name="continue_session",
        title="Continue a session",
        about="Say something more in a session, and wait for the answer.",
        scope="run",
        takes=tools.ContinueSession,
        call=tools.continue_session,
        gives=_RUN,
    ),
    OfferedTool(
        name="get_run",
        title="Look at a run",
        about="A run's state; with wait_s, once it has ended or waits for people.",
        scope="read",
        takes=tools.GetRun,
        call=tools.get_run,
        gives=_RUN,
        read_only=True,
    ),
    OfferedTool(
        name="cancel_run",
        title="Stop a run",
        about="Stop a run. Its work is kept.",
        scope="run",
        takes=tools.CancelRun,
        call=tools.cancel_run,
        gives=_RUN,
        destructive=True,
        idempotent=True,
    ),
    OfferedTool(
        name="list_sessions",
        title="List sessions",
        about="Conversations with the team, newest first.",
        scope="read",
        takes=tools.ListSessions,
        call=tools.list_sessions,
        gives=_PAGE,
        read_only=True,
    ),
    OfferedTool(
        name="get_session",
        title="Look at a session",
        about="A conversation with its agents, its handoffs and its last messages.",
        scope="read",
        takes=tools.GetSession,
        call=tools.get_session,
        read_only=True,
    ),
    OfferedTool(
        name="list_inbox",
        title="List the inbox",
        about="What agents ask people, the most urgent first.",
        scope="read",
        takes=tools.ListInbox,
        call=tools.list_inbox,
        gives=_PAGE,
        read_only=True,
    ),
    OfferedTool(
        name="answer_inbox",
        title="Answer a question of the inbox",
        about="Pass on a person's decision about an inbox item, once and for good; the waiting "
        "run continues, and its answer is returned. Only ever pass on what a person "
        "decided, never decide yourself.",
        scope="answer",
        takes=tools.AnswerInbox,
        call=tools.answer_inbox,
        gives=_with_run("item"),
        destructive=True,
    ),
    OfferedTool(
        name="handoff",
        title="Hand a session over",
        about="Hand a session to another agent of the team, by a way that its agent has, and wait "
        "for what that one answers.",
        scope="run",
        takes=tools.HandOver,
        call=tools.handoff,
        gives=_with_run("handoff"),
    ),
    OfferedTool(
        name="route",
        title="Find the agent for a request",
        about="Which agent would get a request, and why; nothing is run.",
        scope="run",
        takes=tools.RouteArguments,
        call=tools.route,
        read_only=True,
    ),
    OfferedTool(
        name="list_agents",
        title="List the agents",
        about="The agents of the team, with their descriptions and handoff targets.",
        scope="read",
        takes=tools.ListAgents,
        call=tools.list_agents,
        gives=_PAGE,
        read_only=True,
    ),
)


def make_server(service: Service, visitor: FindVisitor) -> Server[Any]:
    """A server with the tools that the visitor's scopes allow."""

    async def list_tools(
        context: Context, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        who = await visitor(context)
        return ListToolsResult(tools=[_tool(each) for each in OFFERS if who.may(each.scope)])

    async def call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult:
        who = await visitor(context)
        offer = _BY_NAME.get(params.name)
        if offer is None:
            known = ", ".join(_BY_NAME)
            raise MCPError(
                INVALID_PARAMS, f"no tool is called {params.name[:80]!r}; known: {known}"
            )

        async def tell(step: float, words: str) -> None:
            await context.session.report_progress(step, None, words)

        desk = await service.tenant_service(who.caller.tenant)
        tool_call = ToolCallRequest(visitor=who, service=service, desk=desk, tell=tell)
        return await _called(offer, tool_call, params.arguments or {})

    return Server(
        "ekiden",
        version=__version__,
        title="Ekiden",
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


_BY_NAME = {offer.name: offer for offer in OFFERS}


def _tool(offer: OfferedTool) -> Tool:
    return Tool(
        name=offer.name,
        title=offer.title,
        description=offer.about,
        input_schema=offer.takes.model_json_schema(),
        output_schema=dict(offer.gives),
        annotations=ToolAnnotations(
            title=offer.title,
            read_only_hint=offer.read_only,
            destructive_hint=offer.destructive,
            idempotent_hint=offer.idempotent or offer.read_only,
            open_world_hint=not offer.read_only,
        ),
    )


async def _called(
    offer: OfferedTool, tool_call: ToolCallRequest, given: dict[str, Any]
) -> CallToolResult:
    try:
        tool_call.check(offer.scope)
        result = await offer.call(tool_call, _parsed(offer, given))
    except EkidenError as exc:
        return _failed(exc.code, words_for(exc))
    except Exception:
        _log.exception("the tool %s failed", offer.name)
        return _failed("server.internal", "a mistake in Ekiden; the server's log says more")
    return CallToolResult(content=[_text(_words(result))], structured_content=result)


def _parsed(offer: OfferedTool, given: dict[str, Any]) -> Any:
    try:
        return offer.takes.model_validate(given)
    except ValidationError as exc:
        first = exc.errors()[0]
        where = ".".join(map(str, first["loc"])) or "arguments"
        raise RequestInvalid(f"{where}: {first['msg']}") from exc


def _words(result: dict[str, Any]) -> str:
    # A session tells the id of its run, too; only a run has questions.
    run = result if "questions" in result else result.get("run")
    said = words_of(run) if isinstance(run, dict) else None
    return dumps(result) if said is None else said


def _failed(code: str, message: str) -> CallToolResult:
    facts = {"error": {"code": code, "message": message}}
    return CallToolResult(
        content=[_text(f"{code}: {message}")], structured_content=facts, is_error=True
    )


def _text(text: str) -> TextContent:
    return TextContent(type="text", text=text.encode("utf-8", "replace").decode("utf-8"))


async def serve_stdio(service: Service, caller: Caller) -> None:
    """Serve until the client closes standard input.

    A client that is an agent of ours, here or in a process above, is not offered to decide what
    people are asked.
    """
    visitor = Visitor(caller=caller, may_answer=caller.may("answer") and acting_agent() is None)

    async def find(context: Context) -> Visitor:
        return visitor

    server = make_server(service, find)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
