"""The MCP server itself, whatever carries it: HTTP or the standard streams."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from mcp import MCPError
from mcp.server import Server
from mcp.server.context import ServerRequestContext
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
from ekiden.app.service import Service
from ekiden.core.errors import EkidenError
from ekiden.core.errors.server import RequestInvalid
from ekiden.core.jsonio import dumps
from ekiden.server.mcp.following import words_of
from ekiden.server.mcp.offers import OFFERS, Offer
from ekiden.server.mcp.visit import Visit, Visitor
from ekiden.server.problems import words_for

_log = logging.getLogger("ekiden.server.mcp")

Context: TypeAlias = ServerRequestContext[Any, Any]
FindVisitor: TypeAlias = Callable[[Context], Awaitable[Visitor]]
"""Who makes a request."""

_INSTRUCTIONS = (
    "A team of agents that hand work to each other durably. ask_team begins a conversation, "
    "continue_session goes on with one. A run with the status waiting needs a person's decision: "
    "show the person its questions; answer_inbox passes on what the person decided. A run with the "
    "status running goes on by itself: get_run waits for it."
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

        desk = await service.desk(who.caller.tenant)
        visit = Visit(visitor=who, service=service, desk=desk, tell=tell)
        return await _called(offer, visit, params.arguments or {})

    return Server(
        "ekiden",
        version=__version__,
        title="Ekiden",
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


_BY_NAME = {offer.name: offer for offer in OFFERS}


def _tool(offer: Offer) -> Tool:
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


async def _called(offer: Offer, visit: Visit, given: dict[str, Any]) -> CallToolResult:
    try:
        visit.check(offer.scope)
        result = await offer.call(visit, _parsed(offer, given))
    except EkidenError as exc:
        return _failed(exc.code, words_for(exc))
    except Exception:
        _log.exception("the tool %s failed", offer.name)
        return _failed("server.internal", "a mistake in Ekiden; the server's log says more")
    return CallToolResult(content=[_text(_words(result))], structured_content=result)


def _parsed(offer: Offer, given: dict[str, Any]) -> Any:
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
