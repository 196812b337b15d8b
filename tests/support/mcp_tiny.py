"""A very small MCP server of the older protocol, by hand, that misbehaves as it is told.

``python mcp_tiny.py [WAY] …``, a way being ``die-before-answer``, ``die-after-answer``, ``silent``,
``noise``, ``bad-schema`` or ``endless-pages``.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

WAYS = frozenset(sys.argv[1:])
TOOLS = [
    {"name": "pid", "inputSchema": {"type": "object"}},
    {"name": "pid", "description": "A second one.", "inputSchema": {"type": "object"}},
    {"name": "odd", "title": "A title only.", "inputSchema": {"type": "object"}},
]
if "bad-schema" in WAYS:
    TOOLS[0]["inputSchema"] = {"type": "array"}


def answer(message: dict[str, Any]) -> dict[str, Any] | None:
    match message.get("method"):
        case "initialize":
            return {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "tiny", "version": "1"},
            }
        case "tools/list" if "endless-pages" in WAYS:
            return {"tools": TOOLS, "nextCursor": "again"}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            if "die-before-answer" in WAYS:
                sys.stderr.write("I am dying\n")
                sys.stderr.flush()
                os._exit(1)
            if message["params"]["name"] == "odd":
                return {"content": "not a list"}
            return {"content": [{"type": "text", "text": str(os.getpid())}]}
    return None


def main() -> None:
    if "noise" in WAYS:
        sys.stdout.write("Welcome!\n\xff{]\n")
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "silent" in WAYS:
            continue
        result = answer(message)
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        if result is None:
            reply["error"] = {"code": -32601, "message": "Method not found"}
        else:
            reply["result"] = result
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()
        if message.get("method") == "tools/call" and "die-after-answer" in WAYS:
            os._exit(1)


main()
