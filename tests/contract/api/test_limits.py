"""Limits of runs and tenants, given with a run, by settings and in agents."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ekiden import Agent, Team, Usage, function_tool
from ekiden.client.ekiden import Ekiden
from ekiden.core.conversation.model import ModelRequest
from ekiden.core.errors.server import RequestInvalid
from ekiden.testing import ScriptedModel, call, say

USED = Usage(requests=1, input_tokens=20, total_tokens=20, cost=0.4)


@function_tool
def search(words: str) -> str:
    """Look something up."""
    return "nothing"


def answer(request: ModelRequest) -> Any:
    """Twice a search, then an answer."""
    searched = sum(item.get("type") == "function_call_output" for item in request.input)
    step = say("found") if searched >= 2 else call("search", words="x")
    return replace(step, usage=USED)


@pytest.fixture
def members() -> Team:
    """Who works for `relay`."""
    return Team(Agent("clerk", model=ScriptedModel(respond=answer), tools=[search]))


@pytest.mark.parametrize(
    ("option", "value", "higher"),
    [
        ("max_turns", 1, 9),
        ("max_tokens", 30, 500),
        ("max_money", 0.5, 9),
        ("max_seconds", 1e-6, 60),
    ],
)
async def test_each_limit_reports_its_figures_and_can_be_raised(
    relay: Ekiden, option: str, value: float, higher: float
) -> None:
    name = option.removeprefix("max_")
    given: Any = {option: value}
    run = await relay.runs.run("hello", session_id="a", **given)
    assert run.status == "out_of_budget"
    assert run.reached is not None
    assert (run.reached.limit, run.reached.allowed, run.reached.scope) == (name, value, "run")
    assert run.reached.used >= value
    assert run.error is not None
    assert run.error.code == "run.out_of_budget"
    assert f"--max-{name}" in run.error.message
    again = await relay.runs.resume_and_wait("a", **given)
    assert again.reached is not None
    assert again.reached.limit == name
    given = {option: higher}
    done = await relay.runs.resume_and_wait("a", **given)
    assert (done.status, done.output, done.reached, done.error) == ("done", "found", None, None)
    with pytest.raises(RequestInvalid):
        await relay.runs.run("hello", **{option: 0})


async def test_resuming_without_limits_uses_those_of_the_settings(
    relay: Ekiden,
) -> None:
    run = await relay.runs.run("hello", session_id="a", max_tokens=30)
    assert run.status == "out_of_budget"
    assert (await relay.runs.resume_and_wait("a")).output == "found"
