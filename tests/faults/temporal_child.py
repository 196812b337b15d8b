"""A worker on Temporal that is killed: ``python -m tests.faults.temporal_child STORE ADDRESS LEASE
FOLDER``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.integrations.temporal import TemporalWorker
from ekiden.project.stores import open_store
from ekiden.runtime import CodeContext, RunConfig
from ekiden.tools import function_tool


def relay_team(folder: Path) -> Team:
    """A relay of three: every effect is a line in a file, with the process that had it."""
    import os

    def note(name: str) -> None:
        with (folder / "effects.txt").open("a", encoding="utf-8") as file:
            file.write(f"{name} {os.getpid()}\n")

    @function_tool
    async def stamp(session: str) -> str:
        note(f"stamp-{session}")
        return "stamped"

    async def first(ctx: CodeContext[Any]) -> Any:
        await ctx.call(stamp, session=ctx.session_id)
        return ctx.hand_off("second", reason="go on")

    async def second(ctx: CodeContext[Any]) -> Any:
        note(f"second-{ctx.session_id}")
        while (folder / f"hold-{os.getpid()}").exists():  # noqa: ASYNC110 - another process removes it
            await asyncio.sleep(0.01)
        return ctx.hand_off("third", reason="go on")

    async def third(ctx: CodeContext[Any]) -> str:
        return f"done {ctx.session_id}"

    last = Agent("third", run=third)
    middle = Agent("second", run=second, handoffs=[last])
    return Team(Agent("first", run=first, tools=[stamp], handoffs=[middle]), middle, last)


async def main(store_url: str, address: str, lease_s: str, folder: str) -> None:
    """Work until killed, or told to end."""
    import os

    place = Path(folder)
    async with open_store(store_url) as store:
        worker = TemporalWorker(
            store,
            relay_team(place),
            address=address,
            run_config=RunConfig(lease_s=float(lease_s)),
            linger_s=0.2,
        )
        (place / f"up-{os.getpid()}").touch()
        await worker.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
