"""The team: the agents of the files in `.ekiden/agents`, and two agents that are code.

An agent file cannot name a code agent. So commands get the team with `--team desk.team:team`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from ekiden import Agent, CodeContext, Team, ToolError, load_project

from .books import opened
from .tools import refund

SUSPICIOUS = 5
"""So many earlier refunds need a look by a person."""


async def fraud_check(ctx: CodeContext) -> str:
    """Answer the refund desk's question with `low` or `high`."""
    facts = json.loads(ctx.received["context"])
    return "high" if facts["earlier_refunds"] >= SUSPICIOUS else "low"


async def pay_parcel_back(ctx: CodeContext) -> str:
    """Pay a returned order back at its current price. If the price changes before a person has
    approved the payment, this code makes another call, and the person is asked again."""
    order = opened().order(re.findall(r"\d{5}", ctx.text)[0])
    is_chinese = re.search(r"[\u4e00-\u9fff]", ctx.text)
    try:
        paid = await ctx.call(refund, order_id=order["id"], cents=order["cents"])
    except ToolError:
        return "很抱歉，不能退款。" if is_chinese else "I am sorry, it is not refunded."
    if is_chinese:
        return f"订单 {order['id']} 已退款 {paid['paid_cents']} 分。"
    return f"{paid['paid_cents']} cents for order {order['id']} are paid back."


_files = load_project(Path(__file__).parents[1]).team
_fraud = Agent("fraud", handoff_description="Judges refunds.", run=fraud_check)
_returns = Agent("returns", run=pay_parcel_back, tools=[refund])
team = Team(*_files, _fraud, _returns, entry=_files.entry.name)
