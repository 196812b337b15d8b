"""What tests of state share: an agent that is a function of its context."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ekiden.core.agent import Agent
from ekiden.runtime import CodeContext, RunConfig, Runner
from ekiden.sessions import Session
from ekiden.storage.base import Commit
from ekiden.storage.memory import MemoryStore

SHOP = RunConfig(app="shop")
Code = Callable[[CodeContext[Any]], Any]


class CountingStore(MemoryStore):
    """Counts the reads of documents."""

    def __init__(self) -> None:
        super().__init__()
        self.listed: list[str] = []
        self.fail_next = False
        self.commits_fail = 1

    async def list_documents(self, collection: str, **options: Any) -> Any:
        self.listed.append(collection)
        return await super().list_documents(collection, **options)

    async def commit(self, claim: Any, commit: Commit) -> None:
        if self.fail_next:
            self.fail_next = False
            raise ConnectionError("the disk is full")
        await super().commit(claim, commit)


async def do(code: Code, session: Session, config: RunConfig = SHOP) -> Any:
    """What `code` gives as an agent that is code."""
    given: list[Any] = []

    async def run(ctx: CodeContext[Any]) -> str:
        given.append(code(ctx))
        return "done"

    await Runner.run(Agent("a", run=run), "hi", session=session, run_config=config)
    return given[-1]


def of(store: Any, session: str, user: str | None) -> Session:
    return Session(session, store=store, user_id=user)
