"""Every route, with every kind of caller that must not get in.

The routes come from the application and its OpenAPI document, so that a new one is tested by being
there. What is open to all, and what is asked for in a way that FastAPI does not know of, is named
here: a route that is in neither list and asks for no scope fails.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from fastapi import FastAPI
from starlette.types import Message, Scope

from ekiden.core.questions import InboxItem
from ekiden.project.keys import SCOPES
from ekiden.server import ServerConfig
from ekiden.server.access import OPEN
from ekiden.server.openapi.description import SCOPE, routes_of, scope_of
from tests.support.serving import application, client_of
from tests.unit.server.keyed import bearer, keys_of, make_key
from tests.unit.server.sampling import body_of, sample

pytestmark = pytest.mark.asyncio(loop_scope="module")

OPEN_TO_ALL = {
    "/",
    "/favicon.ico",
    "/favicon.svg",
    "/healthz",
    "/readyz",
    "/openapi.json",
    "/docs",
    "/.well-known/agent-card.json",
}
OPEN_OTHERWISE = {"/assets/{name}", "/api/v1/login"}
"""What is open below a path, and what names the caller in its body."""
ANY_CALLER = {"/api/v1/me", "/api/v1/logout"}
"""What everybody may who is known."""
ASKED_INSIDE = {
    "/api/v1/events": "read",
    "/a2a": "run",
    "/mcp": None,
}
"""Routes, and what is below them, that ask for a scope themselves; `None`: it depends on what is
asked for in the body."""

SHARED = {"agent_id", "agent", "name", "model", "key", "user", "app", "seq"}
"""Parameters that name nothing of one tenant: agents and settings are the project's, and users and
apps are names, and events numbers, that every tenant has for itself."""

BODIES = {"/api/v1/sessions/{session_id}/state": {"set": {"tier": "gold"}}}
"""Where the smallest body that the document allows says nothing."""

CANARY = "zanzibar-marmalade"


@dataclass(frozen=True, slots=True)
class Route:
    """A route with one of its methods."""

    method: str
    path: str
    scope: str | None

    def filled(self, **values: str) -> str:
        """The path with values for its parameters."""
        return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], "nonesuch"), self.path)

    @property
    def parameters(self) -> set[str]:
        return set(re.findall(r"\{(\w+)\}", self.path))

    @property
    def is_inside(self) -> bool:
        """Whether it asks for its scope itself."""
        return any(self.path == each or self.path.startswith(f"{each}/") for each in ASKED_INSIDE)


def all_routes(app: FastAPI) -> Iterator[Route]:
    """Every method of every route; a WebSocket has the method of that name."""
    for route in routes_of(app):
        path = re.sub(r":path\}", "}", route.path or "")
        scope = scope_of(getattr(route, "dependant", None))
        for method in sorted(route.methods or {"WEBSOCKET"}):
            if method != "HEAD":
                yield Route(method, path, scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A server with two tenants, one of which has something of everything."""

    app: FastAPI
    client: httpx2.AsyncClient
    routes: list[Route]
    keys: dict[str, str]
    """The text of keys, by what they are for."""
    theirs: dict[str, str]
    """By parameter: the id of something that is the tenant `acme`'s."""

    async def status(self, route: Route, key: str | None, **headers: str) -> int:
        """How the server answers."""
        sent = {**(bearer(key) if key else {}), **headers}
        if route.method == "WEBSOCKET":
            return await _handshake(self.app, route.path, sent)
        body = {} if route.method in ("POST", "PUT", "PATCH") else None
        found = await self.client.request(route.method, route.filled(), headers=sent, json=body)
        return found.status_code

    @property
    def guarded(self) -> list[Route]:
        return [r for r in self.routes if r.path not in OPEN_TO_ALL | OPEN_OTHERWISE]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    root = tmp_path_factory.mktemp("matrix")
    config = ServerConfig(rate=0)
    async with application(root, config=config) as app, client_of(app) as client:
        keys: dict[str, str] = {}
        for scope in SCOPES:
            keys[scope] = (await make_key(app, scope)).text
            others = [each for each in SCOPES if each not in (scope, "admin")]
            keys[f"not {scope}"] = (await make_key(app, *others)).text
        expired, revoked = await make_key(app, expires_s=1e-6), await make_key(app)
        await (await keys_of(app)).revoke(revoked.key.id)
        keys |= {"expired": expired.text, "revoked": revoked.text}
        theirs = await _fill(app, client)
        keys["acme"] = theirs.pop("")
        keys["beta"] = (await make_key(app, "admin", tenant="beta")).text
        app.state.keyring.forget()
        yield World(app=app, client=client, routes=list(all_routes(app)), keys=keys, theirs=theirs)


async def _fill(app: FastAPI, client: httpx2.AsyncClient) -> dict[str, str]:
    """Give the tenant `acme` something of everything; the ids, and under "" its key."""
    made = await make_key(app, "admin", tenant="acme", name=CANARY)
    headers = bearer(made)
    desk = await app.state.service.tenant_service("acme")

    async def post(path: str, body: Any, method: str = "POST") -> Any:
        found = await client.request(method, path, json=body, headers=headers)
        assert found.is_success, (path, found.text)
        return found.json()

    api = "/api/v1"
    text = f"Where is my order 1042? {CANARY}"
    run = await post(f"{api}/runs", {"input": text, "title": CANARY, "user_id": CANARY})
    agents = [each["name"] for each in (await _get(client, f"{api}/agents", headers))["items"]]
    handoff = await post(
        f"{api}/handoff/initiate",
        {
            "source_agent_id": agents[0],
            "target_agent_id": agents[1],
            "task_id": "task-4711",
            "reason": CANARY,
        },
    )
    item = await desk.inbox.post(InboxItem(kind="escalation", subject=CANARY, from_agent=agents[0]))
    entry = {"key": CANARY, "content": CANARY}
    await post(f"{api}/memory?shared=true", entry)
    message = await post(
        f"{api}/messages", {"to": agents[1], "type": "notify", "payload": {"text": CANARY}}
    )
    collaboration = await post(
        f"{api}/collaborations",
        {"move": "request", "agent": agents[0], "target": agents[1], "task": CANARY},
    )
    response = await post("/v1/responses", {"model": "auto", "input": text})
    records = (await _get(client, f"{api}/audit/records", headers))["items"]
    assert records
    return {
        "": made.text,
        "session_id": run["session_id"],
        "origin": run["session_id"],
        "run_id": run["run_id"],
        "handoff_id": handoff["handoff_id"],
        "item_id": item.id,
        "message_id": _id(message, "message"),
        "collaboration_id": _id(collaboration, "collaboration"),
        "record_id": _id(records[0], "record"),
        "key_id": made.key.id,
        "response_id": response["id"],
        "id": run["session_id"],
    }


def _id(record: dict[str, Any], what: str) -> str:
    """The id of what was made, however it is called."""
    inner = record.get(what, record)
    found = inner if isinstance(inner, str) else inner.get("id") or inner.get(f"{what}_id")
    assert found, record
    return str(found)


async def _get(client: httpx2.AsyncClient, path: str, headers: dict[str, str]) -> Any:
    found = await client.get(path, headers=headers)
    assert found.status_code == 200, (path, found.text)
    return found.json()


async def _handshake(app: FastAPI, path: str, headers: dict[str, str], query: bytes = b"") -> int:
    """The status that a WebSocket is answered with; 101 if it is accepted."""
    raw = [(b"host", b"localhost"), *((n.lower().encode(), v.encode()) for n, v in headers.items())]
    scope: Scope = {
        "type": "websocket",
        "asgi": {"version": "3.0"},
        "scheme": "ws",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "root_path": "",
        "headers": raw,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8321),
        "subprotocols": [],
        "extensions": {"websocket.http.response": {}},
    }
    sent: list[Message] = []
    told: list[Message] = [{"type": "websocket.connect"}]

    async def receive() -> Message:
        return told.pop() if told else {"type": "websocket.disconnect", "code": 1000}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return 101 if sent[0]["type"] == "websocket.accept" else int(sent[0].get("status", 403))


async def test_the_list_of_open_routes_is_complete(world: World) -> None:
    assert set(OPEN) == OPEN_TO_ALL
    silent = {r.path for r in world.routes if r.scope is None and not r.is_inside}
    assert silent <= OPEN_TO_ALL | OPEN_OTHERWISE | ANY_CALLER, (
        "routes that ask for no scope; take Reads, Starts, …"
    )


async def test_every_route_refuses_an_unknown_parameter(world: World) -> None:
    headers = bearer(world.keys["admin"])
    files = {"/", "/favicon.ico", "/favicon.svg", "/assets/{name}"}
    for route in world.routes:
        if route.method == "WEBSOCKET":
            query = b"sesions=s"
            assert await _handshake(world.app, route.path, headers, query) == 422, route
            continue
        path = f"{route.filled()}?nonesuch=1"
        found = await world.client.request(route.method, path, headers=headers)
        if route.path in files:
            assert found.status_code in (200, 404), route
            continue
        assert found.status_code in (400, 422), (route, found.text)
        assert "'nonesuch'" in found.text, route
        assert '"request.unknown_parameter"' in found.text, route


async def test_a_refused_parameter_error_names_the_known_parameters(world: World) -> None:
    headers = bearer(world.keys["admin"])
    path = "/api/v1/handoff?correlation_id=c-1&limit=5"
    told = (await world.client.get(path, headers=headers)).json()
    assert "Did you mean 'correlation'?" in told["detail"]
    assert {"agent", "correlation", "limit", "cursor"} <= set(told["known"])
    for known in ("/api/v1/handoff?correlation=c-1&limit=5", "/a2a/tasks?pageSize=5"):
        found = await world.client.get(known, headers={**headers, "A2A-Version": "1.0"})
        assert found.status_code == 200, found.text


async def test_every_operation_of_the_document_says_its_scope(world: World) -> None:
    document = world.app.openapi()
    told = {
        (method.upper(), path): operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }
    known = {(r.method, r.path): r.scope for r in world.routes}
    assert told.keys() <= known.keys()
    for place, operation in told.items():
        assert operation.get(SCOPE) == known[place], place
        asks = known[place] is not None or place[1] in ANY_CALLER
        assert ("security" in operation) == asks, place
        if asks:
            assert {"401", "403"} <= operation["responses"].keys(), place
    assert {"bearer", "key"} == document["components"]["securitySchemes"].keys()


@pytest.mark.parametrize(
    "key",
    [
        None,
        "ek_abcdefgh_" + "a" * 40,
        "ek_not_a_key",
        "sk-something-else",
        "'; drop table keys; --",
    ],
    ids=["none", "unknown", "malformed", "foreign", "hostile"],
)
async def test_without_a_valid_key_every_guarded_route_returns_401(
    world: World, key: str | None
) -> None:
    found = {(r.method, r.path): await world.status(r, key) for r in world.guarded}
    assert {place: status for place, status in found.items() if status != 401} == {}


@pytest.mark.parametrize("kind", ["expired", "revoked"])
async def test_a_revoked_or_expired_key_opens_no_route(world: World, kind: str) -> None:
    found = {(r.method, r.path): await world.status(r, world.keys[kind]) for r in world.guarded}
    assert {place: status for place, status in found.items() if status != 401} == {}


async def test_a_key_without_the_scope_is_forbidden(world: World) -> None:
    found = {
        (r.method, r.path): await world.status(r, world.keys[f"not {r.scope}"])
        for r in world.guarded
        if r.scope is not None
    }
    assert len(found) > 50
    assert {place: status for place, status in found.items() if status != 403} == {}


async def test_routes_that_check_scopes_themselves_return_403(world: World) -> None:
    answer_only = world.keys["answer"]
    for route in world.routes:
        if route.is_inside and not route.path.startswith("/mcp"):
            assert await world.status(route, answer_only) == 403, route


async def test_a_read_key_can_read_every_route(world: World) -> None:
    for route in world.guarded:
        if route.scope == "read" and route.method == "GET":
            status = await world.status(route, world.keys["read"])
            assert status in (200, 404, 422), (route, status)


async def test_unknown_origins_and_hosts_are_refused_on_every_route(world: World) -> None:
    admin = world.keys["admin"]
    for route in world.guarded:
        assert await world.status(route, admin, Origin="https://evil.example.com") == 403, route
        if route.method != "WEBSOCKET":
            assert await world.status(route, admin, Host="evil.example.com") == 403, route


async def test_every_route_parameter_is_assigned_to_an_owner(world: World) -> None:
    named = set().union(*(route.parameters for route in world.routes))
    assert named <= SHARED | world.theirs.keys(), "say whose it is, and fill the tenant with one"


def _query(operation: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """Values for what the query must have; names of things are the other tenant's."""
    known = {"key": CANARY, "q": CANARY, "query": CANARY, "capabilities": "billing"}
    return {
        each["name"]: known.get(each["name"], sample(each["schema"], document))
        for each in operation.get("parameters", ())
        if each["in"] == "query" and each.get("required")
    }


async def _ask(world: World, route: Route, key: str) -> httpx2.Response:
    document = world.app.openapi()
    operation = document["paths"].get(route.path, {}).get(route.method.lower(), {})
    return await world.client.request(
        route.method,
        route.filled(**world.theirs, user=CANARY, app="ekiden", seq="7"),
        headers=bearer(key),
        json=BODIES.get(route.path) or body_of(operation, document),
        params=_query(operation, document),
    )


async def test_a_tenants_resources_exist_for_that_tenant(world: World) -> None:
    """Otherwise the test below would show nothing."""
    for route in world.guarded:
        own = route.parameters - SHARED - {"key_id"}
        if own and route.method == "GET" and route.scope and "stream" not in route.path:
            found = await _ask(world, route, world.keys["acme"])
            assert found.status_code in (200, 404), (route, found.text)
            if found.status_code == 404:
                assert route.path.endswith(("/plan", "/tasks", "/request")), (route, found.text)


async def test_another_tenants_resources_are_not_found(world: World) -> None:
    wrong = {}
    for route in world.guarded:
        if route.parameters - SHARED and route.scope is not None:
            found = await _ask(world, route, world.keys["beta"])
            refused = (403, 404) if "key_id" in route.parameters else (404,)
            if found.status_code not in refused or CANARY in found.text:
                wrong[(route.method, route.path)] = (found.status_code, found.text[:200])
    assert wrong == {}


async def test_no_list_shows_data_of_another_tenant(world: World) -> None:
    secrets = {CANARY, *world.theirs.values()}
    for route in world.guarded:
        if route.method == "GET" and route.scope and not route.parameters - SHARED:
            found = await _ask(world, route, world.keys["beta"])
            assert found.status_code < 500, (route, found.text)
            echoed = CANARY if found.status_code == 404 else ""
            shown = [each for each in secrets if each in found.text and each != echoed]
            if "{user}" in route.path:
                shown = [each for each in shown if each != CANARY]
            assert not shown, (route, shown, found.text[:300])


async def test_a2a_routes_show_no_data_of_another_tenant(world: World) -> None:
    for path in (f"/a2a/tasks/{world.theirs['id']}", "/a2a/tasks"):
        headers = bearer(world.keys["beta"], **{"A2A-Version": "1.0"})
        found = await world.client.get(path, headers=headers)
        assert CANARY not in found.text
        assert found.status_code == 404 or world.theirs["id"] not in found.text


async def test_a_session_id_used_by_two_tenants_means_two_sessions(world: World) -> None:
    session = world.theirs["session_id"]
    body = {"input": "Where is my order 1043?", "session_id": session}
    headers = bearer(world.keys["beta"])
    found = await world.client.post("/api/v1/runs", json=body, headers=headers)
    assert found.json()["run_id"] == f"{session}:1"
    assert CANARY not in found.text
    await world.client.delete(f"/api/v1/sessions/{session}", headers=headers)
    theirs = await world.client.get(
        f"/api/v1/sessions/{session}", headers=bearer(world.keys["acme"])
    )
    assert theirs.status_code == 200
