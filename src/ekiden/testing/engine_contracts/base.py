"""What every part of the engine contract shares: the engine's role, and short words for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.conversation.model import is_message, text_of
from ekiden.core.events import Event
from ekiden.core.questions import InboxItem
from ekiden.core.runs import ACTIVE, RunStatus
from ekiden.inbox import Inbox
from ekiden.project.runs.stored_runs import run_status
from ekiden.runtime import CodeContext, RunConfig
from ekiden.sessions import Session
from ekiden.storage.base import SessionRow, Store

CONFIG = RunConfig(approver="inbox")
"""How the suite runs, unless a test says otherwise: people are asked in the inbox."""
PATIENCE_S = 20.0
"""After so long a test gives up waiting."""
_LOOK_EVERY_S = 0.05

Code = Callable[[CodeContext[Any]], Awaitable[Any]]


class EngineUnderTest(Protocol):
    """One engine on one store, as the contract drives it; everything happens in this process.

    It is created stopped. After `stop` it can be started again, also with another team, and resumes
    the work in the store.
    """

    @property
    def store(self) -> Store:
        """Where the sessions are; open as long as the engine exists, started or not."""
        ...

    async def start(
        self, team: Agent[Any] | Team, *, config: RunConfig = CONFIG, concurrency: int = 16
    ) -> None:
        """Run ready sessions, at most `concurrency` at a time, and handle deadlines."""
        ...

    async def stop(self, *, drain: bool = True) -> None:
        """Stop like a process after SIGTERM: it takes no new work.

        Current work is finished first; without `drain` it is abandoned, and stays in the store for
        the next process.
        """
        ...

    async def submit(self, text: str, session_id: str, *, priority: int | str = "normal") -> None:
        """Store a message for the session, which is made if need be, and return at once.

        The engine is started. While the session is run, wait.
        """
        ...

    async def cancel(self, session_id: str) -> None:
        """Stop the run of the session, for good: its work is kept."""
        ...


class EngineContractBase:
    """The hook that an engine's test class fills in."""

    @pytest.fixture
    async def engine(self) -> EngineUnderTest:
        """An engine on an empty store, not started; a subclass overrides this, and stops it
        afterwards."""
        raise NotImplementedError("override the `engine` fixture")


def team_of(**agents: Code) -> Team:
    """A team of agents that are code."""
    return Team(*[Agent(name, run=code) for name, code in agents.items()])


async def settled(engine: EngineUnderTest, session_id: str = "s") -> SessionRow:
    """The session when its work has ended: it has an outcome, or waits for people."""
    return await until(engine, lambda _, status: status not in ACTIVE, session_id)


async def until(
    engine: EngineUnderTest,
    is_so: Callable[[SessionRow, RunStatus], bool],
    session_id: str = "s",
) -> SessionRow:
    """The session when it has no lease and `is_so` accepts its row and the state of its run."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            row = await engine.store.get(session_id)
            if row.owner is None and is_so(row, await run_status(engine.store, row)):
                return row
            await engine.store.wait_for_change(_LOOK_EVERY_S)


async def done(engine: EngineUnderTest, session_id: str = "s") -> str:
    """The last words in the session, once its run is done, however often it stops before."""
    await until(engine, lambda _, status: status == "done", session_id)
    return (await words(engine, session_id))[-1]


async def outcome(engine: EngineUnderTest, session_id: str = "s") -> str | None:
    """How the session's run ended, once it did."""
    return (await settled(engine, session_id)).outcome


async def answered(engine: EngineUnderTest, text: str, session_id: str = "s") -> str:
    """The result of a message: the last answer in the session."""
    await engine.submit(text, session_id)
    row = await settled(engine, session_id)
    assert (row.status, row.outcome) == ("idle", "done"), f"{row.status}, {row.outcome}"
    return (await words(engine, session_id))[-1]


async def words(engine: EngineUnderTest, session_id: str = "s") -> list[str]:
    """All that was said in the session, by people and agents."""
    items = await Session(session_id, store=engine.store).get_items()
    return [text_of(item) for item in items if is_message(item)]


async def events(
    engine: EngineUnderTest, type: str | None = None, session_id: str = "s"
) -> list[Event]:
    """What happened in the session; all of it, or one type of events."""
    found = await engine.store.events(session_id)
    return [event for event in found if type is None or event.type == type]


async def asked_person(engine: EngineUnderTest, session_id: str = "s") -> InboxItem:
    """The one open question that people find in the inbox, once the session waits for them."""
    await until(engine, lambda _, status: status == "waiting", session_id)
    [item] = (await Inbox(engine.store).list()).items
    return item


async def decide(engine: EngineUnderTest, item: InboxItem, choice: str) -> None:
    """A person answers."""
    await Inbox(engine.store).answer(item.id, choice=choice, by="mira")
