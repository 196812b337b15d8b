"""A stand-in for Anthropic's Messages API on the loopback: it wants a tool once, then answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


class _Handler(BaseHTTPRequestHandler):
    tools: tuple[tuple[str, dict[str, Any]], ...] = ()

    def log_message(self, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])) or "{}")
        used = {"input_tokens": 5, "output_tokens": 3}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "usage": used}
        message |= {"model": asked.get("model"), "content": [], "stop_reason": None}
        block = self._block(asked)
        begun = {**block, "input": {}} if block["type"] == "tool_use" else {**block, "text": ""}
        pieces = [{"type": "text_delta", "text": each} for each in ("claude ", "done")]
        if block["type"] == "tool_use":
            pieces = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        stop = {"stop_reason": "tool_use" if block["type"] == "tool_use" else "end_turn"}
        self._send("text/event-stream")
        self._event("message_start", message=message)
        self._event("content_block_start", index=0, content_block=begun)
        for piece in pieces:
            self._event("content_block_delta", index=0, delta=piece)
        self._event("content_block_stop", index=0)
        self._event("message_delta", delta=stop, usage=used)
        self._event("message_stop")

    def do_HEAD(self) -> None:
        self._send("application/json")

    def _block(self, asked: Any) -> dict[str, Any]:
        told = json.dumps(asked.get("messages"))
        for name, arguments in self.tools:
            offered = any(each["name"] == name for each in asked.get("tools", ()))
            if offered and f'"name": "{name}"' not in told:
                return {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": arguments}
        return {"type": "text", "text": "claude done"}

    def _send(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.end_headers()

    def _event(self, kind: str, **more: Any) -> None:
        data = json.dumps({"type": kind, **more})
        self.wfile.write(f"event: {kind}\ndata: {data}\n\n".encode())


@contextmanager
def claude_api(*tools: tuple[str, dict[str, Any]]) -> Iterator[dict[str, str]]:
    """The environment with which the ``claude`` command talks to it."""
    handler = type("Handler", (_Handler,), {"tools": tools})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield {
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_port}",
            "ANTHROPIC_API_KEY": "not-a-key",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }
    finally:
        server.shutdown()
        server.server_close()
