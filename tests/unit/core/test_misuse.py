"""Misuse is refused where it is written: a wrong type, a number out of range, an unusable name."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import pytest

from ekiden import (
    Agent,
    AgentHooks,
    AgentTask,
    Approval,
    Ask,
    Budget,
    BusSettings,
    Capability,
    Confirmation,
    EscalationStep,
    FunctionTool,
    HandoffTrigger,
    InboxQuery,
    InputGuardrail,
    Limits,
    MemorySettings,
    MemoryStore,
    ModelSettings,
    Price,
    RealtimeRunConfig,
    RemoteA2A,
    Retention,
    Router,
    RoutingSettings,
    RunConfig,
    Runner,
    Session,
    Supervisor,
    TaskDecomposition,
    Team,
    Triggers,
    UserError,
    Worker,
    function_tool,
    handoff,
    keep_last,
    person,
)
from ekiden.testing import ScriptedModel, say

HELPER = Agent("helper")


@function_tool
def pay(amount: float, currency: str) -> str:
    """Pay."""
    return f"{amount} {currency}"


async def invoke(ctx: Any, arguments: str) -> str:
    return ""


MISUSE: dict[str, tuple[Callable[..., Any], dict[str, Any], str]] = {
    "text for texts": (Triggers, {"keywords": "error"}, r"list of .*not 'error'.*\['error'\]"),
    "empty keyword": (Triggers, {"keywords": ["error", ""]}, "Triggers.keywords must be a list of"),
    "blank keyword": (Triggers, {"keywords": (" ",)}, "Triggers.keywords must be a list of"),
    "empty pattern": (Triggers, {"patterns": ("",)}, "Triggers.patterns must be a list of"),
    "empty example": (Triggers, {"examples": ("\n",)}, "Triggers.examples must be a list of"),
    "empty capability": (handoff, {"agent": HELPER, "capabilities": [""]}, "list of names"),
    "empty error": (HandoffTrigger, {"type": "error", "errors": [""]}, "HandoffTrigger.errors"),
    "empty tag": (Capability, {"name": "x", "tags": ("",)}, "list of names"),
    "empty label": (Agent, {"name": "a", "runs_on": {""}}, "label"),
    "empty name": (Agent, {"name": "a", "can_ask": [""]}, "must be a list of names"),
    "pattern": (Triggers, {"patterns": ("(",)}, "Triggers.patterns has"),
    "priority": (Triggers, {"priority": 101}, "from 0 to 100"),
    "capability": (
        Agent,
        {"name": "a", "capabilities": ("python",)},
        "`capabilities` of agent 'a' must be a list of Capability objects",
    ),
    "proficiency": (Capability, {"name": "x", "proficiency": 7.0}, "number from 0 to 1"),
    "tags": (Capability, {"name": "x", "tags": "sql"}, "list of names"),
    "triggers": (Agent, {"name": "a", "triggers": {"keywords": ()}}, "must be a Triggers object"),
    "class": (Agent, {"name": "a", "hooks": AgentHooks}, "give an object, not its class"),
    "instructions": (Agent, {"name": "a", "instructions": 5}, "a text, a function or None"),
    "model": (Agent, {"name": "a", "model": "foo"}, "must be provider:model"),
    "scope": (Agent, {"name": "a", "scope": "all"}, "must be one of 'project'"),
    "names": (Agent, {"name": "a", "can_ask": "bob"}, "must be a list of names"),
    "output type": (Agent, {"name": "a", "output_type": 5}, "must be a type"),
    "tool name": (handoff, {"agent": HELPER, "tool_name_override": "bad name!"}, "cannot be the"),
    "capabilities": (handoff, {"agent": HELPER, "capabilities": "sql"}, "must be a list of texts"),
    "trigger": (handoff, {"agent": HELPER, "trigger": "x > 3"}, "HandoffTrigger object or None"),
    "filter": (handoff, {"agent": HELPER, "input_filter": 3}, "must be a function or None"),
    "confirm": (handoff, {"agent": HELPER, "confirm": "yes"}, "Confirmation object"),
    "trigger's errors": (HandoffTrigger, {"type": "error", "errors": "ModelError"}, "list of"),
    "tool": (FunctionTool, {"name": "a b", "description": "", "params_json_schema": {},
                            "on_invoke_tool": invoke}, "'a b' cannot be the name of a tool"),
    "time-out": (function_tool, {"func": invoke, "timeout": "1"}, "must be a number above 0"),
    "fallback": (RoutingSettings, {"fallback": "y"}, "RoutingSettings.fallback must be one of"),
    "router": (Router, {"agents": [HELPER], "settings": {}}, "must be a RoutingSettings object"),
    "limits": (Limits, {"turns": -1}, "Limits.turns must be a whole number of 0 or more"),
    "blank tool name": (handoff, {"agent": HELPER, "tool_name_override": ""}, "tool_name_override"),
    "whole": (Limits, {"turns": 1.5}, "Limits.turns must be a whole number"),
    "infinite": (Budget, {"seconds": float("inf")}, "Budget.seconds must be a number above 0"),
    "too many digits": (Limits, {"tokens": 10**400}, "Limits.tokens must be a whole number"),
    "price": (Price, {"input": True, "output": 1}, "Price.input must be a number"),
    "run config": (RunConfig, {"limits": 5}, "RunConfig.limits must be a Limits object"),
    "approver": (RunConfig, {"approver": "me"}, "an Approver"),
    "on busy": (RunConfig, {"on_busy": "queue"}, "must be one of 'wait', 'refuse'"),
    "escalation": (RunConfig, {"escalation": [EscalationStep("a", -1)]}, "EscalationStep"),
    "model settings": (ModelSettings, {"temperature": "hot"}, "from 0 to 100"),
    "memory": (MemorySettings, {"type": "graph"}, "must be one of 'key_value', 'vector'"),
    "retention": (Retention, {"days": "30"}, "Retention.days must be a number"),
    "bus": (BusSettings, {"max_attempts": 0}, "BusSettings.max_attempts"),
    "remote": (RemoteA2A, {"card": "https://a.example", "timeout_s": 0}, "above 0"),
    "realtime": (RealtimeRunConfig, {"max_calls": 0}, "RealtimeRunConfig.max_calls"),
    "guardrail": (InputGuardrail, {"guardrail_function": "check"}, "must be a function"),
    "question": (Ask, {"agent": "a", "subject": 3}, "subject"),
    "query": (InboxQuery, {"status": "shut"}, "InboxQuery.status must be one of"),
    "worker": (Worker, {"store": "desk.db", "team": HELPER}, "must be a Store"),
    "team": (Team, {"entry": 3}, "`entry` of Team must be a text"),
    "filter count": (keep_last, {"count": "3"}, "`count` of keep_last must be a whole number"),
    "role": (person, {"role": 3}, "needs a role"),
    "supervisor": (Supervisor, {"name": "s", "agents": HELPER}, "`agents` of Supervisor must be"),
    "decomposer": (Supervisor, {"name": "s", "agents": [HELPER], "decomposer": 3}, "Decomposer"),
    "decomposer's arguments": (
        Supervisor,
        {"name": "s", "agents": [HELPER], "decomposer": lambda: []},
        "a decomposer must take one argument",
    ),
    "approval": (Approval, {"approved": "no", "by": "ada"}, "Approval.approved must be True or"),
    "answer": (Approval, {"approved": True}, "needs `by`"),
    "title": (Approval, {"title": "Refund {amount.__class__}"}, "names of arguments in braces"),
    "braces": (Confirmation, {"title": "Refund {"}, "cannot be read"),
    "tool's title": (
        function_tool,
        {"func": pay.on_invoke_tool, "name_override": "x", "confirmation": "yes"},
        "`confirmation` must be a Confirmation object or True or False",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", MISUSE)
def test_invalid_arguments_are_refused_with_the_reason(what: str) -> None:
    make, fields, problem = MISUSE[what]
    with pytest.raises(UserError, match=problem):
        make(**fields)


def test_an_approval_title_must_name_arguments_of_the_tool() -> None:
    with pytest.raises(UserError, match="names 'sum', which is not an argument of tool 'pay'"):

        @function_tool(name_override="pay", confirmation=Approval(title="Pay {sum}"))
        def again(amount: float) -> str:
            """Pay."""
            return ""


def test_a_list_is_accepted_in_place_of_a_tuple() -> None:
    triggers = Triggers(keywords=["error", "crash"])  # type: ignore[arg-type]
    assert triggers == Triggers(keywords=("error", "crash"))
    assert hash(triggers) == hash(Triggers(keywords=("error", "crash")))


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ({"foo": "bar"}, "neither a `type` nor a `role`"),
        ({"role": "admin", "content": "x"}, "has the role 'admin'"),
        ({"role": "user"}, "without `content`"),
        ({"role": "user", "content": ["x"]}, "part of `content` without a `type`"),
        ({"type": "function_call", "call_id": "c", "name": ""}, "without `name`"),
        ({"type": "function_call_output", "call_id": "c"}, "without `output`"),
    ],
)
async def test_an_invalid_conversation_item_is_refused_and_not_stored(
    item: dict[str, Any], problem: str
) -> None:
    store = MemoryStore()
    session = Session("s1", store=store)
    with pytest.raises(UserError, match=f"item 1 of the input .*{problem}"):
        await Runner.run(HELPER, [{"role": "user", "content": "hi"}, item], session=session)
    with pytest.raises(UserError, match=f"item 0 of the session .*{problem}"):
        await session.add_items([item])
    assert not (await store.list()).sessions


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_decomposer_and_an_aggregator_may_be_functions(is_async: bool) -> None:
    def lines(text: str, fallback: str) -> list[AgentTask]:
        return [AgentTask(agent=fallback, description=line) for line in text.splitlines()]

    async def later(text: str, **options: Any) -> TaskDecomposition:
        return TaskDecomposition(tasks=tuple(lines(text, options["fallback"])))

    model = ScriptedModel([say("one"), say("two")])
    desk = Supervisor(
        "desk",
        agents=[Agent("worker", model=model)],
        decomposer=later if is_async else lines,
        aggregator=lambda state: " + ".join(sorted(str(each.data) for each in state.results)),
    )
    state = await desk.run("first\nsecond")
    assert state.final_response == "one + two"


def test_argument_checks_of_agents_are_fast() -> None:
    count = 2_000
    began = perf_counter()
    for number in range(count):
        Agent(f"a{number}", instructions="x", capabilities=(Capability(name="sql"),))
    assert (perf_counter() - began) / count < 0.001
