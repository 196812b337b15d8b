"""A server and the command over the same store."""

from __future__ import annotations

import asyncio
import io
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from ekiden.cli.main import main
from ekiden.core.agent import Team
from ekiden.project.service import TenantService
from ekiden.server import ServerConfig
from ekiden.server.access import Authorizer, Caller
from ekiden.storage.base import Store
from tests.support.serving import application, client_of

API = "/api/v1"
PROBLEM = "application/problem+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A running server without a socket."""

    root: Path
    app: FastAPI
    client: httpx2.AsyncClient

    async def __call__(
        self, method: str, path: str, body: Any = None, **options: Any
    ) -> httpx2.Response:
        """Send a request; `body` is JSON."""
        if body is not None:
            options["json"] = body
        return await self.client.request(method, API + path, **options)

    async def get(self, path: str, **options: Any) -> Any:
        """What a GET gives, which must be JSON and no problem."""
        found = await self("GET", path, **options)
        assert found.status_code == 200, found.text
        return found.json()

    async def pages(self, path: str, *, limit: int = 2) -> list[Any]:
        """All items of a list, page by page."""
        items: list[Any] = []
        cursor: str | None = None
        while True:
            params = {"limit": str(limit), **({} if cursor is None else {"cursor": cursor})}
            found = await self.get(path, params=_merged(path, params))
            assert len(found["items"]) <= limit
            items += found["items"]
            cursor = found["next_cursor"]
            if cursor is None:
                return items

    async def command(self, *arguments: str) -> Any:
        """What the command prints with `--json` about the same store."""
        place = arguments.index("--") if "--" in arguments else len(arguments)
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = await asyncio.to_thread(main, [*arguments[:place], "--json", *arguments[place:]])
        assert code == 0, err.getvalue()
        return json.loads(out.getvalue())

    async def tenant_service(self, tenant: str = "default") -> TenantService:
        """What the server works with."""
        found: TenantService = await self.app.state.service.tenant_service(tenant)
        return found

    async def store(self) -> Store:
        """Where everything is."""
        return (await self.tenant_service()).store

    async def ask(self, text: str, **fields: Any) -> Any:
        """Say something to the team."""
        run = await self("POST", "/runs", {"input": text, **fields})
        assert run.status_code == 200, run.text
        return run.json()


def _merged(path: str, params: dict[str, str]) -> list[tuple[str, str]]:
    _, _, query = path.partition("?")
    given = httpx2.QueryParams(query).multi_items()
    return [*given, *params.items()]


class As:
    """A gate that lets everybody in with these scopes."""

    def __init__(self, *scopes: str, tenant: str = "default") -> None:
        self.who = Caller(name="ada", tenant=tenant, scopes=frozenset(scopes))  # type: ignore[arg-type]

    async def caller(self, connection: object) -> Caller:
        """Always the same."""
        return self.who

    async def recheck(self, caller: Caller) -> None:
        """The key stays good."""


@asynccontextmanager
async def serving(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    team: Team | None = None,
    gate: Authorizer | None = None,
    config: ServerConfig | None = None,
) -> AsyncIterator[Served]:
    """A server over the project in `root`, and the command in that folder."""
    home = root / "home"
    home.mkdir(exist_ok=True)
    monkeypatch.chdir(root)
    monkeypatch.setenv("HOME", str(home))
    for name in [name for name in os.environ if name.startswith("EKIDEN_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("EKIDEN_TRUST", "1")
    (root / ".ekiden").mkdir(exist_ok=True)
    store = str(root / ".ekiden" / "ekiden.db")
    options: dict[str, Any] = {"team": team, "gate": gate, "config": config}
    async with application(root, store=store, **options) as app, client_of(app) as client:
        yield Served(root=root, app=app, client=client)


def problem(answer: httpx2.Response, status: int, code: str | None = None) -> Any:
    """The answer's problem, which must have this status."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == PROBLEM
    body = answer.json()
    assert body["status"] == status
    assert body["detail"]
    if code is not None:
        assert body["code"] == code
    return body
