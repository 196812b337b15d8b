"""PostgreSQL with workers: one program accepts requests, and two worker processes run them.

    pip install 'ekiden[postgres]'
    python examples/postgres_workers.py postgresql://localhost/desk

You can start any number of workers on any number of machines. Urgent sessions come first. If a
worker dies, another worker continues its sessions at the last stored step.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

from ekiden import Agent, CodeContext, PostgresStore, Session, Team, submit
from ekiden.runtime import HandOff

# Agents in code need no key. With a model: Agent("painter", model="openai:gpt-5-mini")


async def triage_code(ctx: CodeContext) -> HandOff:
    """Hand everything to the painter."""
    return ctx.hand_off("painter", reason="a picture")


async def paint(ctx: CodeContext) -> str:
    """Answer, with the process that did the work."""
    return f"{ctx.text}, painted by process {os.getpid()}"


painter = Agent("painter", run=paint)
team = Team(Agent("triage", run=triage_code, handoffs=[painter]))


async def work(url: str) -> None:
    """One worker process, until nothing is left to do. On a server leave out --until-idle."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "ekiden.cli", "worker", "--team", "postgres_workers:team",
        "--store", url, "--until-idle", "--log", "none",
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
        stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    if await process.wait():
        raise SystemExit(f"a worker ended with {process.returncode}")


async def main(url: str) -> None:
    """Submit eight requests, have them done, and show the answers."""
    async with PostgresStore(url) as store:
        priorities = ["normal"] * 7 + ["urgent"]
        sessions = [Session(store=store, priority=each) for each in priorities]
        for number, session in enumerate(sessions):
            await submit(team, f"picture {number}", session=session)
        await asyncio.gather(work(url), work(url))
        for session in sessions:
            [*_, answer] = await session.get_items()
            print((await session.row()).outcome, "-", answer["content"][0]["text"])


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("store", help="the address of the database: postgresql://…")
    asyncio.run(main(options.parse_args().store))
