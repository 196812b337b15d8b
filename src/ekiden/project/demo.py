"""The demo team: three agents in plain code, which need no API key and no download."""

from __future__ import annotations

import re
from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.core.profile import Triggers
from ekiden.runtime import CodeContext
from ekiden.tools import function_tool

ORDERS = {
    "1042": {"status": "shipped", "carrier": "Yamato", "eta": "2026-11-18", "total": "¥4,200"},
    "1043": {"status": "packing", "carrier": "Sagawa", "eta": "2026-11-20", "total": "¥980"},
    "1044": {"status": "delivered", "carrier": "Yamato", "eta": "2026-11-12", "total": "¥12,600"},
}
"""The orders that the tool `lookup_order` can find."""

_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_ORDER_ID = re.compile(r"\d{3,}")
_ABOUT_ORDERS = (
    "order", "parcel", "package", "deliver", "ship", "订单", "包裹", "快递", "发货", "物流",
)  # fmt: skip
_ABOUT_BILLING = (
    "invoice", "refund", "bill", "charge", "pay", "发票", "退款", "账单", "付款", "扣款",
)  # fmt: skip

_STATUS_ZH = {"shipped": "已发货", "packing": "正在打包", "delivered": "已送达"}


@function_tool
def lookup_order(order_id: str) -> dict[str, str]:
    """Find an order.

    Args:
        order_id: The order's number.
    """
    found = ORDERS.get(order_id)
    return {"order_id": order_id, **found} if found else {"order_id": order_id, "status": "unknown"}


async def _triage(ctx: CodeContext[Any]) -> Any:
    text = ctx.text
    if _mentions(text, _ABOUT_BILLING):
        return ctx.hand_off("billing", reason="a question about money")
    if _mentions(text, _ABOUT_ORDERS) or _ORDER_ID.search(text):
        return ctx.hand_off("orders", reason="a question about an order")
    return _say(
        text,
        en="I can help with orders and with billing. Which order is it about?",
        zh="我可以处理订单和账单问题。请问是哪一个订单？",
    )


async def _orders(ctx: CodeContext[Any]) -> Any:
    text = ctx.text
    if _mentions(text, _ABOUT_BILLING):
        return ctx.hand_off("billing", reason="it turned out to be about money")
    number = _ORDER_ID.search(text)
    if number is None:
        return _say(text, en="What is the number of your order?", zh="请告诉我您的订单号。")
    order = await ctx.call(lookup_order, order_id=number.group())
    return _say(text, en=_order_en(order), zh=_order_zh(order))


async def _billing(ctx: CodeContext[Any]) -> Any:
    text = ctx.text
    if _mentions(text, _ABOUT_ORDERS) and not _mentions(text, _ABOUT_BILLING):
        return ctx.hand_off("orders", reason="back to the order itself")
    number = _ORDER_ID.search(text)
    if number is None:
        return _say(
            text, en="Which order should I look at for the bill?", zh="请问要查询哪一个订单的账单？"
        )
    order = await ctx.call(lookup_order, order_id=number.group())
    if order["status"] == "unknown":
        return _say(text, en=_order_en(order), zh=_order_zh(order))
    return _say(
        text,
        en=f"Order {order['order_id']} came to {order['total']}; a refund takes three days.",
        zh=f"订单 {order['order_id']} 金额为 {order['total']}，退款需要三天。",
    )


def _mentions(text: str, words: tuple[str, ...]) -> bool:
    lowered = text.lower()
    return any(word in lowered for word in words)


def _say(asked: str, *, en: str, zh: str) -> str:
    return zh if _CHINESE.search(asked) else en


def _order_en(order: dict[str, str]) -> str:
    if order["status"] == "unknown":
        return f"There is no order {order['order_id']}; please check the number."
    return (
        f"Order {order['order_id']} is {order['status']} with {order['carrier']}, "
        f"expected {order['eta']}."
    )


def _order_zh(order: dict[str, str]) -> str:
    if order["status"] == "unknown":
        return f"没有订单 {order['order_id']}，请核对号码。"
    status = _STATUS_ZH[order["status"]]
    return f"订单 {order['order_id']} {status}，{order['carrier']} 承运，预计 {order['eta']}。"


billing = Agent(
    "billing",
    description="Bills, refunds and payments.",
    triggers=Triggers(
        keywords=("invoice", "refund", "bill", "charged", "payment", *_ABOUT_BILLING[5:]),
        patterns=(r"(money|paid).*back", r"退.{0,4}(款|钱)"),
        priority=80,
        examples=(
            "I was charged twice for one order",
            "Can I get my money back?",
            "Please send me the invoice for 1042",
            "How much did order 1044 cost?",
            "我想申请退款",
            "发票什么时候开？",
        ),
    ),
    run=_billing,
    tools=[lookup_order],
)
orders = Agent(
    "orders",
    description="Where an order is and when it comes.",
    triggers=Triggers(
        keywords=("order", "parcel", "package", "delivery", "shipped", *_ABOUT_ORDERS[5:]),
        patterns=(r"where.*(order|parcel|package)", r"(订单|包裹|快递).*(哪|到)"),
        priority=80,
        examples=(
            "Where is my order 1042?",
            "When will my parcel arrive?",
            "Has it been shipped yet?",
            "The package is late",
            "我的包裹到哪里了？",
            "订单1043什么时候发货？",
        ),
    ),
    run=_orders,
    tools=[lookup_order],
    handoffs=[billing],
)
billing.handoffs.append(orders)
triage = Agent(
    "triage",
    description="The front desk: finds out what it is about.",
    run=_triage,
    handoffs=[orders, billing],
)
team = Team(triage, name="demo")
