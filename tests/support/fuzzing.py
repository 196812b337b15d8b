"""Invalid messages, and the properties that every answer to them must have."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx2
from fastapi import FastAPI
from hypothesis import HealthCheck, settings, strategies as st

from ekiden.core.agent import Team
from ekiden.server import ServerConfig
from tests.support.serving import application, client_of

T = TypeVar("T")

REPEATABLE = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    max_examples=60,
)
"""A test that fails fails again, on every machine."""

_PATIENCE_S = 60.0
_NASTY_TEXTS = (
    "",
    "\0",
    "\ud800",
    "a" * 5_000,
    "../../etc/passwd",
    "%00%ff",
    "': --",
    "{{7*7}}",
    "\u202e你好🙂",
    "-1",
    "null",
    "s" * 129,
    "a/b?c#d",
)
_NASTY_NUMBERS = (0, -1, 2**31, 2**53, 2**63, 2**64, -(2**63) - 1, 10**40, 1e308, -0.0, 0.5)

texts = st.one_of(st.sampled_from(_NASTY_TEXTS), st.text(max_size=20))
numbers = st.one_of(st.sampled_from(_NASTY_NUMBERS), st.integers(), st.floats(allow_nan=True))
scalars = st.one_of(st.none(), st.booleans(), numbers, texts)
junk = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)


@st.composite
def mutated(draw: st.DrawFn, templates: list[Any]) -> Any:
    """One of the templates with up to three of its parts replaced, removed, repeated or joined."""
    value = copy.deepcopy(draw(st.sampled_from(templates)))
    for _ in range(draw(st.integers(0, 3))):
        value = _changed(draw, value)
    return value


def _changed(draw: st.DrawFn, value: Any) -> Any:
    places = list(_places(value))
    if not places or draw(st.integers(0, 19)) == 0:
        return draw(junk)
    holder, key = draw(st.sampled_from(places))
    match draw(st.sampled_from(["junk", "scalar", "remove", "wrap", "add", "twist"])):
        case "junk":
            holder[key] = draw(junk)
        case "scalar":
            holder[key] = draw(scalars)
        case "remove":
            del holder[key]
        case "wrap":
            holder[key] = [holder[key]] if draw(st.booleans()) else {"value": holder[key]}
        case "add":
            if isinstance(holder, dict):
                holder[draw(texts)] = draw(junk)
            else:
                holder.append(draw(junk))
        case _:
            other, place = draw(st.sampled_from(places))
            holder[key] = copy.deepcopy(other.get(place) if isinstance(other, dict) else other)
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a value that holds another one."""
    pairs: Any = ()
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    for key, inner in list(pairs):
        yield value, key
        yield from _places(inner)


@st.composite
def bodies(draw: st.DrawFn, templates: list[Any]) -> bytes:
    """A body: mostly JSON that is nearly right, sometimes no JSON at all."""
    shape = draw(st.integers(0, 9))
    if shape == 0:
        return draw(st.binary(max_size=60))
    text = json.dumps(draw(mutated(templates)), ensure_ascii=draw(st.booleans()))
    data = text.encode("utf-8", "surrogatepass")
    if shape == 1:
        cut = draw(st.integers(0, len(data)))
        return data[:cut] + draw(st.binary(max_size=4)) + data[cut:]
    if shape == 2:
        depth = draw(st.sampled_from([50, 101, 20_000]))
        return b'{"jsonrpc":' + b"[" * depth + b"]" * depth + b"}"
    return data


header_values = st.one_of(
    st.sampled_from(
        [
            b"",
            b"0",
            b"-1",
            b"1" * 300,
            b"a/b",
            b"*",
            b'"x"',
            b"\xff\xfe",
            b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01",
            b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01",
            b"ff-" + b"z" * 32,
            b"http://127.0.0.1:99999",
            b"null",
            b"127.0.0.1:0x50",
            b"[::1",
            b"localhost.",
            b"xn--a",
        ]
    ),
    st.binary(max_size=30).map(lambda raw: bytes(each for each in raw if each not in b"\r\n\0")),
)


class Rig:
    """An application that runs in a loop of its own, for tests that are not async themselves."""

    def __init__(self, root: Path, team: Team, **options: Any) -> None:
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self.app: FastAPI
        self.client: httpx2.AsyncClient
        self._runner.run(self._open(root, team, options))

    async def _open(self, root: Path, team: Team, options: dict[str, Any]) -> None:
        config = ServerConfig(heartbeat_s=0.2, rate=1e6, burst=1_000_000)
        running = application(root, team=team, config=config, **options)
        self.app = await self._stack.enter_async_context(running)
        self.client = await self._stack.enter_async_context(client_of(self.app))

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What `work` gives; `TimeoutError` if it takes too long."""

        async def patiently() -> T:
            async with asyncio.timeout(_PATIENCE_S):
                return await work()

        return self._runner.run(patiently())

    def call(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """One request."""
        return self.run(lambda: self.client.request(method, path, **options))

    def close(self) -> None:
        """End it all."""
        self._runner.run(self._stack.aclose())
        self._runner.close()


class Complaints(logging.Handler):
    """Keeps what is logged as a mistake of ours, or with a traceback."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR or record.exc_info:
            self.lines.append(logging.Formatter().format(record))


@contextmanager
def no_complaints() -> Iterator[None]:
    """`AssertionError` if something was logged as a mistake of ours meanwhile."""
    complaints = Complaints()
    root = logging.getLogger()
    root.addHandler(complaints)
    try:
        yield
    finally:
        root.removeHandler(complaints)
    assert not complaints.lines, "\n".join(complaints.lines)


def check_plain(response: httpx2.Response) -> None:
    """What holds for every answer, whatever was sent."""
    assert response.status_code < 500, (response.status_code, response.text[:500])
    assert "Traceback" not in response.text
    assert "site-packages" not in response.text


def check_problem(response: httpx2.Response) -> None:
    """An answer of the API is what was asked for, or a problem."""
    check_plain(response)
    if response.status_code >= 400:
        assert response.headers["content-type"] == "application/problem+json", response.text
        problem = response.json()
        assert problem["status"] == response.status_code
        assert all(problem[name] for name in ("code", "detail", "title")), problem


class Socket:
    """A WebSocket into the application, without a network."""

    def __init__(self, app: FastAPI, path: str, *, query: bytes = b"", **headers: bytes) -> None:
        self._in: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._out: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.closed: int | None = None
        """The code that it was closed with, or the status that it was refused with."""
        given = {"host": b"127.0.0.1", **headers}
        scope = {
            "type": "websocket",
            "asgi": {"version": "3.0"},
            "scheme": "ws",
            "http_version": "1.1",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query,
            "root_path": "",
            "headers": [(name.encode(), value) for name, value in given.items()],
            "client": ("127.0.0.1", 50_000),
            "server": ("127.0.0.1", 80),
            "subprotocols": [],
            "extensions": {"websocket.http.response": {}},
        }
        self._in.put_nowait({"type": "websocket.connect"})
        self._serving = asyncio.create_task(app(scope, self._in.get, self._out.put))

    async def accepted(self) -> bool:
        """Whether it was let in."""
        first = await self._next()
        if first["type"] == "websocket.http.response.start":
            self.closed = first["status"]
        elif first["type"] == "websocket.close":
            self.closed = first.get("code", 1000)
        return bool(first["type"] == "websocket.accept")

    def send(self, message: str | bytes) -> None:
        """Send a frame."""
        kind = "text" if isinstance(message, str) else "bytes"
        self._in.put_nowait({"type": "websocket.receive", kind: message})

    async def read(self) -> dict[str, Any] | None:
        """The next message; `None` if it was closed."""
        if self.closed is not None:
            return None
        message = await self._next()
        if message["type"] == "websocket.close":
            self.closed = message.get("code", 1000)
            return None
        answer: dict[str, Any] = json.loads(message["text"])
        return answer

    async def until(self, kind: str) -> list[dict[str, Any]]:
        """The messages up to the first of this kind, or up to the end."""
        found = []
        while (message := await self.read()) is not None:
            found.append(message)
            if message["type"] == kind:
                break
        return found

    async def leave(self) -> None:
        """Go away, and wait until the application has noticed; raises what it raised."""
        self._in.put_nowait({"type": "websocket.disconnect", "code": 1000})
        await self._serving

    async def _next(self) -> dict[str, Any]:
        taking = asyncio.ensure_future(self._out.get())
        await asyncio.wait({taking, self._serving}, return_when=asyncio.FIRST_COMPLETED)
        if not taking.done():
            taking.cancel()
            await self._serving
            return {"type": "websocket.close", "code": 1006}
        return taking.result()
