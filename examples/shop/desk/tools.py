"""The tools of the desk's agents."""

from __future__ import annotations

from typing import Any

from ekiden import Approval, Ask, Rollback, ToolContext, function_tool

from .books import opened

LIMIT_CENTS = 10_000
"""Larger refunds need the approval of a person."""
APPROVAL_S = 47 * 3600
"""Without an answer in this time, a refund is not paid."""
CHECK_S = 900
"""The warehouse may be busy."""
UNSERVED = frozenset({"Naha", "那霸"})
"""Cities without a courier."""


@function_tool
def lookup_order(order_id: str) -> dict[str, Any]:
    """Find an order."""
    return opened().order(order_id)


@function_tool
async def check_refund(ctx: ToolContext[Any], order_id: str) -> dict[str, Any]:
    """Check whether an order may be refunded. Ask for this before each refund."""
    order = opened().order(order_id)
    facts = {"order_id": order_id, "earlier_refunds": order["refunds"]}
    risk, stock = await ctx.ask_all(
        [
            Ask(agent="fraud", subject="risk of a refund", payload=facts, timeout_s=CHECK_S),
            Ask(agent="warehouse", subject="is it back?", payload=order_id, timeout_s=CHECK_S),
        ]
    )
    ctx.set("risk", risk)  # The trigger of the handoff to the fraud desk reads it.
    return {"order_id": order_id, "cents": order["cents"], "risk": risk, **stock}


def needs_approval(arguments: dict[str, Any]) -> bool:
    """Whether a person must approve this refund."""
    return int(arguments["cents"]) > LIMIT_CENTS


@function_tool(
    confirmation=Approval(title="Refund {cents} cents for {order_id}", timeout_s=APPROVAL_S),
    needs_approval=needs_approval,
)
def refund(ctx: ToolContext[Any], order_id: str, cents: int) -> dict[str, Any]:
    """Pay an order back."""
    return opened().pay(ctx.idempotency_key, order_id, cents)


def release_pickup(rollback: Rollback) -> None:
    """Give the place in the courier's van back."""
    opened().set_pickup(**rollback.arguments, state="released")


@function_tool
async def reserve_pickup(ctx: ToolContext[Any], order_id: str) -> dict[str, str]:
    """Reserve a place in the courier's van."""
    place = {"key": ctx.idempotency_key, "order_id": order_id}
    await ctx.on_rollback(release_pickup, key=place["key"], arguments=place)
    opened().set_pickup(**place, state="reserved")
    return place


@function_tool(failure_error_function=None)
def confirm_pickup(key: str, order_id: str) -> str:
    """Confirm a reserved pick-up with the courier."""
    if opened().order(order_id)["city"] in UNSERVED:
        raise ConnectionError("the courier does not serve this city")
    opened().set_pickup(key, order_id, "confirmed")
    return "confirmed"
