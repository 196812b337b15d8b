"""An MCP server for tests, made with the SDK: ``python mcp_server.py stdio|http|sse [port]``."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("tests", log_level="CRITICAL")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def about(topic: str) -> dict[str, Any]:
    """Tell something in a structured way."""
    return {"topic": topic, "emoji": "🙂", "length": len(topic)}


@server.tool(structured_output=False)
def say(text: str, times: int = 1) -> str:
    """Say it."""
    return text * times


@server.tool()
def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


@server.tool(structured_output=False)
def picture() -> list[Any]:
    """Draw."""
    return ["before", Image(data=b"\x89PNG" + bytes(96), format="png"), "after"]


@server.tool(structured_output=False)
def variable(name: str) -> str:
    """What the environment says."""
    return repr(os.environ.get(name))


@server.tool(structured_output=False)
def header(ctx: Context, name: str) -> str:
    """A header of the request."""
    request = ctx.request_context.request
    return str(None if request is None else request.headers.get(name))


@server.tool(structured_output=False)
def folder() -> str:
    """Where the server runs."""
    return str(Path.cwd().resolve())


@server.tool(structured_output=False)
def process() -> str:
    """Which process the server is."""
    return str(os.getpid())


@server.tool(structured_output=False)
def key(ctx: Context) -> str:
    """The idempotency key of this call."""
    meta = ctx.request_context.meta
    return str(dict(meta or {}).get("ekiden/idempotency_key"))


@server.tool(
    structured_output=False,
    annotations=ToolAnnotations(read_only_hint=False, destructive_hint=True),
)
def erase(name: str) -> str:
    """Delete something for good."""
    return f"{name} is gone"


@server.tool(structured_output=False, annotations=ToolAnnotations(read_only_hint=True))
def peek(name: str) -> str:
    """Look at something."""
    return f"{name} is there"


@server.tool(structured_output=False, annotations=ToolAnnotations(read_only_hint=False))
def touch(name: str) -> str:
    """Do something to it, and not say what."""
    return f"{name} is touched"


@server.tool()
async def wait(folder: str) -> str:
    """Wait for ever, and leave notes in the folder."""
    place = Path(folder)
    (place / "begun").touch()
    try:
        await asyncio.Event().wait()
    except BaseException:
        (place / "cancelled").touch()
        raise
    return "never"


@server.tool()
def die(code: int = 3) -> str:
    """End the server at once."""
    sys.stderr.write("\x1b[31mgoodbye, cruel world\n")
    sys.stderr.flush()
    os._exit(code)


@server.tool(
    name="strange/näme of a tool that is much longer than what any provider takes as a name",
    description="Hidden:\u202e\U000e0041 " + "x" * 10_000,
    structured_output=False,
)
def strange() -> str:
    return "strange"


def main(transport: str, port: int) -> None:
    if transport == "stdio":
        server.run("stdio")
        return
    import uvicorn

    app = server.sse_app() if transport == "sse" else server.streamable_http_app()
    listener = socket.create_server(("127.0.0.1", port))
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
