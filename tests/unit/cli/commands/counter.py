"""A team that hands over, for tests of the command: ``tests.unit.cli.commands.counter:team``."""

from __future__ import annotations

from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.handoff import handoff, keep_last, person
from ekiden.testing import ScriptedModel, call, fail, say
from ekiden.tools import function_tool

TEAM = "tests.unit.cli.commands.counter:team"


@function_tool
def look() -> str:
    """Look at something."""
    return "seen"


async def pay(context: Any) -> str:
    return "The refund is on its way. \x1b[31m退款👋"


async def tear(context: Any) -> str:
    raise ValueError("no paper")


def _look_and_fail(request: Any) -> Any:
    looked = request.input[-1].get("type") == "function_call_output"
    return fail(ValueError("no ink")) if looked else call("look")


billing: Agent[Any] = Agent("billing", run=pay)
closed: Agent[Any] = Agent("closed", run=pay, available=False)
broken: Agent[Any] = Agent("broken", run=tear)
careful: Agent[Any] = Agent("careful", run=pay)
faulty: Agent[Any] = Agent(
    "faulty", model=ScriptedModel(respond=_look_and_fail), tools=[look], handoffs=[]
)
eager: Agent[Any] = Agent(
    "eager", model=ScriptedModel(respond=lambda request: call("look")), tools=[look]
)
stranger: Agent[Any] = Agent("陌生人", run=pay)
triage: Agent[Any] = Agent(
    "triage",
    model=ScriptedModel(respond=lambda request: say("triage here")),
    handoffs=[
        handoff(billing, input_filter=keep_last(1)),
        closed,
        broken,
        faulty,
        eager,
        handoff(careful, policy="conditional", condition="error_count > 3 and user.tier == 'x'"),
        handoff(person("support"), tool_name_override="ask_people"),
    ],
)
team = Team(triage, stranger)
closed_desk = Team(triage.clone(available=False))
