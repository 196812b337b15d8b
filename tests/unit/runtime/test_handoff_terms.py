"""Policies, conditions, people's consent, budgets and authority of handoffs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from ekiden.core.agent import Agent
from ekiden.core.context import RunContextWrapper
from ekiden.core.conversation.model import Usage
from ekiden.core.errors import UserError
from ekiden.core.errors.messages import QueryTimeout
from ekiden.core.handoffs import HandoffPolicy, HandoffStatus, HandoffTerms, PolicyName, StatusName
from ekiden.core.profile import Budget, Confirmation
from ekiden.core.roles import Approval, ConfirmationRequest
from ekiden.core.runs import OutOfBudget
from ekiden.handoff import handoff, redact
from ekiden.handoff.records import records_of
from ekiden.runtime import CodeContext, Limits, Price, RunConfig, Runner
from ekiden.sessions import Session
from ekiden.storage.memory import MemoryStore
from ekiden.testing import ManualClock, ScriptedModel, call, fail, hang, say, transfer
from ekiden.tools import function_tool
from tests.support.cases import each_case


def using(tokens: int, answer: Any) -> Any:
    """An answer that used so many tokens."""
    usage = Usage(requests=1, input_tokens=tokens // 2, output_tokens=tokens - tokens // 2)
    return replace(answer, usage=usage)


async def test_an_immediate_handoff_skips_the_other_tools_of_the_turn() -> None:
    ran: list[str] = []

    @function_tool
    def slow() -> str:
        ran.append("slow")
        return "done"

    model = ScriptedModel([[call("slow"), transfer("b")], say("from b")])
    b = Agent("b", model=model)
    a = Agent("a", model=model, tools=[slow], handoffs=[handoff(b, policy="immediate")])
    result = await Runner.run(a, "hi")
    assert result.last_agent is b
    assert ran == []
    outputs = [item for item in model.calls[1].input if item.get("type") == "function_call_output"]
    assert "handed over at once" in outputs[0]["output"]
    assert records_of(result.events)[0].policy == "immediate"


async def test_a_graceful_handoff_first_runs_the_other_tools_of_the_turn() -> None:
    ran: list[str] = []

    @function_tool
    def slow() -> str:
        ran.append("slow")
        return "done"

    model = ScriptedModel([[transfer("b"), call("slow")], say("from b")])
    b = Agent("b", model=model)
    a = Agent("a", model=model, tools=[slow], handoffs=[b])
    assert (await Runner.run(a, "hi")).last_agent is b
    assert ran == ["slow"]


async def test_an_unmet_condition_refuses_the_handoff() -> None:
    model = ScriptedModel([transfer("b"), say("alone")])
    edge = handoff(Agent("b"), policy="conditional", condition="plan == 'pro'")
    a = Agent("a", model=model, handoffs=[edge])
    result = await Runner.run(a, "hi")
    [record] = records_of(result.events)
    assert record.code == "CONDITIONS_NOT_MET"
    assert record.evaluation is not None
    assert "plan == 'pro'" in model.calls[1].input[-1]["output"]
    assert result.last_agent is a


async def test_a_met_condition_allows_the_handoff() -> None:
    async def code(ctx: CodeContext[Any]) -> Any:
        ctx.set("plan", "pro")
        return ctx.hand_off("b")

    b = Agent("b", model=ScriptedModel([say("from b")]))
    edge = handoff(b, policy="conditional", condition="plan == 'pro'")
    a = Agent("a", run=code, handoffs=[edge])
    assert (await Runner.run(a, "hi")).last_agent is b


async def test_a_conditional_handoff_is_offered_only_while_its_condition_holds() -> None:
    @function_tool
    def upgrade(ctx: RunContextWrapper[Any]) -> str:
        ctx.set("plan", "pro")
        return "ok"

    model = ScriptedModel([call("upgrade"), transfer("b"), say("from b")])
    b = Agent("b", model=model)
    edge = handoff(b, when="conditional", condition="plan == 'pro'")
    a = Agent("a", model=model, tools=[upgrade], handoffs=[edge])
    await Runner.run(a, "hi")
    offered = [[tool.name for tool in each.tools] for each in model.calls[:2]]
    assert offered == [["upgrade"], ["upgrade", "transfer_to_b"]]


class Person:
    """An approver with a given answer."""

    def __init__(self, answer: Approval) -> None:
        self.answer = answer
        self.asked: list[ConfirmationRequest] = []

    async def approve(self, request: ConfirmationRequest) -> Approval:
        self.asked.append(request)
        return self.answer


def confirmed() -> tuple[Agent[Any], ScriptedModel]:
    model = ScriptedModel(
        respond=lambda r: (
            say(f"from {r.agent}")
            if r.agent == "b" or r.input[-1].get("type") == "function_call_output"
            else transfer("b", reason="a refund")
        )
    )
    b = Agent("b", model=model)
    return Agent("a", model=model, handoffs=[handoff(b, confirm=True)]), model


async def test_an_approved_handoff_happens() -> None:
    a, _ = confirmed()
    person = Person(Approval(approved=True, by="ada"))
    result = await Runner.run(a, "hi", run_config=RunConfig(approver=person))
    assert result.last_agent.name == "b"
    [asked] = person.asked
    assert "a refund" in asked.prompt
    assert [event.type for event in result.events].count("tool_confirmation") == 1


async def test_a_handoff_that_is_not_approved_stays_with_the_source() -> None:
    a, model = confirmed()
    person = Person(Approval(approved=False, by="ada", reason="not on my watch"))
    result = await Runner.run(a, "hi", run_config=RunConfig(approver=person))
    assert result.last_agent is a
    [record] = records_of(result.events)
    assert record.code == "NOT_APPROVED"
    assert "not on my watch" in model.calls[1].input[-1]["output"]


async def test_a_handoff_that_needs_approval_fails_without_an_approver() -> None:
    a, _ = confirmed()
    result = await Runner.run(a, "hi")
    assert [record.code for record in records_of(result.events)] == ["NOT_APPROVED"]


@pytest.mark.parametrize(("limit", "asks"), [(10, True), (1000, False)])
async def test_a_function_decides_which_handoffs_need_approval(limit: int, asks: bool) -> None:
    class Refund(BaseModel):
        cents: int

    model = ScriptedModel([transfer("b", cents=100), say("done")])
    edge = handoff(
        Agent("b", model=model),
        input_type=Refund,
        on_handoff=lambda ctx, refund: None,
        needs_approval=lambda arguments: arguments["cents"] > limit,
    )
    person = Person(Approval(approved=True, by="ada"))
    a = Agent("a", model=model, handoffs=[edge])
    result = await Runner.run(a, "hi", run_config=RunConfig(approver=person))
    assert result.last_agent.name == "b"
    assert len(person.asked) == asks
    [stored] = [each for each in result.events if each.type == "tool_confirmation"]
    assert (stored.details or {})["by"] == ("ada" if asks else "policy")


async def test_a_handoff_whose_approval_function_fails_is_not_made() -> None:
    model = ScriptedModel([transfer("b"), say("stays")])
    b = Agent("b", model=model)
    a = Agent("a", model=model, handoffs=[handoff(b, needs_approval=lambda arguments: bool(1 / 0))])
    result = await Runner.run(
        a, "hi", run_config=RunConfig(approver=Person(Approval(approved=True, by="ada")))
    )
    assert [record.code for record in records_of(result.events)] == ["NOT_APPROVED"]
    with pytest.raises(UserError, match="takes the arguments of a call"):
        handoff(b, needs_approval=lambda one, two: True)


async def test_a_budget_narrows_what_the_target_may_spend() -> None:
    model = ScriptedModel(
        [using(10, transfer("b")), using(60, call("look")), using(60, call("look")), say("never")]
    )

    @function_tool
    def look() -> str:
        return "seen"

    b = Agent("b", model=model, tools=[look])
    a = Agent("a", model=model, handoffs=[handoff(b, budget=Budget(tokens=100))])
    result = await Runner.run(a, "hi")
    assert result.outcome == OutOfBudget("tokens", 100, 120)


async def test_a_budget_never_exceeds_the_remaining_one() -> None:
    model = ScriptedModel([using(10, transfer("b")), using(20, transfer("c")), using(90, say("x"))])
    c = Agent("c", model=model)
    b = Agent("b", model=model, handoffs=[handoff(c, budget=Budget(tokens=1_000_000))])
    a = Agent("a", model=model, handoffs=[handoff(b, budget=Budget(tokens=25))])
    session = Session(store=MemoryStore())
    await Runner.run(a, "hi", session=session)
    assert (await session.row()).cursor["bu"]["tokens"] == 35


async def test_an_exceeded_budget_rolls_back_an_open_handoff() -> None:
    model = ScriptedModel(
        [using(10, transfer("b")), using(60, call("look")), using(1, say("a does it"))]
    )

    @function_tool
    def look() -> str:
        return "seen"

    b = Agent("b", model=model, tools=[look])
    edge = handoff(b, budget=Budget(tokens=50), completes="result")
    a = Agent("a", model=model, handoffs=[edge])
    result = await Runner.run(a, "hi")
    assert result.final_output == "a does it"
    [record] = records_of(result.events)
    assert (record.status, record.code) == ("rolled_back", "BUDGET_EXCEEDED")


async def test_money_is_counted_by_the_prices_and_limited() -> None:
    model = ScriptedModel([using(1_000_000, call("look")), using(10, say("never"))])

    @function_tool
    def look() -> str:
        return "seen"

    a = Agent("a", model=model, tools=[look])
    prices = {type(model).__name__: Price(input=1, output=3)}
    config = RunConfig(limits=Limits(money=1.5), prices=prices)
    with pytest.raises(UserError, match=r"RunConfig\.prices"):
        await Runner.run(a, "hi", run_config=RunConfig(limits=Limits(money=1.5)))
    model = ScriptedModel([using(1_000_000, call("look"))])
    model.name = "m"  # type: ignore[attr-defined]
    a = Agent("a", model=model, tools=[look])
    config = RunConfig(limits=Limits(money=1.5), prices={"m": Price(input=1, output=3)})
    result = await Runner.run(a, "hi", run_config=config)
    assert result.outcome == OutOfBudget("money", 1.5, 2.0)
    assert result.usage.cost == 2.0


def test_cached_input_has_its_own_price() -> None:
    usage = Usage(input_tokens=1_000_000, cached_tokens=400_000, output_tokens=100_000)
    assert Price(input=1, output=10, cached_input=0.5).of(usage) == pytest.approx(0.6 + 0.2 + 1)
    assert Price(input=1, output=10).of(usage) == pytest.approx(2)


async def test_an_edge_may_leave_the_target_only_the_tools_that_the_source_has() -> None:
    @function_tool
    def read() -> str:
        return "read"

    @function_tool
    def write() -> str:
        return "written"

    model = ScriptedModel([transfer("b"), call("write"), transfer("c"), say("from c")])
    c = Agent("c", model=model, tools=[read, write])
    b = Agent("b", model=model, tools=[read, write], handoffs=[c])
    a = Agent("a", model=model, tools=[read], handoffs=[handoff(b, restrict_tools=True)])
    session = Session(store=MemoryStore())
    await Runner.run(a, "hi", session=session)
    offered = [[tool.name for tool in each.tools] for each in model.calls]
    assert offered[1] == ["read", "transfer_to_c"]
    assert "there is no tool called 'write'" in model.calls[2].input[-1]["output"]
    assert offered[3] == ["read"], "nothing along the chain widens it again"


async def test_after_a_rollback_the_source_has_its_own_tools_again() -> None:
    @function_tool
    def read() -> str:
        return "read"

    model = ScriptedModel([transfer("b"), fail(ValueError("dead")), say("a again")])
    b = Agent("b", model=model)
    a = Agent("a", model=model, tools=[read], handoffs=[handoff(b, restrict_tools=True)])
    session = Session(store=MemoryStore())
    await Runner.run(a, "hi", session=session)
    assert "to" not in (await session.row()).cursor


async def test_a_target_that_exceeds_the_handoff_timeout_returns_control() -> None:
    model = ScriptedModel(
        respond=lambda r: (
            hang()
            if r.agent == "b"
            else say("a again")
            if r.input[-1].get("type")
            else transfer("b")
        )
    )
    b = Agent("b", model=model)
    a = Agent("a", model=model, handoffs=[handoff(b, timeout_s=0.05)])
    result = await Runner.run(a, "hi")
    [record] = records_of(result.events)
    assert (record.status, record.code) == ("rolled_back", "TIMEOUT")
    assert result.final_output == "a again"


async def test_a_code_agent_that_exceeds_the_handoff_timeout_is_cancelled() -> None:
    async def sleep_for_ever(ctx: CodeContext[Any]) -> str:
        import asyncio

        await asyncio.get_running_loop().create_future()
        return "never"

    model = ScriptedModel([transfer("sleepy"), say("a again")])
    sleepy = Agent("sleepy", run=sleep_for_ever)
    a = Agent("a", model=model, handoffs=[handoff(sleepy, timeout_s=0.05)])
    assert (await Runner.run(a, "hi")).final_output == "a again"


@each_case(
    ("fields", "problem"),
    [
        ({"policy": "later"}, "`policy` of a handoff must be "),
        ({"policy": "conditional"}, "needs a `condition`"),
        ({"when": "never"}, "`when` of a handoff must be "),
        ({"timeout_s": 0}, "above 0"),
        ({"completes": "soon"}, "`completes` of a handoff must be "),
        ({"allow_return": "maybe"}, "`allow_return` of a handoff must be "),
    ],
)
def test_terms_that_make_no_sense_are_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        HandoffTerms(**fields)


@pytest.mark.parametrize("budget", [{"tokens": 0}, {"seconds": -1}, {"money": float("inf")}])
def test_budget_values_must_be_positive_numbers(budget: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="must be a (whole )?number (above 0|of 1 or more)"):
        Budget(**budget)


async def test_a_function_can_be_the_target() -> None:
    async def close_ticket(ctx: CodeContext[Any]) -> str:
        """Close the ticket."""
        return f"closed: {ctx.received['reason']}"

    model = ScriptedModel([transfer("close_ticket", reason="solved")])
    a = Agent("a", model=model, handoffs=[handoff(close_ticket)])
    result = await Runner.run(a, "hi")
    assert result.final_output == "closed: solved"
    assert "Close the ticket." in model.calls[0].tools[0].description


async def test_waiting_for_approval_does_not_use_the_handoffs_time_limit() -> None:
    clock = ManualClock()

    class Slow:
        async def approve(self, request: ConfirmationRequest) -> Approval:
            clock.advance(1000)
            return Approval(approved=True, by="ada")

    a, _ = confirmed()
    config = RunConfig(approver=Slow(), clock=clock, limits=Limits(seconds=60))
    result = await Runner.run(a, "hi", run_config=config)
    assert result.last_agent.name == "b"


async def test_an_input_filter_also_masks_the_handoff_context() -> None:
    model = ScriptedModel(
        [transfer("b", reason="refund", context="card 4111 1111 1111 1111"), say("from b")]
    )
    b = Agent("b", model=model)
    a = Agent("a", model=model, handoffs=[handoff(b, input_filter=redact("card"))])
    await Runner.run(a, "my card is 4111 1111 1111 1111")
    seen = f"{model.calls[1].system_instructions} {model.calls[1].input}"
    assert "4111" not in seen
    assert "refund" in seen


async def test_a_request_prefers_an_edge_without_a_trigger() -> None:
    from ekiden.core.handoffs import HandoffTrigger
    from ekiden.handoff.requests import edge_between

    b = Agent("b")
    auto = handoff(b, trigger=HandoffTrigger(type="event", event="x"))
    offered = handoff(b)
    assert edge_between(Agent("a", handoffs=[auto, offered]), "b") is offered
    assert edge_between(Agent("a", handoffs=[auto]), "b") is auto


@pytest.mark.parametrize("when", ["auto", "conditional"])
async def test_without_a_trigger_or_a_condition_the_model_decides(when: Any) -> None:
    target = Agent("target", model=ScriptedModel([say("mine")]))
    edge = handoff(
        target,
        when=when,
        policy=HandoffPolicy.IMMEDIATE,
        tool_name="pass_on",
        tool_description="Pass it on.",
    )
    assert (edge.tool_name, edge.tool_description) == ("pass_on", "Pass it on.")
    assert type(edge.terms.policy) is str
    source = Agent("source", model=ScriptedModel([call("pass_on")]), handoffs=[edge])
    result = await Runner.run(source, "go")
    assert (result.last_agent.name, result.final_output) == ("target", "mine")


def test_option_names_of_other_sdks_mean_the_same() -> None:
    @function_tool(needs_approval=True, tool_description="Pay a bill.")
    def pay() -> str:
        return "paid"

    assert (pay.confirmation, pay.description) == (Confirmation(), "Pay a bill.")
    assert Agent("x").as_tool(needs_approval=True).confirmation == Confirmation()
    assert handoff(Agent("x"), needs_approval=True).terms.confirm is not None
    assert HandoffStatus("rolled_back") == "rolled_back"
    assert set(HandoffStatus) == set(get_args(StatusName))
    assert set(HandoffPolicy) == set(get_args(PolicyName))
    assert issubclass(QueryTimeout, TimeoutError)
    with pytest.raises(UserError, match="mean the same"):
        handoff(Agent("x"), confirm=True, needs_approval=True)
