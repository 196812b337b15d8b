"""Which handoffs a model is shown."""

from __future__ import annotations

import asyncio
import copy
import gc
import weakref
from typing import Any

import pytest

from ekiden.core.agent import Agent
from ekiden.core.context import RunContextWrapper
from ekiden.core.errors import UserError
from ekiden.handoff import default_handoff, get_handoffs, handoff


async def test_a_handoff_to_a_plain_agent_is_created_once() -> None:
    target: Agent[Any] = Agent("target")
    source: Agent[Any] = Agent("source", handoffs=[target])
    (first,) = await get_handoffs(source, RunContextWrapper())
    (second,) = await get_handoffs(source, RunContextWrapper())
    assert first is second
    assert first.agent is target


async def test_the_offer_follows_changes_of_the_target() -> None:
    target: Agent[Any] = Agent("target")
    before = default_handoff(target)
    target.handoff_description = "Good at it."
    after = default_handoff(target)
    assert after.tool_description.endswith("Good at it.")
    assert before.tool_description != after.tool_description
    target.name = "other"
    assert default_handoff(target).tool_name == "transfer_to_other"


async def test_a_copy_of_an_agent_is_a_target_of_its_own() -> None:
    target: Agent[Any] = Agent("target")
    default_handoff(target)
    for other in (copy.copy(target), target.clone()):
        assert default_handoff(other).agent is other


def test_offering_an_agent_does_not_keep_it_alive() -> None:
    target: Agent[Any] = Agent("target")
    default_handoff(target)
    gone = weakref.ref(target)
    del target
    gc.collect()
    assert gone() is None


async def test_is_enabled_is_called_each_time_with_context_and_source() -> None:
    asked: list[Any] = []

    def only_gold(ctx: RunContextWrapper[Any], agent: Agent[Any]) -> bool:
        asked.append(agent)
        return bool(ctx.context == "gold")

    target: Agent[Any] = Agent("target")
    source: Agent[Any] = Agent("source", handoffs=[handoff(target, is_enabled=only_gold)])
    assert await get_handoffs(source, RunContextWrapper("tin")) == []
    assert len(await get_handoffs(source, RunContextWrapper("gold"))) == 1
    assert asked == [source, source]


async def test_async_checks_run_side_by_side_and_order_is_kept() -> None:
    first_may_go = asyncio.Event()

    async def first(ctx: Any, agent: Any) -> bool:
        await first_may_go.wait()
        return True

    async def second(ctx: Any, agent: Any) -> bool:
        first_may_go.set()
        return True

    async def third(ctx: Any, agent: Any) -> bool:
        return False

    source: Agent[Any] = Agent(
        "source",
        handoffs=[
            handoff(Agent("a"), is_enabled=first),
            Agent("b"),
            handoff(Agent("c"), is_enabled=second),
            handoff(Agent("d"), is_enabled=third),
            handoff(Agent("e"), is_enabled=False),
        ],
    )
    async with asyncio.timeout(60):
        offers = await get_handoffs(source, RunContextWrapper())
    assert [offer.agent_name for offer in offers] == ["a", "b", "c"]


async def test_a_failing_is_enabled_raises_and_cancels_the_other_checks() -> None:
    cancelled = asyncio.Event()
    started = asyncio.Event()

    async def forever(ctx: Any, agent: Any) -> bool:
        started.set()
        try:
            return await asyncio.Future()
        finally:
            cancelled.set()

    async def broken(ctx: Any, agent: Any) -> bool:
        await started.wait()
        raise RuntimeError("no idea")

    source: Agent[Any] = Agent(
        "source",
        handoffs=[handoff(Agent("a"), is_enabled=forever), handoff(Agent("b"), is_enabled=broken)],
    )
    with pytest.raises(RuntimeError, match="no idea"):
        await get_handoffs(source, RunContextWrapper())
    assert cancelled.is_set()


async def test_a_handoff_target_that_is_not_an_agent_is_refused() -> None:
    source: Agent[Any] = Agent("source")
    source.handoffs.append("billing")
    with pytest.raises(UserError, match="found str"):
        await get_handoffs(source, RunContextWrapper())
