"""An "always" in the inbox, and what else was asked at the same time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import pytest

from ekiden.core.agent import Agent, Team
from ekiden.core.errors import StoreUnavailable
from ekiden.core.errors.messages import InboxItemClosed
from ekiden.core.profile import Confirmation
from ekiden.core.roles import Approval, ConfirmationRequest
from ekiden.core.tools.tool import FunctionTool
from ekiden.inbox import Inbox
from ekiden.runtime import RunConfig, Runner
from ekiden.runtime.questions.due import run_timers
from ekiden.sessions import Session
from ekiden.storage.base import Batch, Claim, Commit, Written
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ManualClock, ScriptedModel, call, say
from ekiden.tools import function_tool
from tests.unit.runtime.asking.desks import open_items, outcome, said, submitted, work


class Interrupted(MemoryStore):
    """A store in which something happens just before a question is withdrawn."""

    before_withdrawal: Callable[[], Awaitable[None]] | None = None
    is_down = False

    async def write(self, batch: Batch) -> Written:
        is_withdrawal = any((e.details or {}).get("change") == "cancelled" for e in batch.events)
        happens = self.before_withdrawal
        if is_withdrawal and happens is not None:
            self.before_withdrawal = None
            await happens()
        return await super().write(batch)

    async def commit(self, claim: Claim, commit: Commit) -> None:
        if self.is_down:
            raise StoreUnavailable("it is down")
        await super().commit(claim, commit)

    async def go_down(self) -> None:
        self.is_down = True


class Tills:
    """A model that makes payments 1, 2, … side by side, each of which needs a person's yes."""

    def __init__(self, payments: int = 2) -> None:
        self.paid: list[int] = []

        @function_tool(confirmation=Confirmation(timeout_s=60))
        async def pay(cents: int) -> str:
            """Pay."""
            self.paid.append(cents)
            return f"{cents} paid"

        calls = [call("pay", cents=cents) for cents in range(1, payments + 1)]
        self.model = ScriptedModel([calls, say("done")])
        self.team = Team(Agent("till", model=self.model, tools=[pay]))
        self.clock = ManualClock()
        self.store = Interrupted(self.clock)
        self.config = RunConfig(approver="inbox", clock=self.clock)
        self.items: dict[int, str] = {}

    async def begin(self) -> None:
        """Run until people are asked about all."""
        await submitted(self.store, self.team, self.config)
        for item in await open_items(self.store):
            self.items[int((item.arguments or "").removeprefix('{"cents":').rstrip("}"))] = item.id

    async def answer(self, cents: int, choice: str, **more: Any) -> None:
        await Inbox(self.store).answer(self.items[cents], choice=choice, by="mira", **more)

    async def go_on(self) -> None:
        await work(self.store, self.team, self.config)

    def told(self) -> list[str]:
        """The results of its calls that the model got, in their order."""
        items = self.model.calls[-1].input
        return [str(item["output"]) for item in items if "output" in item]


@pytest.mark.parametrize("first", [1, 2, 3])
async def test_an_always_approval_covers_calls_pending_at_the_same_time(first: int) -> None:
    tills = Tills(3)
    await tills.begin()
    await tills.answer(first, "approve", always=True, scope="session")
    await tills.go_on()
    assert sorted(tills.paid) == [1, 2, 3]
    assert tills.told() == ["1 paid", "2 paid", "3 paid"]
    assert await outcome(tills.store) == ("idle", "done")
    assert await open_items(tills.store) == []
    for moot in {1, 2, 3} - {first}:
        with pytest.raises(InboxItemClosed, match="cancelled"):
            await tills.answer(moot, "reject")


@pytest.mark.parametrize("granted", [1, 2])
async def test_a_rejection_of_one_call_overrides_an_always_approval_of_another(
    granted: int,
) -> None:
    tills = Tills()
    await tills.begin()
    await tills.answer(granted, "approve", always=True, scope="session")
    await tills.answer(3 - granted, "reject", text="not this one")
    await tills.go_on()
    assert tills.paid == [granted]
    assert "not this one" in tills.told()[2 - granted]
    assert await said(tills.store) == "done"


async def test_a_cancelled_approval_overrides_an_always_approval_of_another_call() -> None:
    tills = Tills()
    await tills.begin()
    await tills.answer(1, "approve", always=True, scope="session")
    await Inbox(tills.store).cancel(tills.items[2], by="mira", reason="never mind")
    await tills.go_on()
    assert tills.paid == [1]


async def test_edited_arguments_of_one_call_override_an_always_approval_of_another() -> None:
    tills = Tills()
    await tills.begin()
    await tills.answer(1, "approve", always=True, scope="session")
    await tills.answer(2, "approve", arguments='{"cents":7}', confirm_edit=True)
    await tills.go_on()
    assert tills.paid == [1, 7]


async def test_an_always_approval_overrides_an_expired_approval() -> None:
    tills = Tills()
    await tills.begin()
    await tills.answer(1, "approve", always=True, scope="session")
    tills.clock.advance(61)
    await run_timers(tills.store)
    await tills.go_on()
    assert tills.paid == [1, 2]


@pytest.mark.parametrize("granted", [1, 2])
async def test_a_rejection_that_races_with_an_always_approval_wins(granted: int) -> None:
    tills = Tills()
    await tills.begin()
    await tills.answer(granted, "approve", always=True, scope="session")
    tills.store.before_withdrawal = partial(
        tills.answer, 3 - granted, "reject", text="too late for a yes"
    )
    await tills.go_on()
    assert tills.store.before_withdrawal is None
    assert tills.paid == [granted]
    assert "too late for a yes" in tills.told()[2 - granted]
    assert await outcome(tills.store) == ("idle", "done")


@pytest.mark.parametrize("granted", [1, 2])
async def test_a_crash_after_cancelling_a_question_does_not_ask_it_again(granted: int) -> None:
    tills = Tills()
    await tills.begin()
    await tills.answer(granted, "approve", always=True, scope="session")
    tills.store.before_withdrawal = tills.store.go_down
    with pytest.raises(StoreUnavailable):
        await Runner.resume(tills.team, Session("s", store=tills.store), run_config=tills.config)
    tills.store.is_down = False
    tills.clock.advance(3600)
    await tills.go_on()
    assert set(tills.paid) == {1, 2}
    assert await outcome(tills.store) == ("idle", "done")
    events = await tills.store.events("s")
    posted = [event for event in events if (event.details or {}).get("change") == "posted"]
    assert len(posted) == 2, "both before anything was answered"


async def test_an_always_approval_by_the_approver_covers_a_call_left_to_the_inbox() -> None:
    class Hesitant:
        async def approve(self, request: ConfirmationRequest) -> Approval | Literal["inbox"]:
            if request.arguments == '{"cents":1}':
                return "inbox"
            return Approval(approved=True, by="ken", always=True, scope="session")

    tills = Tills()
    tills.config = replace(tills.config, approver=Hesitant())
    await tills.begin()
    assert tills.paid == [2, 1]
    assert tills.items == {}
    assert await outcome(tills.store) == ("idle", "done")


async def test_an_always_for_one_scope_leaves_other_questions_open() -> None:
    tills = Tills(3)
    pay = tills.team["till"].tools[0]
    assert isinstance(pay, FunctionTool)
    odd = replace(pay, confirmation_scope=lambda given: "even" if "2" in given else "odd")
    tills.team = Team(Agent("till", model=tills.model, tools=[odd]))
    await tills.begin()
    await tills.answer(3, "approve", always=True, scope="session")
    await tills.go_on()
    assert tills.paid == [3, 1]
    assert [item.id for item in await open_items(tills.store)] == [tills.items[2]]
    assert await outcome(tills.store) == ("waiting", "waiting")
    await tills.answer(2, "reject")
    await tills.go_on()
    assert tills.paid == [3, 1]
    assert await outcome(tills.store) == ("idle", "done")
