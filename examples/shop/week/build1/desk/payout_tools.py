"""Tools that are in progress when their processes are killed. The second build changes them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from examples.shop.desk.books import opened

from ekiden import ToolContext, function_tool


async def _pay(ctx: ToolContext[Any], order_id: str, cents: int) -> dict[str, Any]:
    """Pay for a parcel that is back; wait for others. Never return: the process is killed."""
    if opened().order(order_id)["is_back"]:
        opened().pay(ctx.idempotency_key, order_id, cents)
    _tell(order_id)
    await asyncio.Event().wait()
    raise AssertionError("the process was not killed")


def _tell(order_id: str) -> None:
    """Tell the week that the tool is in progress."""
    with Path(os.environ["SHOP_PAYING"]).open("w") as pipe:
        pipe.write(f"{order_id}\n")


@function_tool(strict_mode=False)
async def pay_postage(ctx: ToolContext[Any], order_id: str, cents: int) -> dict[str, Any]:
    """Pay the postage of an order."""
    return await _pay(ctx, order_id, cents)


@function_tool
async def pay_bonus(ctx: ToolContext[Any], order_id: str, cents: int) -> dict[str, Any]:
    """Pay a bonus for an order."""
    return await _pay(ctx, order_id, cents)


@function_tool
async def pay_damage(
    ctx: ToolContext[Any], order_id: str, cents: int, article: str
) -> dict[str, Any]:
    """Pay for a damaged article."""
    return await _pay(ctx, order_id, cents)


TOOLS = [pay_postage, pay_bonus, pay_damage]
