"""The routes of A2A: cards, JSON-RPC and HTTP+JSON, for the team and for each agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.server.routes.rest_dispatcher import RestDispatcher
from a2a.types import GetTaskRequest, ListTasksRequest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ekiden.core.errors import UnknownAgent
from ekiden.server.a2a.cards import agent_card, listed, team_card
from ekiden.server.a2a.handler import AGENT, CALLER, DESK, MAY_ANSWER, WAIT_S, TeamHandler
from ekiden.server.a2a.quiet import keep_quiet
from ekiden.server.access.access import Scope, caller_of, needs, service_of
from ekiden.server.access.acting import may_answer
from ekiden.server.middleware.queries import takes_query

CARD: Final = "/.well-known/agent-card.json"
_STARTING: Final = frozenset(
    {"SendMessage", "SendStreamingMessage", "CancelTask"}
    | {"message/send", "message/stream", "tasks/cancel"}
)
"""The methods that need the scope `run`; all others need `read`."""

_IN_QUERY: Final = {
    path: [each.camelcase_name for each in request.fields if each.name != "id"]
    for path, request in (
        ("/tasks/{id}", GetTaskRequest.DESCRIPTOR),
        ("/tasks", ListTasksRequest.DESCRIPTOR),
    )
}
"""What can stand in the query, as the protocol names it."""

Endpoint = Callable[[Request], Awaitable[Response]]


class _Context(DefaultServerCallContextBuilder):
    """Puts into the context of a call what our handler needs."""

    def build(self, request: Request) -> ServerCallContext:
        context = super().build(request)
        context.state |= request.state.a2a
        return context


def add_a2a(app: FastAPI) -> None:
    """Add the routes to the application; they are no part of its OpenAPI document, because the
    protocol has a description of its own: the card."""
    keep_quiet()
    handler = TeamHandler()
    rpc = JsonRpcDispatcher(handler, context_builder=_Context(), enable_v0_3_compat=True)
    rest = RestDispatcher(handler, context_builder=_Context())
    app.add_route(CARD, _team_card, methods=["GET"])
    _add_rest(app, "/a2a", rest)
    app.add_route("/a2a", _over_rpc(rpc), methods=["POST"])
    app.add_route("/a2a/{agent}" + CARD, _agent_card, methods=["GET"])
    _add_rest(app, "/a2a/{agent}", rest)
    app.add_route("/a2a/{agent}", _over_rpc(rpc), methods=["POST"])


def _add_rest(app: FastAPI, base: str, rest: RestDispatcher) -> None:
    routes: tuple[tuple[str, str, Endpoint, Scope], ...] = (
        ("POST", "/message:send", rest.on_message_send, "run"),
        ("POST", "/message:stream", rest.on_message_send_stream, "run"),
        ("POST", "/tasks/{id}:cancel", rest.on_cancel_task, "run"),
        ("GET", "/tasks/{id}:subscribe", rest.on_subscribe_to_task, "read"),
        ("POST", "/tasks/{id}:subscribe", rest.on_subscribe_to_task, "read"),
        ("GET", "/tasks/{id}", rest.on_get_task, "read"),
        ("GET", "/tasks", rest.list_tasks, "read"),
    )
    for method, path, endpoint, scope in routes:
        named = takes_query(*_IN_QUERY.get(path, ()))
        app.add_route(base + path, named(_over_rest(endpoint, scope)), methods=[method])


def _over_rpc(rpc: JsonRpcDispatcher) -> Endpoint:
    async def a2a_rpc(request: Request) -> Response:
        await _admit(request, await _scope_of(request))
        answer: Response = await rpc.handle_requests(request)
        return answer

    return a2a_rpc


def _over_rest(endpoint: Endpoint, scope: Scope) -> Endpoint:
    async def a2a_rest(request: Request) -> Response:
        await _admit(request, scope)
        return await endpoint(request)

    return a2a_rest


async def _scope_of(request: Request) -> Scope:
    """The scope that the method needs; what cannot be read is refused by whoever reads it next."""
    try:
        body: Any = await request.json()
    except (ValueError, RecursionError):
        return "read"
    method = body.get("method") if isinstance(body, dict) else None
    return "run" if isinstance(method, str) and method in _STARTING else "read"


async def _admit(request: Request, scope: Scope) -> None:
    """Let the caller in; `Unauthenticated`, `Forbidden`, `UnknownAgent`."""
    desk = await needs(scope)(request)
    caller = await caller_of(request)
    name = request.path_params.get("agent")
    if name is not None:
        _agent(request)
    request.state.a2a = {
        DESK: desk,
        CALLER: caller,
        MAY_ANSWER: may_answer(caller, request),
        WAIT_S: request.app.state.config.wait_s,
        AGENT: name,
    }


async def _team_card(request: Request) -> Response:
    team = service_of(request).project.team
    return JSONResponse(agent_card_to_dict(team_card(team, _base(request))))


async def _agent_card(request: Request) -> Response:
    await needs("read")(request)
    return JSONResponse(agent_card_to_dict(agent_card(_agent(request), _base(request))))


def _agent(request: Request) -> Any:
    shown = {agent.name: agent for agent in listed(service_of(request).project.team)}
    name = request.path_params["agent"]
    if name not in shown:
        raise UnknownAgent(name, known=shown)
    return shown[name]


def _base(request: Request) -> str:
    return str(request.base_url).rstrip("/")
