"""The interface in both implementations: over a store of this process, and over HTTP.

What the server sends is held against the OpenAPI document, whatever a test asks for.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import httpx2
import jsonschema_rs
import pytest

from ekiden.api.local.context import LocalContext
from ekiden.client import AsyncClient
from ekiden.client.ekiden import Ekiden, at_store
from ekiden.core.agent import Agent, Team
from ekiden.project import load_project, load_settings, open_store
from ekiden.runtime import Runner
from ekiden.sessions import Session
from ekiden.testing import ScriptedModel, say
from tests.support.gates import OpenGate
from tests.support.openapi import openapi_document
from tests.support.relay_team import relay_team
from tests.support.serving import application, served

Begin: TypeAlias = Callable[[str], Awaitable[None]]
"""Begins the session with this id."""


_document = cache(openapi_document)


@cache
def _operations() -> list[tuple[str, re.Pattern[str], dict[str, Any]]]:
    found = []
    for path, item in _document()["paths"].items():
        # Only the last part of a path may have slashes in it, as the ids of audit records have.
        last = re.sub(r"\{[^}]*\}$", ".+", path)
        pattern = re.compile(re.sub(r"\{[^}]*\}", "[^/]+", last))
        found += [(method.upper(), pattern, operation) for method, operation in item.items()]
    return sorted(found, key=lambda each: _rank(each[1].pattern))


def _rank(pattern: str) -> tuple[bool, int, int]:
    """The most exact patterns come first."""
    return pattern.endswith(".+"), -pattern.count("/"), pattern.count("+")


@cache
def _validator(status: str, pattern: str, method: str) -> Any:
    document = _document()
    [operation] = [
        each for verb, path, each in _operations() if (verb, path.pattern) == (method, pattern)
    ]
    answer = operation["responses"][status]
    schema = answer["content"]["application/json"]["schema"]
    return jsonschema_rs.validator_for({**schema, "components": document["components"]})


async def _as_documented(response: httpx2.Response) -> None:
    """Every answer is what the OpenAPI document says."""
    request = response.request
    asked = request.url.raw_path.decode().partition("?")[0]
    for method, pattern, operation in _operations():
        if method == request.method and pattern.fullmatch(asked):
            status = str(response.status_code)
            assert status in operation["responses"], f"{method} {request.url.path}: {status}"
            is_json = response.headers.get("content-type", "").startswith("application/json")
            if response.status_code < 300 and is_json:
                await response.aread()
                if response.headers["content-type"] == "application/json":
                    _validator(status, pattern.pattern, method).validate(response.json())
            return
    raise AssertionError(f"{request.method} {request.url.path} is not in the document")


class _Checked(httpx2.ASGITransport):
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        response.request = request
        await _as_documented(response)
        return response


class _CheckedOnTheWay(httpx2.AsyncHTTPTransport):
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        response.request = request
        await _as_documented(response)
        return response


_SETTINGS = '{"memory": {"embedding_model": "hashing", "dimension": 64}}'


@pytest.fixture(params=["here", "server"])
async def ekiden(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ekiden]:
    """Everything that there is."""
    store = str(tmp_path / "s.db")
    settings = tmp_path / ".ekiden" / "settings.json"
    if not settings.exists():
        settings.parent.mkdir(exist_ok=True)
        settings.write_text(_SETTINGS)
    if request.param == "here":
        async with open_store(store, create=True) as opened:
            loaded = load_settings(tmp_path)
            async with load_project(tmp_path, home=tmp_path / "home") as project:
                yield at_store(
                    LocalContext(
                        store=opened,
                        settings=loaded.settings,
                        origins=loaded.origins,
                        project=project,
                        caller="local",
                    )
                )
        return
    async with application(tmp_path, store=store, gate=OpenGate()) as app:
        transport = _Checked(app=app, raise_app_exceptions=False)
        async with AsyncClient("http://127.0.0.1", transport=transport, retries=0) as client:
            yield client.ekiden


@pytest.fixture
def members() -> Team:
    """Who works for `relay`."""
    return relay_team()


@pytest.fixture(params=["here", "server"])
async def relay(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    members: Team,
) -> AsyncIterator[Ekiden]:
    """A team that works, here or behind a socket; ``hold:NAME`` waits for the file NAME."""
    monkeypatch.setenv("RELAY_FOLDER", str(tmp_path))
    store = str(tmp_path / "s.db")
    if request.param == "here":
        async with Ekiden.open(store, team=members, workers=10) as found:
            yield found
        return
    async with (
        application(tmp_path, store=store, team=members, gate=OpenGate()) as app,
        served(app) as url,
        AsyncClient(url, transport=_CheckedOnTheWay(), retries=0) as client,
    ):
        yield client.ekiden


@pytest.fixture
def begin(ekiden: Ekiden, tmp_path: Path) -> Begin:
    """Begins a session in the store of `ekiden`."""

    async def session(session_id: str) -> None:
        agent: Agent[Any] = Agent("clerk", model=ScriptedModel([say("hello")]))
        async with open_store(str(tmp_path / "s.db"), create=False) as store:
            await Runner.run(agent, "hi", session=Session(session_id, store=store))

    return session
