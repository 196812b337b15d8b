"""The title of an approval names the arguments of the call, whatever they are."""

from __future__ import annotations

import pytest

from ekiden import (
    Agent,
    Approval,
    FunctionTool,
    Inbox,
    MemoryStore,
    RunConfig,
    Runner,
    Session,
    ToolContext,
)
from ekiden.core.conversation.model import function_call
from ekiden.testing import ScriptedModel


async def pay(ctx: ToolContext, arguments: str) -> str:
    return "paid"


SCHEMA = {
    "type": "object",
    "properties": {"amount": {}, "currency": {"type": "string"}},
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("arguments", "title"),
    [
        ('{"amount": 129.9, "currency": "EUR"}', "Refund 129.9 EUR"),
        ('{"amount": 5}', "Refund 5 ?"),
        ("{", "Refund ? ?"),
        ("[1]", "Refund ? ?"),
        ('{"amount": {"a": 1}, "currency": null}', 'Refund {"a": 1} ?'),
        ('{"amount": "{currency} {0.__class__}", "currency": "E"}', None),
        ('{"amount": 1, "currency": "E\\n\\u202eUR"}', "Refund 1 E \\u202eUR"),
        ('{"amount": 1, "currency": "' + "E" * 500 + '"}', None),
    ],
)
async def test_arguments_are_filled_in_once_and_literally(
    arguments: str, title: str | None
) -> None:
    asks = Approval(title="Refund {amount} {currency}")
    tool: FunctionTool = FunctionTool("pay", "Pay.", SCHEMA, pay, confirmation=asks)
    model = ScriptedModel([[function_call("c1", "pay", arguments)]])
    store = MemoryStore()
    await Runner.run(
        Agent("till", model=model, tools=[tool]),
        "pay it back",
        session=Session("s1", store=store),
        run_config=RunConfig(approver="inbox"),
    )
    [item] = (await Inbox(store).list()).items
    if title is not None:
        assert item.subject == title
    elif "__class__" in arguments:
        assert item.subject == "Refund {currency} {0.__class__} E"
    else:
        assert len(item.subject) < 150
        assert "more characters" in item.subject
