"""A team that people keep waiting, and agents that wait for each other in a circle."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from ekiden import Agent, Team, function_tool
from ekiden.bus.deadlocks import break_deadlock
from ekiden.core.conversation.messages import AgentMessage, Letter, agent_queue
from ekiden.core.profile import Capability, Triggers
from ekiden.project import open_store
from ekiden.runtime import CodeContext
from ekiden.storage.base import QueuePut, Store
from ekiden.testing import ScriptedModel, say

HOSTILE: Final = '<img src=x onerror="window.__ran=1">'


@function_tool(confirmation=True)
def refund(order: str) -> str:
    """Pay an order back."""
    return f"{order} is paid back"


async def clerk(ctx: CodeContext[Any]) -> str:
    """Asks the manager, who asks a person."""
    return f"clerk got {await ctx.ask('manager', 'may I give a discount?')}"


async def manager(ctx: CodeContext[Any]) -> str:
    return (await ctx.request_approval(f"20 % discount? {HOSTILE}")).choice


def agents_team() -> Team:
    """A fresh one."""
    helper = Agent(
        "helper",
        "Help with lamps.\nBe kind.",
        description="Helps with lamps and refunds",
        model=ScriptedModel([say("done")]),
        tools=[refund],
        capabilities=(
            Capability(name="refunds", description="pays back", proficiency=0.8, tags=("money",)),
            Capability(name="灯具", proficiency=0.35),
        ),
        triggers=Triggers(
            keywords=("refund", "退款", "lamp"), patterns=(r"order #\d+",), priority=90
        ),
        max_sessions=7,
    )
    writer = Agent("writer", run=clerk, triggers=Triggers(keywords=("lamp", "letter")))
    triage = Agent("triage", model=ScriptedModel([]), handoffs=[helper, writer])
    return Team(triage, helper, writer, Agent("clerk", run=clerk), Agent("manager", run=manager))


def write_deadlocks(path: Path) -> None:
    """Store two circles of questions, and let one of each give up."""
    # The driver of the browser has an event loop in this thread.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _write_deadlocks(path)).result()


async def _write_deadlocks(path: Path) -> None:
    async with open_store(str(path)) as store:
        await _ask(store, "orders", "billing", f"is it paid? {HOSTILE}")
        await _ask(store, "billing", "stock", "有货吗？")
        await _ask(store, "stock", "orders", "which order?")
        await break_deadlock(store, "stock")
        await _ask(store, "会计", "会计", "自问")
        await break_deadlock(store, "会计")


async def _ask(store: Store, asker: str, target: str, subject: str) -> None:
    message = AgentMessage(
        id=f"{asker}>{target}", type="query", from_agent=asker, to_agent=target, subject=subject
    )
    put = QueuePut(
        queue=agent_queue(target),
        key=message.id,
        body=Letter(message=message, awaits=target).to_json(),
        waiter=asker,
    )
    await store.put_messages([put])
