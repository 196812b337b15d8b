"""Agents that pay with the tools of `payout_tools.py`: one is code, one has a model."""

from __future__ import annotations

import re
from typing import Any

from examples.shop.desk.books import opened

from ekiden import Agent, CodeContext

from .payout_tools import TOOLS


async def pay_out(ctx: CodeContext[Any]) -> str:
    """Call the tool that the message names, with what the tool needs."""
    [tool] = [tool for tool in TOOLS if tool.name in ctx.text]
    order = opened().order(re.findall(r"\d{5}", ctx.text)[0])
    facts = {**order, "order_id": order["id"], "order": order["id"], "courier": "bicycle"}
    given = {name: facts[name] for name in tool.params_json_schema["properties"]}
    paid = await ctx.call(tool, **given)
    return f"{paid['paid_cents']} cents for order {order['id']} are paid."


payouts = Agent("payouts", run=pay_out, tools=TOOLS)
till = Agent("till", instructions="You are the till of a shop. Pay.", tools=TOOLS)
