"""A team with guardrails of every kind that an agent can have."""

from __future__ import annotations

from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.core.conversation.model import ModelRequest
from ekiden.core.guardrails import (
    GuardrailFunctionOutput,
    HandoffGuardrail,
    InputGuardrail,
    OutputGuardrail,
)
from ekiden.testing import call, delay, say, transfer
from ekiden.testing.steps import StepLike
from tests.faults.ledger import digest
from tests.faults.world import World, is_booked, told, wish


def guarded(world: World) -> Team:
    """triage may not hand to sales, which is given what it must not have; orders is told to hand
    over in other words; billing is told to answer again."""

    def script(request: ModelRequest) -> StepLike:
        match request.agent:
            case "triage" if told(request, "the handoff to sales failed"):
                return transfer("orders", reason="it is about an order")
            case "triage":
                # What runs beside this model is quicker.
                return delay(0.02, transfer("sales", reason="perhaps they know"))
            case "orders" if not is_booked(request, wish(request)):
                return call("book", what=wish(request))
            case "orders" if told(request, "rejected by words"):
                return transfer("billing", reason="to be paid")
            case "orders":
                return transfer("billing", reason="rude words")
        is_corrected = "was rejected" in str(request.input[-1].get("content"))
        return say(f"it will be billed; I was shown {digest(request)}" if is_corrected else "rude")

    def looks(where: str, is_bad: bool) -> GuardrailFunctionOutput:
        world.ledger.note("guardrail", where=where)
        return GuardrailFunctionOutput({"where": where}, is_bad)

    async def of_input(ctx: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        return looks(agent.name, agent.name == "sales")

    def of_handoff(ctx: Any, agent: Any, request: Any) -> GuardrailFunctionOutput:
        return looks(agent.name, "rude" in request.reason)

    async def of_output(ctx: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
        return looks(agent.name, output == "rude")

    before = InputGuardrail(of_input, "before", run_in_parallel=False)
    beside = InputGuardrail(of_input, "beside")
    model = world.model(script)
    billing = Agent(
        "billing", model=model, output_guardrails=[OutputGuardrail(of_output, "manners", "repair")]
    )
    orders = Agent(
        "orders",
        model=model,
        tools=[world.book()],
        handoffs=[billing],
        handoff_guardrails=[HandoffGuardrail(of_handoff, "words")],
    )
    sales = Agent("sales", model=model, input_guardrails=[before])
    return Team(
        Agent("triage", model=model, handoffs=[sales, orders], input_guardrails=[before, beside])
    )
