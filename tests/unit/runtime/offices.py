"""A team that is at work while another process requests its session."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.core.context import RunContextWrapper
from ekiden.core.handoffs import HandoffResult
from ekiden.handoff import handoff
from ekiden.handoff.records import records_of
from ekiden.handoff.requests import REQUESTS, Asked, document_of
from ekiden.runtime import HandoffController, RunConfig, Runner
from ekiden.sessions import Session
from ekiden.storage.base import Document, DocumentWrite, Store
from ekiden.testing import ScriptedModel, call, say
from ekiden.tools import function_tool


class Office:
    """A team whose `a` is at work until it is let go or cancelled; `b` gets the session."""

    def __init__(self, store: Store, *, b: Any = None, **terms: Any) -> None:
        self.store = store
        self.busy = asyncio.Event()
        self.let_go = asyncio.Event()
        self.ended: list[str] = []
        self.model = ScriptedModel(respond=self.respond)
        self.b = Agent("b", model=self.model, **(b or {}))
        self.c = Agent("c", model=self.model)
        self.a = Agent("a", run=self.work, handoffs=[handoff(self.b, **terms)])
        self.team = Team(self.a, self.c)
        self.session = Session("s", store=store)
        self.config = RunConfig()

    def respond(self, request: Any) -> Any:
        return say(f"{request.agent} here")

    async def work(self, ctx: RunContextWrapper[Any]) -> str:
        self.busy.set()
        try:
            await self.let_go.wait()
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        self.ended.append("finished")
        return "a here"

    @property
    def controller(self) -> HandoffController:
        return HandoffController(self.team, self.store, run_config=self.config)

    async def at_work(self) -> asyncio.Task[Any]:
        running = asyncio.create_task(
            Runner.run(self.team, "work", session=self.session, run_config=self.config)
        )
        await self.busy.wait()
        return running

    def start(self, **options: Any) -> asyncio.Task[HandoffResult]:
        return asyncio.create_task(self.controller.start("s", **{"to": "b", **options}))

    async def asked(self) -> str:
        """Wait until a request is stored; gives its id."""
        while not (found := await self.documents()):
            await self.store.wait_for_change(5)
        return str(found[0].body["id"])

    async def documents(self) -> Sequence[Document]:
        return await self.store.list_documents(REQUESTS, limit=1000)

    async def told(self) -> list[tuple[str, str | None]]:
        return [(each.status, each.code) for each in records_of(await self.session.events())]


class Digging(Office):
    """Its `a` and `b` call a tool in every turn; that of `a` waits until it is let go."""

    def __init__(self, store: Store, **terms: Any) -> None:
        super().__init__(store, **terms)

        @function_tool
        async def dig() -> str:
            self.busy.set()
            await self.let_go.wait()
            return "gold"

        self.a = Agent("a", model=self.model, tools=[dig], handoffs=self.a.handoffs)
        self.b.tools.append(dig)
        self.team = Team(self.a)

    def respond(self, request: Any) -> Any:
        return call("dig")


def ended(result: HandoffResult) -> tuple[str, str | None]:
    return result.status, None if result.error is None else result.error.code


def waiting(session_id: str, number: int, **fields: Any) -> DocumentWrite:
    return document_of(session_id, Asked(**{"id": f"hrq{number:04}", "to": "b", **fields}))
