"""A team that says what it can do: ``tests.unit.server.skilled:team``."""

from __future__ import annotations

from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.core.profile import Capability


async def _work(context: Any) -> str:
    return "done"


accounts: Agent[Any] = Agent(
    "会计",
    run=_work,
    capabilities=[
        Capability(name="退款", proficiency=0.9),
        Capability(name="invoices", proficiency=0.7, tags=("money",)),
    ],
)
orders: Agent[Any] = Agent(
    "orders", run=_work, capabilities=[Capability(name="parcels", proficiency=0.8)]
)
team = Team(orders, accounts)
