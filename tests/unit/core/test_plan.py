"""What tasks, results and plans must be."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from ekiden.core.agent import Agent
from ekiden.core.documents import to_json
from ekiden.core.errors import UserError
from ekiden.core.plan import (
    AgentResult,
    AgentTask,
    MultiAgentState,
    PlanSettings,
    TaskDecomposition,
)
from tests.support.cases import each_case


def task(task_id: str, *needs: str) -> AgentTask:
    return AgentTask(agent="a", description="d", task_id=task_id, depends_on=needs)


def test_a_task_gets_an_id_and_a_time() -> None:
    one, other = (AgentTask(agent="a", description="d") for _ in range(2))
    assert UUID(one.task_id) != UUID(other.task_id)
    assert one.created_at > 0
    assert (one.parameters, one.depends_on) == ({}, ())


@each_case(
    ("fields", "words"),
    [
        ({"description": " \n"}, "description that is not empty"),
        ({"description": None}, "description that is not empty"),
        ({"agent": ""}, "name of an agent"),
        ({"task_id": ""}, "an id that is not empty"),
        ({"depends_on": "t1"}, "list of ids"),
        ({"depends_on": (1,)}, "list of ids"),
        ({"parameters": [1]}, "must be a JSON object"),
        ({"parameters": {"a": object()}}, "must be JSON"),
        ({"parameters": {"a": float("nan")}}, "must be JSON"),
    ],
)
def test_an_invalid_task_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        AgentTask(**{"agent": "a", "description": "d", **fields})


@each_case(
    ("fields", "words"),
    [
        ({"success": True}, "needs `data`"),
        ({"success": True, "data": 1, "error": "no"}, "it has no `error`"),
        ({"success": False}, "needs an `error`"),
        ({"success": False, "error": ""}, "needs an `error`"),
        ({"success": True, "data": 1, "execution_time": -1}, "0 or more seconds"),
        ({"success": True, "data": 1, "execution_time": float("nan")}, "0 or more seconds"),
        ({"success": True, "data": {1, 2}}, "must be JSON"),
    ],
)
def test_a_success_requires_data_and_a_failure_an_error(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        AgentResult(task_id="t", agent="a", **fields)


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        ((), "at least one task"),
        ((task("a"), task("a")), "same id"),
        ((task("a", "b"),), "depends on 'b': no such task"),
        ((task("a", "a"),), "circle: a → a"),
        ((task("x"), task("a", "b", "x"), task("b", "c"), task("c", "a")), "circle: a → b → c → a"),
    ],
)
def test_an_invalid_plan_is_refused(tasks: tuple[AgentTask, ...], words: str) -> None:
    with pytest.raises(UserError, match=words):
        TaskDecomposition(tasks=tasks)


@given(
    edges=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=15, unique=True),
)
def test_only_plans_with_cycles_are_refused(edges: list[tuple[int, int]]) -> None:
    needs: dict[int, set[int]] = {node: set() for node in range(7)}
    for start, end in edges:
        needs[start].add(end)
    left = dict(needs)
    while free := [node for node, wanted in left.items() if not wanted & left.keys()]:
        for node in free:
            del left[node]
    tasks = tuple(task(str(node), *map(str, sorted(wanted))) for node, wanted in needs.items())
    if left:
        with pytest.raises(UserError, match="circle"):
            TaskDecomposition(tasks=tasks)
    else:
        assert TaskDecomposition(tasks=tasks).requires_aggregation


def test_a_stored_plan_is_read_back_unchanged() -> None:
    first = AgentTask(agent="a", description="東京", parameters={"n": [1]}, task_id="t1")
    plan = TaskDecomposition(tasks=(first, task("t2", "t1")), reasoning="so", notes=("n",))
    assert TaskDecomposition.from_json(plan.to_json()) == plan
    assert plan.to_json()["requires_aggregation"] is True
    assert not TaskDecomposition(tasks=(first,)).requires_aggregation
    result = AgentResult(task_id="t1", agent="a", success=True, data=[1], execution_time=0.5)
    assert AgentResult.from_json(to_json(result)) == result
    state = MultiAgentState(user_input="hi", decomposition=plan, results=(result,))
    told = state.to_json()
    assert (told["phase"], told["decomposition"], told["final_response"]) == (
        "init", plan.to_json(), None,
    )  # fmt: skip
    assert MultiAgentState(user_input="hi").to_json()["decomposition"] is None


@each_case(
    ("fields", "words"),
    [
        ({"members": ()}, "at least one agent"),
        ({"concurrency": 0}, "`concurrency` of a supervisor must be a whole number of 1 or more"),
        ({"concurrency": 1.5}, "`concurrency` of a supervisor must be a whole number"),
        ({"max_tasks": True}, "`max_tasks` of a supervisor must be a whole number"),
        ({"retries": -1}, "`retries` of a supervisor must be a whole number of 0 or more"),
        ({"timeout_s": 0}, "`timeout_s`"),
        ({"timeout_s": float("inf")}, "`timeout_s`"),
        ({"backoff_s": -0.1}, "`backoff_s`"),
        ({"members": (Agent("a"), Agent("a"))}, "same name"),
        ({"fallback": "b"}, "not among the supervisor's agents: a"),
    ],
)
def test_invalid_plan_settings_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        PlanSettings(**{"members": (Agent("a"),), **fields})


def test_the_default_fallback_is_the_last_member() -> None:
    members = (Agent("a"), Agent("b"))
    assert PlanSettings(members=members).fallback_name == "b"
    assert PlanSettings(members=members, fallback="a").fallback_name == "a"
