"""The routes of A2A: cards, JSON-RPC and HTTP+JSON, for the team and for each agent."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final
from urllib.parse import quote

from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.server.routes.jsonrpc_dispatcher import JsonRpcDispatcher
from a2a.server.routes.rest_dispatcher import RestDispatcher
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    GetTaskRequest,
    HTTPAuthSecurityScheme,
    ListTasksRequest,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)
from a2a.utils.constants import PROTOCOL_VERSION_0_3, PROTOCOL_VERSION_1_0, TransportProtocol
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ekiden import __version__
from ekiden.core.agent import Agent, Team
from ekiden.core.errors import UnknownAgent
from ekiden.integrations.a2a.handler import CALL, CallState, TeamHandler
from ekiden.integrations.a2a.tasks import JSON, TEXT
from ekiden.integrations.a2a.values import clean
from ekiden.server.access import Scope, caller_of, may_answer, needs, service_of
from ekiden.server.problems import takes_query

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
"""The query parameters by path."""

Endpoint = Callable[[Request], Awaitable[Response]]

_LOGGERS: Final = (
    "a2a.server.routes.jsonrpc_dispatcher",
    "a2a.server.routes.rest_dispatcher",
    "a2a.compat.v0_3.jsonrpc_adapter",
    "a2a.utils.error_handlers",
)

_KEY = "key"


def _listed(team: Team) -> list[Agent[Any]]:
    """The agents that have a card: all except system agents and routers."""
    return [agent for agent in team if agent.scope != "system" and not agent.traits.is_router]


def _team_card(team: Team, base: str) -> AgentCard:
    """The card of the team, with one skill for each agent."""
    agents = _listed(team)
    names = ", ".join(agent.title or agent.name for agent in agents)
    return _card(
        name="Ekiden",
        description=f"A team of agents that hand work to each other: {names}.",
        url=f"{base}/a2a",
        skills=[_skill(agent) for agent in agents],
    )


def _agent_card(agent: Agent[Any], base: str) -> AgentCard:
    return _card(
        name=agent.title or agent.name,
        description=_description(agent),
        url=f"{base}/a2a/{quote(agent.name, safe='')}",
        skills=list(_skills(agent)),
    )


def _card(*, name: str, description: str, url: str, skills: Iterable[AgentSkill]) -> AgentCard:
    scheme = HTTPAuthSecurityScheme(
        scheme="Bearer",
        description="An API key of this server: with the scope `run` to send messages and cancel "
        "tasks, `read` to look at tasks, `answer` to decide what people are asked.",
    )
    return AgentCard(
        name=clean(name),
        description=clean(description),
        version=__version__,
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding=binding, protocol_version=version)
            for binding, version in (
                (TransportProtocol.JSONRPC, PROTOCOL_VERSION_1_0),
                (TransportProtocol.HTTP_JSON, PROTOCOL_VERSION_1_0),
                (TransportProtocol.JSONRPC, PROTOCOL_VERSION_0_3),
            )
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=False),
        security_schemes={_KEY: SecurityScheme(http_auth_security_scheme=scheme)},
        security_requirements=[SecurityRequirement(schemes={_KEY: StringList()})],
        default_input_modes=[TEXT, JSON],
        default_output_modes=[TEXT, JSON],
        skills=skills,
    )


def _description(agent: Agent[Any]) -> str:
    own = agent.description or agent.handoff_description
    return own or f"The agent {agent.name} of a team."


def _skill(agent: Agent[Any]) -> AgentSkill:
    tags = [*agent.triggers.keywords, *(each.name for each in agent.capabilities)] or [agent.name]
    return AgentSkill(
        id=clean(agent.name),
        name=clean(agent.title or agent.name),
        description=clean(_description(agent)),
        tags=[clean(tag) for tag in dict.fromkeys(tags)],
        examples=[clean(each) for each in agent.triggers.examples],
    )


def _skills(agent: Agent[Any]) -> Iterable[AgentSkill]:
    """One skill for each capability, or one for an agent without capabilities."""
    if not agent.capabilities:
        yield _skill(agent)
    for each in agent.capabilities:
        yield AgentSkill(
            id=clean(each.name),
            name=clean(each.name),
            description=clean(each.description or each.name),
            tags=[clean(tag) for tag in (*each.tags, *agent.triggers.keywords)]
            or [clean(each.name)],
            examples=[clean(text) for text in agent.triggers.examples],
        )


class _UnexpectedOnly(logging.Filter):
    """Passes only unexpected exceptions.

    The SDK logs each refused request with a stack trace, and whole bodies at the level DEBUG.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        return bool(record.exc_info) and not str(record.msg).startswith("Failed to ")


def _filter_logs() -> None:
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(each, _UnexpectedOnly) for each in logger.filters):
            logger.addFilter(_UnexpectedOnly())


class _Context(DefaultServerCallContextBuilder):
    """Adds the `CallState` of the request to the context of a call."""

    def build(self, request: Request) -> ServerCallContext:
        context = super().build(request)
        context.state[CALL] = request.state.a2a
        return context


def install(app: FastAPI) -> None:
    """Add the routes to the application. The OpenAPI document does not contain these routes,
    because agent cards describe them."""
    _filter_logs()
    handler = TeamHandler()
    rpc = JsonRpcDispatcher(handler, context_builder=_Context(), enable_v0_3_compat=True)
    rest = RestDispatcher(handler, context_builder=_Context())
    app.add_route(CARD, _get_team_card, methods=["GET"])
    _add_rest(app, "/a2a", rest)
    app.add_route("/a2a", _over_rpc(rpc), methods=["POST"])
    app.add_route("/a2a/{agent}" + CARD, _get_agent_card, methods=["GET"])
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
    """The scope of the method. An unreadable body is refused later, by the dispatcher."""
    try:
        body: Any = await request.json()
    except (ValueError, RecursionError):
        return "read"
    method = body.get("method") if isinstance(body, dict) else None
    return "run" if isinstance(method, str) and method in _STARTING else "read"


async def _admit(request: Request, scope: Scope) -> None:
    """Check the caller and the agent. Raises `Unauthenticated`, `Forbidden` or `UnknownAgent`."""
    tenant = await needs(scope)(request)
    caller = await caller_of(request)
    name = request.path_params.get("agent")
    if name is not None:
        _agent(request)
    request.state.a2a = CallState(
        tenant=tenant,
        caller=caller,
        may_answer=may_answer(caller, request),
        wait_s=request.app.state.config.wait_s,
        agent=name,
    )


async def _get_team_card(request: Request) -> Response:
    team = service_of(request).project.team
    return JSONResponse(agent_card_to_dict(_team_card(team, _base(request))))


async def _get_agent_card(request: Request) -> Response:
    await needs("read")(request)
    return JSONResponse(agent_card_to_dict(_agent_card(_agent(request), _base(request))))


def _agent(request: Request) -> Any:
    shown = {agent.name: agent for agent in _listed(service_of(request).project.team)}
    name = request.path_params["agent"]
    if name not in shown:
        raise UnknownAgent(name, known=shown)
    return shown[name]


def _base(request: Request) -> str:
    return str(request.base_url).rstrip("/")
