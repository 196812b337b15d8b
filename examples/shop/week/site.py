"""The processes of a week: server, workers, warehouse and model, all on one movable clock."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ekiden.client import AsyncClient
from tests.support.moved_clock import MovedClock, compiled_clock
from tests.support.server import private_server

from ..desk.books import Books

SHOP = Path(__file__).parents[1]
ROOT = SHOP.parents[1]
PEOPLE = ("anna", "ben")
_TEAM = ("--team", "desk.week_team:team")
_CLIENT: Mapping[str, Any] = {"retries": 10, "timeout_s": 120.0}
"""Killed servers are back within seconds."""


class Process:
    """A process that prints a line of JSON when it is ready."""

    def __init__(self, site: Site, name: str, *arguments: str, folder: Path | None = None) -> None:
        self._log = (site.folder / "logs" / name).open("ab")
        self.popen = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=folder or site.build,
            env=site.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    async def line(self) -> str:
        """The next line that it prints. Raises `RuntimeError` if it ended."""
        assert self.popen.stdout is not None
        line = await asyncio.to_thread(self.popen.stdout.readline)
        if not line:
            raise RuntimeError(f"a process ended; see {self._log.name}")
        return line

    async def end(self, number: int) -> int:
        """Send a signal, and wait for the end; the exit code."""
        self.popen.send_signal(number)
        code = await asyncio.to_thread(self.popen.wait)
        self.close()
        return code

    def close(self) -> None:
        """Kill it if it still runs."""
        if self._log.closed:
            return
        self.popen.kill()
        self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout, self._log):
            assert pipe is not None
            pipe.close()


class Site:
    """The shop's processes in a folder, on a store of the kind `sqlite` or `postgresql`.

    On SQLite, the server runs the sessions itself. On PostgreSQL, two workers do.
    """

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder = folder
        self.kind = kind
        self.build = folder / "build1"
        self.env: dict[str, str] = {}
        self.books = Books(folder / "books.db")
        self.store = ""
        self.crew: dict[str, Process] = {}
        """Who runs or accepts sessions, by name: these are killed and deployed."""
        self.paying = asyncio.StreamReader()
        """The orders that are being paid by tools that do not return, one on each line."""
        self._changing = asyncio.Lock()
        """A process that is being started must not be killed before it is ready."""
        self._stack = AsyncExitStack()
        self._started = 0.0

    async def __aenter__(self) -> Self:
        async with self._stack:
            await self._start()
            self._stack = self._stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for each in self.crew.values():
            each.close()
        await self._stack.aclose()

    async def _start(self) -> None:
        (self.folder / "logs").mkdir(parents=True)
        ignored = shutil.ignore_patterns("week", "__pycache__", "*.db*", "README.md")
        shutil.copytree(SHOP, self.build, ignore=ignored)
        shutil.copytree(SHOP / "week" / "build1", self.build, dirs_exist_ok=True)
        await self._open_pipe()
        self._clock = MovedClock(self.folder, compiled_clock(self.folder), "clock")
        self._started = time.time()
        moved = {**self._clock.env, "EKIDEN_TEST_CLOCK_BOOT": "1"}
        self.store = str(self.folder / "ekiden.db")
        if self.kind == "postgresql":
            with _environment(moved):
                self.store = self._stack.enter_context(private_server(within=self.folder)).url
        self.env = {
            **os.environ,
            **moved,
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.folder),
            "PYTHONDONTWRITEBYTECODE": "",  # Restarted processes must not compile everything.
            "SHOP_BOOKS": str(self.folder / "books.db"),
            "SHOP_PAYING": str(self.folder / "paying"),
            "EKIDEN_STORE": self.store,
            "EKIDEN_TRUST": "1",
            "EKIDEN_SERVER_RATE": "0",
            "EKIDEN_LIMITS_MODEL_SECONDS": "60",
        }
        (self.folder / "store.txt").write_text(self.store)
        model = self._add("model", "desk.scripted_model", "--port", "0")
        self.model_url = json.loads(await model.line())["url"]
        self.env["EKIDEN_MODEL"] = f"openai:scripted@{self.model_url}/v1"
        self._keys = {
            name: await self._key(name, *scopes)
            for name, scopes in {
                "shop": ("run", "read"),
                **dict.fromkeys(PEOPLE, ("answer", "read")),
            }.items()
        }
        self._port = _free_port()
        self.clients = {
            name: await self._stack.enter_async_context(
                AsyncClient(f"http://127.0.0.1:{self._port}", api_key=key, **_CLIENT)
            )
            for name, key in self._keys.items()
        }
        warehouse = self._add("warehouse", "desk.warehouse", self.store)
        await warehouse.line()
        self._presence = self._add(
            "presence", "examples.shop.week.presence", self.store, folder=ROOT
        )
        workers = ["worker-1", "worker-2"] if self.kind == "postgresql" else []
        await asyncio.gather(*(self.start(name) for name in ("server", *workers)))

    async def _open_pipe(self) -> None:
        path = self.folder / "paying"
        os.mkfifo(path)
        # Open for writing too, so that it does not end when a tool closes it.
        pipe = os.fdopen(os.open(path, os.O_RDWR | os.O_NONBLOCK), "rb", buffering=0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self.paying), pipe
        )
        self._stack.callback(transport.close)

    def _add(self, name: str, *arguments: str, folder: Path | None = None) -> Process:
        """Start a process that lives until the end."""
        process = Process(self, name, *arguments, folder=folder)
        self._stack.callback(process.close)
        return process

    async def _key(self, name: str, *scopes: str) -> str:
        options = [option for scope in scopes for option in ("--scope", scope)]
        process = Process(self, "keys", "ekiden.cli", "keys", "create", name, *options, "--json")
        key = str(json.loads(await process.line())["key"])
        process.close()
        return key

    async def start(self, name: str) -> None:
        """Start one of the crew, from the newest build."""
        if name == "server":
            some = ["--workers", "0"] if self.kind == "postgresql" else []
            command = ["serve", "--port", str(self._port), *some]
        else:
            command = ["worker"]
        process = Process(self, name, "ekiden.cli", *command, *_TEAM, "--json")
        self.crew[name] = process
        await process.line()

    async def kill(self, name: str) -> None:
        """`kill -9` one of the crew, and start it again."""
        async with self._changing:
            await self.crew[name].end(signal.SIGKILL)
            await self.start(name)

    async def stop_crew(self) -> None:
        """Ask all of the crew to stop."""
        for name, process in self.crew.items():
            await _stopped(name, process)

    async def deploy(self) -> None:
        """Start the second build, and end the first: workers overlap, the server cannot.

        Processes that run sessions are killed while their tools pay.
        """
        async with self._changing:
            await self._deploy()

    async def _deploy(self) -> None:
        self.build = self.folder / "build2"
        shutil.copytree(self.folder / "build1", self.build)
        changes = SHOP / "week" / "build2"
        shutil.copytree(changes / "agents", self.build / ".ekiden" / "agents", dirs_exist_ok=True)
        shutil.copytree(changes / "desk", self.build / "desk", dirs_exist_ok=True)
        for name, old in list(self.crew.items()):
            if name != "server":
                await self.start(name)
            if name == "server" and self.kind == "postgresql":
                await _stopped(name, old)
            else:
                await old.end(signal.SIGKILL)
            if name == "server":
                await self.start(name)

    async def move_to(self, at: int) -> None:
        """Let it be so many seconds after the beginning, and wait until the warehouse is there."""
        self._clock.jump(max(0, round(self._started + at - time.time())))
        assert self._presence.popen.stdin is not None
        self._presence.popen.stdin.write("\n")
        self._presence.popen.stdin.flush()
        await self._presence.line()


async def _stopped(name: str, process: Process) -> None:
    code = await process.end(signal.SIGTERM)
    if code != 0:
        raise RuntimeError(f"{name} ended with {code} when it was asked to stop")


@contextmanager
def _environment(added: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(added)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
