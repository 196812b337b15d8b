"""A connection to an MCP server. No other module uses the MCP SDK."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO
from urllib.parse import urlsplit

from ekiden import __version__
from ekiden.core.checks.addresses import tls_context
from ekiden.core.current_agent import AGENT_HEADER, AGENT_VARIABLE
from ekiden.core.errors import McpUnavailable, ToolError
from ekiden.core.privacy.masking import keep_secret, secrets_of
from ekiden.tools.mcp_servers import McpServer
from ekiden.tools.output import shortened, without_hidden
from ekiden.tools.under_way import in_thread

if TYPE_CHECKING:
    from mcp import Client

_log = logging.getLogger("ekiden.tools.mcp")

_MAX_PAGES = 50
_MAX_TOOLS = 1_000
_STDERR_WAIT_S = 1.0
_MAX_PROBLEM = 500

_MAX_KEPT = 8_192
_MAX_LINES = 8
_MAX_LINE = 300


class StderrTail:
    """A pipe for the stderr of a process, which keeps the last output.

    A thread reads the pipe, so the process never blocks on it.
    """

    def __init__(self) -> None:
        self._reading, writing = os.pipe()
        self.file: TextIO = os.fdopen(writing, "w")
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._read, name="ekiden-mcp-stderr", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close this process's copy of the write end. The server process keeps its own copy."""
        self.file.close()

    def lines(self, *, wait_s: float = 0.0) -> str:
        """Wait until the pipe is closed or `wait_s` has passed, and return the last lines."""
        self._thread.join(wait_s)
        text = without_hidden(bytes(self._kept).decode(errors="replace"))
        lines = [line.rstrip()[:_MAX_LINE] for line in text.splitlines() if line.strip()]
        return "\n".join(lines[-_MAX_LINES:])

    def _read(self) -> None:
        with os.fdopen(self._reading, "rb", buffering=0) as pipe:
            while data := pipe.read(4096):
                self._kept += data
                del self._kept[:-_MAX_KEPT]


class SessionOver(Exception):
    """The server has forgotten this connection, and did not execute the call."""


class Link:
    """A connection in its own task, because the SDK's context managers must be left in the task
    that entered them.

    Call `open` before use and `close` at the end. The connection ends with `close`, or when the
    server ends.
    """

    def __init__(self, server: McpServer, root: Path, environment: Mapping[str, str]) -> None:
        self._server = server
        self._root = root
        self._environment = environment
        self._over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stderr: StderrTail | None = None
        self._client: Client | None = None
        self.tools: Sequence[Any] = ()
        """The tools in the server's list."""

    @property
    def is_over(self) -> bool:
        """Whether the connection can no longer be used."""
        return self._over.is_set()

    async def open(self) -> None:
        """Connect and list the tools. Raises `McpUnavailable` with the server's last output."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._keep(ready), name=f"mcp {self._server.name}")
        try:
            await ready
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.wait({self._task})
            raise

    async def close(self) -> None:
        """Close the connection. A server that Ekiden started is stopped."""
        self._over.set()
        if self._task is not None:
            await asyncio.wait({self._task})

    async def call(self, tool: str, arguments: dict[str, Any], meta: dict[str, Any]) -> Any:
        """The result of a call. Raises `ToolError`, `McpUnavailable` or `SessionOver`."""
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST

        assert self._client is not None
        try:
            return await self._client.call_tool(tool, arguments, meta=meta)  # type: ignore[arg-type]
        except MCPError as exc:
            if exc.code == INVALID_REQUEST and exc.message == "Session terminated":
                self._over.set()
                raise SessionOver from exc
            if exc.code == CONNECTION_CLOSED:
                self._over.set()
                raise McpUnavailable(
                    self._server.name,
                    await self._with_stderr(
                        "it was lost during the call, and what it did is not known"
                    ),
                ) from exc
            raise ToolError(_words(exc)) from exc
        except (OSError, RuntimeError, ValueError) as exc:
            raise ToolError(_words(exc)) from exc

    async def _keep(self, ready: asyncio.Future[None]) -> None:
        limit = self._server.timeout
        deadline = asyncio.timeout(limit)
        problem = f"it was not connected within {limit:g} s"
        try:
            async with AsyncExitStack() as stack:
                async with deadline:
                    self._client = await stack.enter_async_context(self._connected())
                    self.tools = await _listed(self._client)
                if not ready.done():
                    ready.set_result(None)
                await self._over.wait()
        except McpUnavailable as exc:
            _fail(ready, exc)
        except (Exception, BaseExceptionGroup) as exc:
            if ready.done():
                _log.debug("MCP server %r: %s", self._server.name, exc)
                return
            if not deadline.expired():
                problem = f"{self._where()}: {_words(exc)}"
            failure = McpUnavailable(self._server.name, await self._with_stderr(problem))
            failure.__cause__ = exc
            _fail(ready, failure)
        finally:
            self._over.set()
            _fail(ready, McpUnavailable(self._server.name, "connecting to it was stopped"))
            if self._stderr is not None:
                self._stderr.close()

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Client]:
        try:
            from mcp import Client
            from mcp_types import Implementation
        except ImportError as exc:
            raise McpUnavailable(
                self._server.name, "the MCP library is not installed: pip install 'ekiden[mcp]'"
            ) from exc
        # Without a handler, Python would print the SDK's warnings to stderr.
        logging.getLogger("mcp").addHandler(logging.NullHandler())
        server = self._server.filled_in(self._environment)
        keep_secret(_secrets(server))
        transport = self._local(server) if server.transport == "stdio" else _remote(server)
        info = Implementation(name="ekiden", version=__version__)
        async with Client(_watched(transport, self._over), client_info=info, cache=None) as client:
            yield client

    @asynccontextmanager
    async def _local(self, server: McpServer) -> AsyncIterator[Any]:
        from mcp import StdioServerParameters, stdio_client

        command, folder = _program(server, self._root)
        parameters = StdioServerParameters(
            command=command,
            args=list(server.args),
            env={**server.env, AGENT_VARIABLE: f"mcp:{server.name}"},
            cwd=folder,
            encoding_error_handler="replace",
        )
        self._stderr = StderrTail()
        async with stdio_client(parameters, errlog=self._stderr.file) as streams:
            self._stderr.close()
            yield streams

    def _where(self) -> str:
        """The program or host, without secrets."""
        if self._server.transport == "stdio":
            return self._server.command
        try:
            host = urlsplit(self._server.url).netloc.rpartition("@")[2]
        except ValueError:
            host = ""
        return host or "its address"

    async def _with_stderr(self, problem: str) -> str:
        if self._stderr is None:
            return problem
        self._stderr.close()
        lines: str = await in_thread(self._stderr.lines, wait_s=_STDERR_WAIT_S)
        return f"{problem}; its last words:\n{lines}" if lines else problem


def _program(server: McpServer, root: Path) -> tuple[str, Path]:
    folder = root / os.path.expanduser(server.cwd or "")
    if not folder.is_dir():
        raise McpUnavailable(server.name, f"there is no folder {str(folder)!r}")
    return os.path.expanduser(server.command), folder


@asynccontextmanager
async def _remote(server: McpServer) -> AsyncIterator[Any]:
    headers = {**server.headers, AGENT_HEADER: "1"}
    if server.transport == "sse":
        from mcp.client.sse import sse_client

        async with sse_client(server.url, headers=headers, timeout=server.timeout) as streams:
            yield streams
        return
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    async with (
        httpx2.AsyncClient(
            headers=headers,
            timeout=server.timeout,
            verify=tls_context(server.url, httpx2.create_ssl_context),
        ) as http,
        streamable_http_client(server.url, http_client=http) as streams,
    ):
        yield streams


@asynccontextmanager
async def _watched(transport: Any, over: asyncio.Event) -> AsyncIterator[Any]:
    """Wrap a transport; `over` is set when the server closes its side."""
    async with transport as (reading, writing):
        yield _Watched(reading, over), writing


class _Watched:
    """A stream of messages that sets `over` when it ends."""

    def __init__(self, stream: Any, over: asyncio.Event) -> None:
        self._stream = stream
        self._over = over

    async def receive(self) -> Any:
        try:
            return await self._stream.receive()
        except Exception:
            self._over.set()
            raise

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except Exception:
            self._over.set()
            raise

    async def __aenter__(self) -> _Watched:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *exc_info: Any) -> Any:
        return await self._stream.__aexit__(*exc_info)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


async def _listed(client: Client) -> list[Any]:
    tools: list[Any] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools.extend(page.tools)
        cursor = page.next_cursor
        if cursor is None or len(tools) >= _MAX_TOOLS:
            break
    return tools[:_MAX_TOOLS]


def _fail(ready: asyncio.Future[None], failure: McpUnavailable) -> None:
    if not ready.done():
        ready.set_exception(failure)


def _words(exc: BaseException) -> str:
    """The message of an error, or of the first error in a group."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    message = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
    text = shortened(without_hidden(message).strip(), _MAX_PROBLEM)
    return text or type(exc).__name__


def _secrets(server: McpServer) -> list[str]:
    """The credentials for the server. They are masked in tool results."""
    words = [word for value in server.headers.values() for word in (value, *value.split())]
    return [*words, *secrets_of({**server.env, "URL": server.url})]
