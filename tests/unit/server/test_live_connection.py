"""The tasks of one WebSocket connection."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

from ekiden.hub import EventHub
from ekiden.server.streams.live import LiveConnection
from ekiden.storage.memory import MemoryStore


class Unread:
    """A socket whose client asks for many subscriptions, reads nothing, and leaves."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.asked = 0

    async def receive(self) -> dict[str, Any]:
        if self.asked == self.most:
            return {"type": "websocket.disconnect"}
        self.asked += 1
        wanted = {"type": "subscribe", "id": str(self.asked), "after": "", "follow": False}
        return {"type": "websocket.receive", "text": json.dumps(wanted)}

    async def send_text(self, text: str) -> None:
        await asyncio.Event().wait()


async def test_a_client_that_leaves_without_reading_leaves_no_task_behind() -> None:
    before = asyncio.all_tasks()
    async with EventHub(MemoryStore()) as hub:
        desk: Any = SimpleNamespace(hub=hub, inbox=None)
        # The queue has room for 64 messages: the last `done` must wait.
        socket: Any = Unread(most=40)
        await LiveConnection(socket, desk, heartbeat_s=60).run(None)
    assert asyncio.all_tasks() == before
