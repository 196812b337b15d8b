"""A handoff that is cancelled is undone wholly, with those after it, or not at all."""

from __future__ import annotations

import asyncio
from typing import Any

from ekiden.core.agent import Team
from ekiden.core.context import RunContextWrapper
from ekiden.handoff import handoff
from ekiden.handoff.records import records_of
from ekiden.handoff.requests import REQUESTS, Asked, document_of
from ekiden.runtime import Runner
from ekiden.sessions import Session
from ekiden.storage.base import Claim, Commit, DocumentWrite, Store
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, hang, say
from ekiden.tools import function_tool
from tests.unit.runtime.findable import findable
from tests.unit.runtime.offices import Office, ended


class Chain(Office):
    """`a` hands to `b`, `b` to `c`, and `c` works and never answers."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, completes="result")
        self.working = asyncio.Event()
        self.a.run, self.a.model = None, self.model
        self.b.handoffs.append(handoff(self.c, completes="result"))

        @function_tool
        async def work() -> str:
            self.working.set()
            await self.let_go.wait()
            return "done"

        self.c.tools.append(work)
        self.team = Team(self.a)

    def respond(self, request: Any) -> Any:
        if request.agent == "a" and request.input[-1].get("type") == "function_call_output":
            return say("a here")
        return {"a": call("transfer_to_b"), "b": call("transfer_to_c"), "c": call("work")}[
            request.agent
        ]


NESTED = [("rolled_back", "CANCELLED"), ("rolled_back", "CANCELLED")]


async def test_cancelling_a_handoff_first_rolls_back_the_handoffs_after_it() -> None:
    office = Chain(MemoryStore())
    office.let_go.set()
    await Runner.run(office.team, "go", session=office.session, max_turns=4)
    assert await office.told() == [("transferring", None)] * 2
    result = await office.controller.cancel("s.h1", reason="too long")
    assert ended(result) == ("rolled_back", "CANCELLED")
    assert await office.told() == NESTED
    first, second = records_of(await office.session.events())
    assert (first.error, second.error) == (
        "too long",
        "the handoff to 'b' before it was cancelled: too long",
    )
    assert (await Runner.resume(office.team, office.session)).final_output == "a here"


async def test_the_running_process_rolls_back_later_handoffs_before_the_cancelled_one() -> None:
    office = Chain(MemoryStore())
    running = asyncio.create_task(Runner.run(office.team, "go", session=office.session))
    await office.working.wait()
    result = await office.controller.cancel("s.h1")
    assert ended(result) == ("rolled_back", "CANCELLED")
    assert (await running).final_output == "a here"
    assert await office.told() == NESTED
    assert not await office.documents()


async def test_a_cancellation_whose_caller_timed_out_is_not_executed() -> None:
    office = Chain(MemoryStore())
    running = asyncio.create_task(Runner.run(office.team, "go", session=office.session))
    await office.working.wait()
    now_us = office.config.clock.now_us()
    given_up = Asked(id="hrq1", cancel="s.h1", state="timed_out", asked_us=now_us)
    of_another = Asked(id="hrq2", cancel="s.h9", asked_us=now_us)
    await office.store.write_documents([document_of("s", each) for each in (given_up, of_another)])
    result = await office.controller.cancel("s.h2")
    assert ended(result) == ("rolled_back", "CANCELLED")
    assert (await office.told())[:2] == [("transferring", None), ("rolled_back", "CANCELLED")]
    running.cancel()
    await asyncio.wait([running])
    assert not await office.documents()


class Undoing(Office):
    """Its `b` reserves something and never answers; to undo that takes until it is let go."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.undoing = asyncio.Event()
        self.reserved = asyncio.Event()
        self.b.run, self.b.model = self.reserve, None

    async def reserve(self, ctx: RunContextWrapper[Any]) -> str:
        await ctx.on_rollback(findable(lambda rollback: self.undo(rollback)), key="room")
        self.reserved.set()
        await asyncio.get_running_loop().create_future()
        return "never"

    async def undo(self, rollback: Any) -> None:
        self.undoing.set()
        await self.let_go.wait()


async def test_cancelling_finishes_a_rollback_that_another_process_left() -> None:
    office = Undoing(MemoryStore())
    office.a.run, office.a.model = None, ScriptedModel([call("transfer_to_b"), say("a here")])
    running = asyncio.create_task(Runner.run(office.team, "go", session=office.session))
    await office.reserved.wait()
    cancelling = asyncio.create_task(office.controller.cancel("s.h1"))
    await office.undoing.wait()
    assert not await office.documents(), "it was taken up"
    running.cancel()
    await asyncio.wait([running])
    office.let_go.set()
    assert ended(await cancelling) == ("rolled_back", "CANCELLED")
    row = await office.session.row()
    assert (row.agent, row.status, row.owner) == ("a", "ready", None)
    assert (await Runner.resume(office.team, office.session)).final_output == "a here"


async def test_a_run_that_ends_with_its_rollback_ends_before_the_next_handoff() -> None:
    office = Undoing(MemoryStore())
    office.let_go.set()
    await (await office.at_work())
    office.let_go.clear()
    office.a.handoffs.append(office.c)
    starting = office.start()
    await office.reserved.wait()
    cancelling = asyncio.create_task(office.controller.cancel("s.h1"))
    await office.undoing.wait()
    starting.cancel()
    cancelling.cancel()
    await asyncio.wait([starting, cancelling])
    office.let_go.set()
    assert ended(await office.start(to="c")) == ("completed", None)
    assert await office.told() == [("rolled_back", "CANCELLED"), ("completed", None)]


async def test_a_cancellation_withdrawn_while_it_is_executed_has_no_effect() -> None:
    office = Undoing(MemoryStore())
    office.b.run = None
    office.b.model = ScriptedModel(respond=lambda request: hang())
    office.a.run, office.a.model = None, ScriptedModel([call("transfer_to_b")])

    class GivenUp(MemoryStore):
        """The cancelling task gives up at the moment at which the cancel is to be stored."""

        async def commit(self, claim: Claim, commit: Commit) -> None:
            for each in commit.documents:
                found = await self.get_document(REQUESTS, each.key)
                if found is not None and found.body["state"] == "open":
                    late = {**found.body, "state": "timed_out"}
                    await self.write_documents([replace_body(each.key, late)])
            await super().commit(claim, commit)

    office.store = GivenUp()
    office.session = Session("s", store=office.store)
    running = asyncio.create_task(Runner.run(office.team, "go", session=office.session))
    while len(await office.told()) < 1:
        await office.store.wait_for_change(5)
    result = await office.controller.cancel("s.h1")
    assert (result.status, result.target) == ("transferring", "b")
    assert not running.done()
    assert (await office.session.row()).agent == "b"
    running.cancel()
    await asyncio.wait([running])


def replace_body(key: str, body: Any) -> DocumentWrite:
    return DocumentWrite(collection=REQUESTS, key=key, body=body)
