"""The MCP server: listing and calling tools, and stdio."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

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
from ekiden.integrations.mcp_server.calls import McpClient, ToolCallRequest, text_of_run
from ekiden.integrations.mcp_server.tools import OFFERS, OfferedTool
from ekiden.project.service import Service
from ekiden.server.access.access import Caller
from ekiden.server.problems import words_for

_log = logging.getLogger("ekiden.integrations.mcp_server")

Context: TypeAlias = ServerRequestContext[Any, Any]
FindClient: TypeAlias = Callable[[Context], Awaitable[McpClient]]
"""A function that returns the client that sent a request."""

_INSTRUCTIONS = (
    "A team of agents that hand work to each other durably. ask_team starts a conversation, "
    "continue_session continues one. A run with the status waiting needs a person's "
    "decision: show the person its questions; answer_inbox passes on what the person "
    "decided. A run with the status running continues by itself: get_run waits for it."
)


def make_server(service: Service, find_client: FindClient) -> Server[Any]:
    """Create a server. Each client sees only the tools that its scopes allow."""

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
