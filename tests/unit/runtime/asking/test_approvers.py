"""Who is asked about a tool: an approver, or the inbox, whichever process continues the run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest

from ekiden.core.roles import Approval, Approver, ConfirmationRequest
from ekiden.inbox import Inbox
from ekiden.testing import call, say
from tests.unit.runtime.asking.desks import open_items, outcome, said, submitted
from tests.unit.runtime.asking.test_asking_people import Till


class Choosy:
    """Allows small sums, and leaves the others to the inbox."""

    async def approve(self, request: ConfirmationRequest) -> Approval | Literal["inbox"]:
        if '"cents":1' in request.arguments.removesuffix("00}"):
            return "inbox"
        return Approval(approved=True, by="choosy")


class Never:
    """An approver that rejects everything."""

    async def approve(self, request: ConfirmationRequest) -> Approval:
        return Approval(approved=False, by="never")


async def test_an_approver_may_leave_a_question_to_the_inbox() -> None:
    till = Till(call("pay", cents=5), say("done"))
    till.config = replace(till.config, approver=Choosy())
    item = await till.begin()
    await Inbox(till.store).answer(item, choice="approve", by="mira")
    await till.go_on()
    assert till.paid == [100, 5]
    assert await said(till.store) == "done"
    decided = [
        (event.details or {})["by"]
        for event in await till.store.events("s")
        if event.type == "tool_confirmation"
    ]
    assert decided == ["mira", "choosy"]


@pytest.mark.parametrize("later", [None, Never()])
async def test_an_answer_in_the_inbox_counts_after_the_approver_changed(
    later: Approver | None,
) -> None:
    till = Till(say("done"))
    item = await till.begin()
    till.config = replace(till.config, approver=later)
    await till.go_on()
    assert await outcome(till.store) == ("waiting", "waiting"), "the question is asked once"
    assert [each.id for each in await open_items(till.store)] == [item]
    await Inbox(till.store).answer(item, choice="approve", by="mira")
    await till.go_on()
    assert till.paid == [100]


async def test_an_invalid_approver_answer_rejects_the_call() -> None:
    class Odd:
        async def approve(self, request: ConfirmationRequest) -> Any:
            return "outbox"

    till = Till(say("not then"))
    till.config = replace(till.config, approver=Odd())
    await submitted(till.store, till.team, till.config)
    assert till.paid == []
    assert "the approver returned str" in till.told
