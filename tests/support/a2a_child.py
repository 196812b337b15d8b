"""Hands a request to a remote agent and may be killed on the way: ``a2a_child.py STORE CARD``."""

from __future__ import annotations

import asyncio
import sys

from ekiden import Agent, Runner, Session, SqliteStore, Team
from ekiden.integrations.a2a import RemoteA2A, a2a_agent
from ekiden.testing import ScriptedModel, transfer


def child_team(card: str) -> Team:
    """Triage, which hands everything to the printer."""
    printer = a2a_agent(RemoteA2A(card=card, poll_s=0.01), name="printer")
    model = ScriptedModel([transfer("printer")])
    return Team(Agent("triage", model=model, handoffs=[printer]), printer)


async def main() -> None:
    """One request."""
    async with SqliteStore(sys.argv[1]) as store:
        session = Session("s1", store=store)
        await Runner.run(child_team(sys.argv[2]), "flyers", session=session)


if __name__ == "__main__":
    asyncio.run(main())
