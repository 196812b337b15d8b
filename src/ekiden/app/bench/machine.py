"""What this machine and its database could do if Ekiden cost nothing."""

from __future__ import annotations

import asyncio
import os
import platform
import time
from pathlib import Path
from typing import Any

from ekiden.app.bench.counting import Books
from ekiden.app.fsync import fsync_us

_ROUND_TRIPS = 1000


async def machine(database: Books, *, folder: Path, connections: int) -> dict[str, Any]:
    """The limits that figures of a load are to be read beside."""
    alone = await database.bare_commits(1)
    at_once = await database.bare_commits(connections)
    trip, loopback = await database.round_trip_us(), await loopback_us()
    return {
        "cores": _cores(),
        "kind": platform.machine(),
        "load_1min_before": round(os.getloadavg()[0], 2),
        "fsync_us": round(await asyncio.to_thread(fsync_us, folder), 1),
        "bare_commits_per_s": {
            "one_by_one": round(alone),
            "at_once": round(at_once),
            "connections": connections,
        },
        "loopback_us": None if loopback is None else round(loopback, 1),
        "statement_us": None if trip is None else round(trip, 1),
        "durability": await database.durability(),
    }


async def loopback_us() -> float | None:
    """One byte to this machine itself and back, over TCP; `None` where that is not allowed."""
    try:
        return await _loopback_us()
    except OSError:
        return None


async def _loopback_us() -> float:

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await reader.read(1):
                writer.write(piece)
        finally:
            writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        began = time.perf_counter()
        for _ in range(_ROUND_TRIPS):
            writer.write(b"x")
            await reader.readexactly(1)
        took = time.perf_counter() - began
        writer.close()
        await writer.wait_closed()
    return took / _ROUND_TRIPS * 1e6


def _cores() -> int:
    """Those that this process may use."""
    count = getattr(os, "sched_getaffinity", None)
    return len(count(0)) if count is not None else os.cpu_count() or 1
