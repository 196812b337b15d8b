"""`Runner.wait` returns, whichever process continues the session and whatever the store does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.conversation.model import ModelResponse
from ekiden.core.errors import StoreUnavailable, UserError
from ekiden.core.runs import Done, Failed, Outcome, OutOfBudget, Refused
from ekiden.engine.store_worker import StoreWorker
from ekiden.inbox import Inbox
from ekiden.runtime import CodeContext, Limits, RunConfig, Runner, RunResult
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ScriptedModel, call, say
from ekiden.testing.steps import StepLike
from tests.unit.runtime.asking.desks import Code, open_items, team_of


async def suspended(store: MemoryStore, team: Team) -> Session:
    """A session that waits for a person."""
    session = Session("s", store=store)
    await Runner.run(team, "go", session=session)
    return session


async def decide(store: MemoryStore) -> None:
    [item] = await open_items(store)
    await Inbox(store).answer(item.id, choice="approve", by="ann")


async def seen_by_waiter(
    store: MemoryStore, team: Team, session: Session, config: RunConfig | None = None
) -> RunResult:
    """What `Runner.wait` gives if a worker has the session before it can take it."""
    claim, _ = await store.claim("s", owner="a worker", lease_s=60)
    await decide(store)
    waiting = asyncio.create_task(Runner.wait(team, session, timeout_s=60))
    await asyncio.sleep(0)
    worker = StoreWorker(
        store, team, serves=[each.name for each in team], config=config or RunConfig()
    )
    await worker.advance(claim, await store.get("s"))
    return await waiting


def approving(then: Code) -> Team:
    """An agent that asks a person, and then does a given thing."""

    async def desk(ctx: CodeContext[Any]) -> Any:
        await ctx.request_approval("may I?")
        return await then(ctx)

    return team_of(desk=desk)


async def test_several_waiters_of_one_session_get_the_same_result() -> None:
    store, begun, gate = MemoryStore(), asyncio.Event(), asyncio.Event()
    done: list[str] = []

    async def answer(ctx: CodeContext[Any]) -> str:
        begun.set()
        await gate.wait()
        done.append("once")
        return "here you are"

    team = approving(answer)
    session = await suspended(store, team)
    waiting = [asyncio.create_task(Runner.wait(team, session, timeout_s=60)) for _ in range(3)]
    await decide(store)
    await begun.wait()
    gate.set()
    results = await asyncio.gather(*waiting)
    assert [each.final_output for each in results] == ["here you are"] * 3
    assert done == ["once"]


async def test_the_waiter_reads_a_workers_result_from_the_store() -> None:
    async def answer(ctx: CodeContext[Any]) -> dict[str, int]:
        return {"boxes": 7}

    store = MemoryStore()
    team = approving(answer)
    result = await seen_by_waiter(store, team, await suspended(store, team))
    assert result.outcome == Done('{"boxes":7}'), "of code, the text is stored"
    assert (result.last_agent.name, result.chain) == ("desk", ["user", "desk"])
    assert [event.type for event in result.events][-1] == "agent_complete"


async def test_a_failure_in_a_worker_is_the_waiters_outcome() -> None:
    async def answer(ctx: CodeContext[Any]) -> str:
        raise RuntimeError("no boxes")

    store = MemoryStore()
    team = approving(answer)
    result = await seen_by_waiter(store, team, await suspended(store, team))
    assert result.outcome == Failed("run.failed", "RuntimeError: no boxes")


REFUSAL = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "refusal", "refusal": "never"}],
}


def till(last: StepLike) -> Team:
    """A model that asks a person first."""
    asks = call("ask_person", role="boss", subject="x", question="may I?", options=["approve"])
    return Team(Agent("till", model=ScriptedModel([asks, last]), can_ask_people=["boss"]))


@pytest.mark.parametrize(
    ("last", "expected"),
    [(say("thanks"), Done("thanks")), (ModelResponse([REFUSAL]), Refused("never"))],
)
async def test_an_answer_or_refusal_of_a_model_in_a_worker_is_the_waiters_outcome(
    last: StepLike, expected: Outcome
) -> None:
    store, team = MemoryStore(), till(last)
    result = await seen_by_waiter(store, team, await suspended(store, team))
    assert result.outcome == expected


async def test_a_limit_that_a_worker_met_is_the_outcome() -> None:
    store, team = MemoryStore(), till(say("thanks"))
    few = RunConfig(limits=Limits(turns=1))
    result = await seen_by_waiter(store, team, await suspended(store, team), few)
    assert result.outcome == OutOfBudget("turns", 1, 1)


async def test_waiting_for_a_run_without_events_names_the_kind_of_its_end() -> None:
    store, team = MemoryStore(), till(say("thanks"))
    few = RunConfig(limits=Limits(turns=1), events=False)
    with pytest.raises(UserError, match="ended as 'out_of_budget' somewhere else"):
        await seen_by_waiter(store, team, await suspended(store, team), few)


async def test_waiting_for_a_session_that_does_not_wait_is_refused() -> None:
    async def answer(ctx: CodeContext[Any]) -> str:
        return "done"

    store = MemoryStore()
    team = team_of(desk=answer)
    session = await suspended(store, team)
    with pytest.raises(UserError, match="does not wait"):
        await Runner.wait(team, session)


class Blinking(MemoryStore):
    """A store that cannot be reached from time to time."""

    away = 0

    def __init__(self) -> None:
        super().__init__()
        self.back = asyncio.Event()

    def _look(self) -> None:
        if self.away:
            self.away -= 1
            raise StoreUnavailable("away")
        self.back.set()

    async def wait_for_change(self, timeout_s: float, **options: Any) -> None:
        self._look()
        await super().wait_for_change(timeout_s, **options)

    async def claim(self, session_id: str, **options: Any) -> Any:
        self._look()
        return await super().claim(session_id, **options)


@pytest.mark.parametrize("when", ["waiting", "taking"])
async def test_waiting_survives_a_brief_store_outage(
    when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ekiden.runtime.loop.answer_wait._RETRY_S", 0.0)

    async def answer(ctx: CodeContext[Any]) -> str:
        return "done"

    store = Blinking()
    team = approving(answer)
    session = await suspended(store, team)
    if when == "waiting":
        store.away = 2
        store.back.clear()
        waiting = asyncio.create_task(Runner.wait(team, session, timeout_s=60))
        await store.back.wait()
        await decide(store)
    else:
        await decide(store)
        store.away = 2
        waiting = asyncio.create_task(Runner.wait(team, session, timeout_s=60))
    assert (await waiting).final_output == "done"
