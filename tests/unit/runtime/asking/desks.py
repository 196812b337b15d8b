"""Teams that ask each other, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.questions import InboxItem
from ekiden.engine import Worker, submit
from ekiden.inbox import Inbox, InboxQuery
from ekiden.runtime import CodeContext, RunConfig, Runner
from ekiden.sessions import Session
from ekiden.storage.base import MessageFilter, SessionRow, Store

MODES = pytest.mark.parametrize("mode", ["inline", "worker"])
"""Whether the process that runs a session also runs those it asks, or workers do."""

Code = Callable[[CodeContext[Any]], Awaitable[Any]]


def team_of(**agents: Code) -> Team:
    """A team of agents that are code."""
    return Team(*[Agent(name, run=code) for name, code in agents.items()])


async def asks_people(ctx: CodeContext[Any]) -> str:
    """An agent that asks a person."""
    return (await ctx.request_approval("may I?")).choice


async def answers(ctx: CodeContext[Any]) -> str:
    """An agent that knows it all."""
    return "yes"


async def open_items(store: Store) -> list[InboxItem]:
    """What waits for people."""
    return list((await Inbox(store).list(InboxQuery())).items)


async def open_waits(store: Store) -> list[str]:
    """Who waits for whom, as it is stored."""
    found = await store.find_messages(MessageFilter(waited_for=True, states={"open"}))
    return sorted(f"{message.waiter} -> {message.body['awaits']}" for message in found)


async def work(store: Store, team: Team, config: RunConfig | None = None) -> None:
    """Let a worker do all there is to do."""
    await Worker(store, team, run_config=config).run(until_idle=True)


async def submitted(store: Store, team: Team, config: RunConfig | None = None) -> None:
    """A session ``s`` with a message, taken as far as workers can take it."""
    await submit(team, "go", session=Session("s", store=store), run_config=config)
    await work(store, team, config)


async def outcome(store: Store, session_id: str = "s") -> tuple[str, str | None]:
    """Status and outcome of a session."""
    row = await store.get(session_id)
    return row.status, row.outcome


async def said(store: Store, session_id: str = "s") -> str:
    """The last thing that was said in a session."""
    from ekiden.core.conversation.model import text_of

    events = await store.events(session_id, with_items=True)
    return text_of(events[-1].items[-1])


async def run(mode: str, store: Store, team: Team, config: RunConfig | None = None) -> None:
    """Take a session ``s`` with a message as far as possible, in one of the `MODES`."""
    if mode == "worker":
        await submitted(store, team, config)
    else:
        await Runner.run(team, "go", session=Session("s", store=store), run_config=config)


async def session_of(store: Store, agent: str) -> SessionRow:
    """The only session of an agent."""
    [row] = [row for row in (await store.list()).sessions if row.agent == agent]
    return row
