"""The warehouse: a process of its own that answers questions on the bus.

python -m desk.warehouse .ekiden/ekiden.db
"""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

from ekiden import AgentMessage, Bus, BusSettings
from ekiden.project.stores import open_store

from .books import opened

VISIBILITY_S = 5
"""If this process dies, another warehouse process gets its questions after so many seconds."""


async def answer(message: AgentMessage) -> dict[str, Any]:
    """Whether an order is back in the warehouse."""
    return {"is_back": bool(opened().order(str(message.payload))["is_back"])}


async def serve(store_address: str) -> None:
    """Answer questions until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    settings = BusSettings(visibility_s=VISIBILITY_S)
    async with (
        open_store(store_address) as store,
        Bus(store, settings=settings) as bus,
        bus.serve("warehouse", answer, concurrency=20),
    ):
        print('{"warehouse": "ready"}', flush=True)
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
