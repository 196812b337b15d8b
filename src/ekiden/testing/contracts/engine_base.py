"""The interface of engines under test, and helpers for all parts of the engine contract."""

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
from ekiden.project.stored_runs import run_status
from ekiden.runtime import CodeContext, RunConfig
from ekiden.sessions import Session
from ekiden.storage.base import SessionRow, Store

CONFIG = RunConfig(approver="inbox")
"""The default configuration of the tests: people are asked in the inbox."""
TIMEOUT_S = 20.0
"""The time limit of each wait."""
_POLL_S = 0.05

Code = Callable[[CodeContext[Any]], Awaitable[Any]]


class EngineUnderTest(Protocol):
    """One engine on one store, in this process.

    The contract starts and stops this engine. After its creation the engine is stopped. After
    `stop`, the engine can be started again, even with another team, and then resumes the work in
    the store.
    """

    @property
    def store(self) -> Store:
        """The store of the sessions. The store is open even when the engine is stopped."""
        ...

    async def start(
        self, team: Agent[Any] | Team, *, config: RunConfig = CONFIG, concurrency: int = 16
    ) -> None:
        """Run ready sessions, at most `concurrency` at a time, and handle deadlines."""
        ...

    async def stop(self, *, drain: bool = True) -> None:
        """Stop like a process after SIGTERM: it takes no new work.

        With `drain`, current work is finished first. Without `drain`, current work is abandoned,
        and stays in the store for the next process.
        """
        ...

    async def submit(self, text: str, session_id: str, *, priority: int | str = "normal") -> None:
        """Store a message for the session, and return without waiting for the answer. A missing
        session is created.

        The engine must be started. If the session is running, the call first waits until the run
        has ended.
        """
        ...

    async def cancel(self, session_id: str) -> None:
        """Stop the run of the session, and keep its work."""
        ...


class EngineContractBase:
    """The fixture that the test class of an engine overrides."""

    @pytest.fixture
    async def engine(self) -> EngineUnderTest:
        """A stopped engine on an empty store. A subclass overrides this fixture, and stops the
        engine after the test."""
        raise NotImplementedError("override the `engine` fixture")


def team_of(**agents: Code) -> Team:
    """A team of agents that are code."""
    return Team(*[Agent(name, run=code) for name, code in agents.items()])


async def settled(engine: EngineUnderTest, session_id: str = "s") -> SessionRow:
    """Wait until the session has an outcome, or waits for people."""
    return await until(engine, lambda _, status: status not in ACTIVE, session_id)


async def until(
    engine: EngineUnderTest,
    condition: Callable[[SessionRow, RunStatus], bool],
    session_id: str = "s",
) -> SessionRow:
    """Wait until the session has no lease, and `condition` is true for its row and its run
    status."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            row = await engine.store.get(session_id)
            if row.owner is None and condition(row, await run_status(engine.store, row)):
                return row
            await engine.store.wait_for_change(_POLL_S)


async def done(engine: EngineUnderTest, session_id: str = "s") -> str:
    """Wait until the run is done, and return the last message."""
    await until(engine, lambda _, status: status == "done", session_id)
    return (await words(engine, session_id))[-1]


async def outcome(engine: EngineUnderTest, session_id: str = "s") -> str | None:
    """Wait until the run has ended, and return its outcome."""
    return (await settled(engine, session_id)).outcome


async def answered(engine: EngineUnderTest, text: str, session_id: str = "s") -> str:
    """Submit a message, and wait for the answer."""
    await engine.submit(text, session_id)
    row = await settled(engine, session_id)
    assert (row.status, row.outcome) == ("idle", "done"), f"{row.status}, {row.outcome}"
    return (await words(engine, session_id))[-1]


async def words(engine: EngineUnderTest, session_id: str = "s") -> list[str]:
    """The texts of all messages in the session."""
    items = await Session(session_id, store=engine.store).get_items()
    return [text_of(item) for item in items if is_message(item)]


async def events(
    engine: EngineUnderTest, type: str | None = None, session_id: str = "s"
) -> list[Event]:
    """The events of the session, or those of one type."""
    found = await engine.store.events(session_id)
    return [event for event in found if type is None or event.type == type]


async def asked_person(engine: EngineUnderTest, session_id: str = "s") -> InboxItem:
    """Wait until the session waits for people, and return the only open question."""
    await until(engine, lambda _, status: status == "waiting", session_id)
    [item] = (await Inbox(engine.store).list()).items
    return item


async def decide(engine: EngineUnderTest, item: InboxItem, choice: str) -> None:
    """Answer the question as a person."""
    await Inbox(engine.store).answer(item.id, choice=choice, by="mira")
