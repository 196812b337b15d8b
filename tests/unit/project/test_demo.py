"""The demo team does its job in both languages, without a model."""

from __future__ import annotations

import pytest

from ekiden import MemoryStore, Runner, Session
from ekiden.project.demo import team


@pytest.mark.parametrize(
    ("request_text", "chain", "answer"),
    [
        (
            "Where is my order 1042?",
            ["user", "triage", "orders"],
            "Order 1042 is shipped with Yamato, expected 2026-11-18.",
        ),
        (
            "我的订单1043在哪里？",
            ["user", "triage", "orders"],
            "订单 1043 正在打包，Sagawa 承运，预计 2026-11-20。",
        ),
        (
            "I want a refund for 1044",
            ["user", "triage", "billing"],
            "Order 1044 came to ¥12,600; a refund takes three days.",
        ),
        (
            "我要为1042退款",
            ["user", "triage", "billing"],
            "订单 1042 金额为 ¥4,200，退款需要三天。",
        ),
        (
            "parcel 9999?",
            ["user", "triage", "orders"],
            "There is no order 9999; please check the number.",
        ),
        ("退款 9999", ["user", "triage", "billing"], "没有订单 9999，请核对号码。"),
        ("My parcel is late", ["user", "triage", "orders"], "What is the number of your order?"),
        ("a refund please", ["user", "triage", "billing"], "Which order should I look at"),
        ("hello 👋", ["user", "triage"], "I can help with orders and with billing."),
        ("你好", ["user", "triage"], "我可以处理订单和账单问题。"),
    ],
)
async def test_a_request_reaches_the_right_agent(
    request_text: str, chain: list[str], answer: str
) -> None:
    result = await Runner.run(team, request_text)
    assert result.chain == chain
    assert result.final_output.startswith(answer)


async def test_the_agent_that_holds_the_session_keeps_it_and_can_hand_off() -> None:
    session = Session(store=MemoryStore())
    await Runner.run(team, "Where is my order?", session=session)
    found = await Runner.run(team, "1042", session=session)
    refund = await Runner.run(team, "then refund 1042", session=session)
    back = await Runner.run(team, "and when does parcel 1043 ship?", session=session)
    assert [each.last_agent.name for each in (found, refund, back)] == [
        "orders",
        "billing",
        "orders",
    ]
