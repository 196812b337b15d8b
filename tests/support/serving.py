"""The server in tests: as an application, or behind a real socket on the loopback address."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
from fastapi import FastAPI

from ekiden.core.agent import Team
from ekiden.project import load_project
from ekiden.project.service import Service
from ekiden.server import ServerConfig, create_app
from ekiden.server.access import Authorizer
from ekiden.server.process import prompt_protocol, websocket_protocol
from tests.support.until import until

_GRACE_S = 2.0
"""For requests under way when a server ends."""
_HTTP = prompt_protocol(most=10_000, head_s=60)
"""As `ekiden serve` speaks it, with limits that no test reaches by being slow."""


@asynccontextmanager
async def application(
    root: Path,
    *,
    store: str = "memory:",
    team: Team | None = None,
    gate: Authorizer | None = None,
    config: ServerConfig | None = None,
    workers: int = 100,
) -> AsyncIterator[FastAPI]:
    """The application over the project in `root` (the demo team, if nothing is there), running."""
    project = load_project(root, home=root / "home")
    if team is not None:
        project.team = team
    async with project:
        app = create_app(Service(project, store=store, workers=workers), config, gate=gate)
        async with app.router.lifespan_context(app):
            yield app


@asynccontextmanager
async def client_of(app: FastAPI, **options: object) -> AsyncIterator[httpx2.AsyncClient]:
    """A client that calls the application without a socket; its streams come at their end only."""
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


@asynccontextmanager
async def served(app: FastAPI, *, port: int = 0, **options: Any) -> AsyncIterator[str]:
    """The application behind a real socket; gives its address. Its lifespan is the caller's.

    `options` are those of `uvicorn.Config`.
    """
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        port = listener.getsockname()[1]
        listener.listen(2048)
        options = {"http": _HTTP, "lifespan": "off", "log_config": None, **options}
        config = uvicorn.Config(app, ws=websocket_protocol(), access_log=False, **options)
        server = _Server(config)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await server.has_begun.wait()
            yield f"http://127.0.0.1:{port}"
        finally:
            server.is_over.set()
            await task


class _Server(uvicorn.Server):
    """One that leaves the signals of the test's process alone, and ends without pauses."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.has_begun = asyncio.Event()
        self.is_over = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.has_begun.set()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self.is_over.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for listener in (*self.servers, *(sockets or ())):
            listener.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(_GRACE_S):
                await until(lambda: not (self.server_state.connections or self.server_state.tasks))
        except TimeoutError:
            for task in self.server_state.tasks:
                task.cancel()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
