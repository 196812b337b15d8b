"""`ekiden plan`."""

from __future__ import annotations

import json
from asyncio import to_thread

import pytest

from ekiden.testing.servers.openai import OpenAIServer
from tests.acceptance.conftest import Project, Ran

BOTH = "Where is my order 1043, and then I want a refund"
DESK = """\
---
name: desk
title: Front desk
supervisor:
  agents: [orders, billing]
  fallback: orders
  concurrency: 2
  budget: {tokens: 500}
---
"""


def test_json_output_is_the_plan_and_nothing_is_stored_or_run(project: Project) -> None:
    planned = project("plan", "--json", BOTH)
    assert (planned.code, planned.err) == (0, "")
    assert planned.json == {
        "reasoning": "Split by keywords and patterns into 2 parts.",
        "requires_aggregation": True,
        "method": "rules",
        "tasks": [
            {
                "task_id": "t1",
                "agent": "orders",
                "description": "Where is my order 1043",
                "parameters": {},
                "depends_on": [],
            },
            {
                "task_id": "t2",
                "agent": "billing",
                "description": "I want a refund",
                "parameters": {},
                "depends_on": ["t1"],
            },
        ],
        "notes": [],
        "supervisor": None,
    }
    assert not (project.folder / ".ekiden" / "ekiden.db").exists()


@pytest.mark.slow
def test_the_plan_is_printed_as_a_small_tree(project: Project) -> None:
    planned = project("plan", f"{BOTH}. Also, tell me a long story about a fox")
    assert planned.out.splitlines() == [
        "by rules → 3 tasks, no supervisor, all agents considered",
        "because: Split by keywords and patterns into 3 parts.",
        "",
        "├─ t1 orders: Where is my order 1043",
        "│  └─ t2 billing: I want a refund. (after t1)",
        "└─ t3 technical: Also, tell me a long story about a fox",
        "",
        'note: no keyword or pattern matches "Also, tell me a long story about a '
        "fox\": it goes to the fallback 'technical'",
    ]


@pytest.mark.slow
def test_plan_uses_the_only_supervisor_or_the_named_one(project: Project) -> None:
    project.agent("desk", DESK)
    assert "supervisor desk" in project("plan", BOTH).out
    assert "1 task, supervisor desk" in project("plan", "@desk my order").out
    refused = project("plan", "--agent", "orders", "--json", BOTH)
    assert (refused.code, refused.error["code"]) == (2, "user.error")
    assert "supervisors: desk" in refused.error["message"]
    assert project("plan", "--agent", "nobody", BOTH).code == 5
    project.agent("night", DESK.replace("name: desk", "name: night"))
    several = project("plan", BOTH)
    assert (several.code, several.out) == (2, "")
    assert "several supervisors: desk, night; name one with --agent" in several.err
    assert "supervisor night" in project("plan", "--agent", "night", BOTH).out


@pytest.mark.slow
def test_a_supervisor_from_an_agent_file_is_shown(project: Project) -> None:
    project.agent("desk", DESK)
    shown = project("agents", "show", "desk", "--json").json
    assert shown["kind"] == "supervisor"
    assert shown["supervisor"] == {
        "agents": ["orders", "billing"],
        "fallback": "orders",
        "concurrency": 2,
        "timeout": 60.0,
        "retries": 1,
        "backoff": 0.5,
        "max_tasks": 20,
        "budget": {"tokens": 500, "seconds": None, "money": None},
    }
    out = project("agents", "show", "desk").out
    assert "assigns tasks to: orders, billing\n  the rest to orders\n" in out
    assert "at most 2 at a time, 60 s each, 1 retry, 500 tokens" in out
    assert project("agents", "show", "orders", "--json").json["supervisor"] is None


@pytest.mark.slow
async def test_a_configured_model_makes_the_plan(project: Project) -> None:
    made = {
        "reasoning": "Two wishes.",
        "tasks": [
            {"id": "a", "agent": "orders", "description": "查订单", "depends_on": []},
            {
                "id": "b",
                "agent": "refunds",
                "description": "Pay\x1b[31m\nback",
                "depends_on": ["a"],
            },
        ],
    }
    async with OpenAIServer([json.dumps(made), "no plan", json.dumps(made)]) as server:
        project.ekiden.env.update(OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY="any")

        async def plan(*more: str) -> Ran:
            return await to_thread(project, "plan", "--model", "openai:test", *more, BOTH)

        planned = await plan()
        assert planned.err == "asking openai:test for a plan …\n"
        assert planned.out.splitlines()[0].startswith("by the model openai:test → 2 tasks")
        assert "\x1b" not in planned.out
        assert "(after a)" in planned.out
        again = await plan("--json")
    assert json.loads(again.err) == {"note": "asking openai:test for a plan …"}
    assert again.json["method"] == "model"
    assert [task["agent"] for task in again.json["tasks"]] == ["orders", "technical"]
    assert again.json["notes"] == [
        "task b: there is no agent 'refunds'; it goes to the fallback 'technical'"
    ]


@pytest.mark.slow
async def test_an_invalid_plan_of_the_model_is_an_error(project: Project) -> None:
    async with OpenAIServer(["no", "still no"]) as server:
        project.ekiden.env.update(OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY="any")
        failed = await to_thread(project, "plan", "--model", "openai:test", "--json", BOTH)
    assert (failed.code, failed.out, failed.error["code"]) == (1, "", "model.behavior")


@pytest.mark.slow
def test_an_empty_or_undecodable_request_is_refused(project: Project) -> None:
    assert project("plan", " ").code == 2
    assert project("plan", b"caf\xe9").code == 2
    assert project("plan", "two", "words").code == 2
    assert project("plan", "-", "--json", input="我的订单在哪里".encode()).json["tasks"]
