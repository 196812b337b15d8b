"""The MCP server: its list of tools, the calls, and stdio."""

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
from ekiden.core.errors.server import Forbidden, RequestInvalid
from ekiden.core.values import dumps
from ekiden.integrations.mcp_server import tools
from ekiden.integrations.mcp_server.tools import McpClient, ToolCallRequest, text_of_run
from ekiden.project.service import Service
from ekiden.server.access.access import Caller, Scope
from ekiden.server.problems import words_for

_log = logging.getLogger("ekiden.integrations.mcp_server")

Context: TypeAlias = ServerRequestContext[Any, Any]
FindClient: TypeAlias = Callable[[Context], Awaitable[McpClient]]
"""Returns the client that sends a request."""

_INSTRUCTIONS = (
    "A team of agents that hand work to each other durably. ask_team starts a conversation, "
    "continue_session continues one. A run with the status waiting needs a person's "
    "decision: show the person its questions; answer_inbox passes on what the person "
    "decided. A run with the status running continues by itself: get_run waits for it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """A tool of the MCP server."""

    name: str
    title: str
    description: str
    """For models: what the tool does, and when to use it."""
    scope: Scope
    """The scope that the client's key needs."""
    arguments: type[tools.ToolArguments]
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


OFFERS: Final[tuple[OfferedTool, ...]] = (
    OfferedTool(
        name="ask_team",
        title="Ask the team",
        description="Begin a conversation with the team of agents and wait for the answer. They "
        "hand the work to each other as needed. A status of waiting means that people have to "
        "decide something first: show them `questions`.",
        scope="run",
        arguments=tools.AskTeam,
        call=tools.ask_team,
        result=_RUN,
    ),
    OfferedTool(
        name="continue_session",
        title="Continue a session",
        description="Say something more in a session, and wait for the answer.",
        scope="run",
        arguments=tools.ContinueSession,
        call=tools.continue_session,
        result=_RUN,
    ),
    OfferedTool(
        name="get_run",
        title="Look at a run",
        description="Get a run. With wait_s, wait until it has ended or waits for people.",
        scope="read",
        arguments=tools.GetRun,
        call=tools.get_run,
        result=_RUN,
        read_only=True,
    ),
    OfferedTool(
        name="cancel_run",
        title="Stop a run",
        description="Stop a run. Its work is kept.",
        scope="run",
        arguments=tools.CancelRun,
        call=tools.cancel_run,
        result=_RUN,
        destructive=True,
        idempotent=True,
    ),
    OfferedTool(
        name="list_sessions",
        title="List sessions",
        description="Conversations with the team, newest first.",
        scope="read",
        arguments=tools.ListSessions,
        call=tools.list_sessions,
        result=_PAGE,
        read_only=True,
    ),
    OfferedTool(
        name="get_session",
        title="Look at a session",
        description="A conversation with its agents, its handoffs and its last messages.",
        scope="read",
        arguments=tools.GetSession,
        call=tools.get_session,
        read_only=True,
    ),
    OfferedTool(
        name="list_inbox",
        title="List the inbox",
        description="Questions of agents to people, the most urgent first.",
        scope="read",
        arguments=tools.ListInbox,
        call=tools.list_inbox,
        result=_PAGE,
        read_only=True,
    ),
    OfferedTool(
        name="answer_inbox",
        title="Answer a question of the inbox",
        description="Pass on a person's final decision about an inbox item; the waiting run "
        "continues, and its answer is returned. Only ever pass on what a person decided, never "
        "decide yourself.",
        scope="answer",
        arguments=tools.AnswerInbox,
        call=tools.answer_inbox,
        result=_with_run("item"),
        destructive=True,
    ),
    OfferedTool(
        name="handoff",
        title="Hand a session over",
        description="Hand a session to another agent that is a handoff target of its agent, and "
        "wait for the answer.",
        scope="run",
        arguments=tools.HandOver,
        call=tools.handoff,
        result=_with_run("handoff"),
    ),
    OfferedTool(
        name="route",
        title="Find the agent for a request",
        description="Find out which agent would get a request, and why, without running it.",
        scope="run",
        arguments=tools.RouteArguments,
        call=tools.route,
        read_only=True,
    ),
    OfferedTool(
        name="list_agents",
        title="List the agents",
        description="The agents of the team, with their descriptions and handoff targets.",
        scope="read",
        arguments=tools.ListAgents,
        call=tools.list_agents,
        result=_PAGE,
        read_only=True,
    ),
)


def make_server(service: Service, find_client: FindClient) -> Server[Any]:
    """A server whose clients see the tools that their scopes allow."""

    async def list_tools(
        context: Context, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        client = await find_client(context)
        return ListToolsResult(tools=[_tool(each) for each in OFFERS if client.may(each.scope)])

    async def call_tool(context: Context, params: CallToolRequestParams) -> CallToolResult:
        client = await find_client(context)
        offer = _BY_NAME.get(params.name)
        if offer is None:
            known = ", ".join(_BY_NAME)
            raise MCPError(
                INVALID_PARAMS, f"no tool is called {params.name[:80]!r}; known: {known}"
            )

        async def report(step: float, text: str) -> None:
            await context.session.report_progress(step, None, text)

        tenant = await service.tenant_service(client.caller.tenant)
        tool_call = ToolCallRequest(client=client, service=service, tenant=tenant, report=report)
        return await _call(offer, tool_call, params.arguments or {})

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
        description=offer.description,
        input_schema=offer.arguments.model_json_schema(),
        output_schema=dict(offer.result),
        annotations=ToolAnnotations(
            title=offer.title,
            read_only_hint=offer.read_only,
            destructive_hint=offer.destructive,
            idempotent_hint=offer.idempotent or offer.read_only,
            open_world_hint=not offer.read_only,
        ),
    )


async def _call(
    offer: OfferedTool, tool_call: ToolCallRequest, given: dict[str, Any]
) -> CallToolResult:
    try:
        if not tool_call.client.may(offer.scope):
            raise Forbidden(offer.scope)
        result = await offer.call(tool_call, _parsed(offer, given))
    except EkidenError as exc:
        return _failed(exc.code, words_for(exc))
    except Exception:
        _log.exception("the tool %s failed", offer.name)
        return _failed("server.internal", "a mistake in Ekiden; the server's log says more")
    # A session has the id of its run, too; only a run has questions.
    run = result if "questions" in result else result.get("run")
    text = text_of_run(run) if isinstance(run, dict) else None
    content = _text(dumps(result) if text is None else text)
    return CallToolResult(content=[content], structured_content=result)


def _parsed(offer: OfferedTool, given: dict[str, Any]) -> Any:
    try:
        return offer.arguments.model_validate(given)
    except ValidationError as exc:
        first = exc.errors()[0]
        where = ".".join(map(str, first["loc"])) or "arguments"
        raise RequestInvalid(f"{where}: {first['msg']}") from exc


def _failed(code: str, message: str) -> CallToolResult:
    error = {"error": {"code": code, "message": message}}
    return CallToolResult(
        content=[_text(f"{code}: {message}")], structured_content=error, is_error=True
    )


def _text(text: str) -> TextContent:
    return TextContent(type="text", text=text.encode("utf-8", "replace").decode("utf-8"))


async def serve_stdio(service: Service, caller: Caller) -> None:
    """Serve until the client closes standard input.

    If an agent of Ekiden started this process, the tool `answer_inbox` is not offered.
    """
    client = McpClient(caller=caller, may_answer=caller.may("answer") and acting_agent() is None)

    async def find(context: Context) -> McpClient:
        return client

    server = make_server(service, find)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
