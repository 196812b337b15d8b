"""The tools that pay: one has a further parameter, one has a renamed one, and one has one less."""

from __future__ import annotations

from typing import Any

from examples.shop.desk.books import opened

from ekiden import ToolContext, function_tool


@function_tool(strict_mode=False)
def pay_postage(
    ctx: ToolContext[Any], order_id: str, cents: int, courier: str = ""
) -> dict[str, Any]:
    """Pay the postage of an order."""
    return opened().pay(ctx.idempotency_key, order_id, cents)


@function_tool
def pay_bonus(ctx: ToolContext[Any], order: str, cents: int) -> dict[str, Any]:
    """Pay a bonus for an order."""
    return opened().pay(ctx.idempotency_key, order, cents)


@function_tool
def pay_damage(ctx: ToolContext[Any], order_id: str, cents: int) -> dict[str, Any]:
    """Pay for a damaged article."""
    return opened().pay(ctx.idempotency_key, order_id, cents)


TOOLS = [pay_postage, pay_bonus, pay_damage]
