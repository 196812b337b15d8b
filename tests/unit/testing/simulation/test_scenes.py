"""One's own team in a simulated world."""

from __future__ import annotations

from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.context import ToolContext
from ekiden.core.conversation.model import ModelRequest
from ekiden.core.profile import Confirmation
from ekiden.core.tools.tool import FunctionTool
from ekiden.runtime import RunConfig
from ekiden.testing import ScriptedModel, call, say
from ekiden.testing.simulation import Outside, Scene, Talk, simulate
from ekiden.testing.steps import StepLike
from ekiden.tools import function_tool

_CONFIG = RunConfig(lease_s=2.0, approver="inbox")


@function_tool
async def book(ctx: ToolContext[Outside], what: str) -> str:
    """Book something."""
    await ctx.context.act(ctx, what)
    return f"{what} is booked"


@function_tool(confirmation=Confirmation(timeout_s=600))
async def pay(ctx: ToolContext[Outside], what: str) -> str:
    """Pay for something."""
    await ctx.context.act(ctx, what)
    return f"{what} is paid"


def _desk(tool: str) -> Agent[Any]:
    def script(request: ModelRequest) -> StepLike:
        done = [each for each in request.input if each.get("type") == "function_call_output"]
        return say("Done.") if done else call(tool, what="s1/room")

    model = ScriptedModel(respond=script, record=False)
    return Agent("desk", model=model, tools=[book, pay])


def _talk(**changes: Any) -> Talk:
    wanted: dict[str, Any] = {"answer": "Done.", "effects": {"/room": 1}, **changes}
    return Talk(id="s1", texts=["a room, please"], **wanted)


def test_a_correct_team_keeps_every_invariant() -> None:
    scene = Scene(team=_desk("book"), talks=[_talk()], config=_CONFIG)
    assert [simulate(scene, seed=seed).violations for seed in range(3)] == [(), (), ()]


async def test_a_simulation_can_run_inside_an_event_loop() -> None:
    scene = Scene(team=_desk("book"), talks=[_talk()], config=_CONFIG)
    assert simulate(scene, seed=1).ok


def test_people_answer_the_questions_of_the_team() -> None:
    scene = Scene(
        team=_desk("pay"), talks=[_talk()], config=_CONFIG, choices={"confirmation": ["approve"]}
    )
    assert simulate(scene, seed=1).ok


def test_a_wrong_answer_is_a_violation() -> None:
    scene = Scene(team=_desk("book"), talks=[_talk(answer=lambda said: said == "No.")])
    assert [each.rule for each in simulate(scene, seed=1).violations] == ["answer"]


def test_a_missing_effect_is_a_violation() -> None:
    scene = Scene(team=_desk("book"), talks=[_talk(effects={"/room": 1, "/view": 1})])
    assert [each.rule for each in simulate(scene, seed=1).violations] == ["effect"]


def test_a_wrong_variable_is_a_violation() -> None:
    scene = Scene(team=_desk("book"), talks=[_talk(variables={"rooms": (1, 2)})])
    assert [each.rule for each in simulate(scene, seed=1).violations] == ["variables"]


@function_tool
async def careless(ctx: ToolContext[Outside], what: str) -> str:
    """Book something, and ignore the key."""
    await ctx.context.effect(what)
    return f"{what} is booked"


@function_tool
async def eager(ctx: ToolContext[Outside], what: str) -> str:
    """Book something, twice in one call."""
    await ctx.context.act(ctx, what)
    await ctx.context.act(ctx, what)
    return f"{what} is booked"


def _rules(tool: FunctionTool, seeds: range) -> set[str]:
    desk = _desk(tool.name)
    desk.tools.append(tool)
    scene = Scene(team=desk, talks=[_talk(effects=None)], config=_CONFIG)
    return {each.rule for seed in seeds for each in simulate(scene, seed=seed).violations}


def test_a_tool_that_ignores_its_idempotency_key_is_found() -> None:
    assert _rules(careless, range(20)) == {"effect"}


def test_a_tool_that_acts_twice_in_one_call_is_found() -> None:
    assert _rules(eager, range(1)) == {"effect"}


def test_calls_are_repeated_under_many_seeds() -> None:
    scene = Scene(team=_desk("book"), talks=[_talk()], config=_CONFIG)
    reports = [simulate(scene, seed=seed) for seed in range(20)]
    assert all(report.ok for report in reports)
    assert sum(report.counts.get("repeated", 0) > 0 for report in reports) >= 3


def test_a_report_describes_the_simulation() -> None:
    report = simulate(Scene(team=_desk("book"), talks=[_talk()]), seed=1)
    told = report.to_json()
    assert told["ok"]
    assert told["seed"] == 1
    assert told["counts"]["commit"] > 2
    assert any("acknowledged to a submitter" in line for line in report.trace)
