"""Reads a line, waits until the warehouse is on the bus, and prints a line; again and again.

After a jump of the clock, the warehouse is there again when it has renewed its presence.
"""

from __future__ import annotations

import asyncio
import sys

from ekiden import Bus
from ekiden.project.stores import open_store

_PAUSE_S = 0.1


async def main(store_address: str) -> None:
    """Run until the end of the input."""
    async with open_store(store_address) as store, Bus(store) as bus:
        while await asyncio.to_thread(sys.stdin.readline):
            while "warehouse" not in await bus.agents():
                await store.wait_for_change(_PAUSE_S)
            print("open", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
