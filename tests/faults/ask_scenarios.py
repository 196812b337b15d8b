"""Agents that ask and tell each other, and ask people."""

from __future__ import annotations

from tests.faults import ask_teams, plan_teams
from tests.faults.scenario import Reasons, Scenario, called, stored

_NO_HANDOFF: Reasons = {
    "remote.task.": "no agent is run by another program",
    "foreign.": "no agent is of another framework",
    "guardrail.": "nobody has guardrails",
    "handoff.": "nobody hands over",
    "plan.": "nobody has a plan",
    "route.": "nobody routes",
}

ASKS: dict[str, Scenario] = {
    "asked": Scenario(
        team=ask_teams.asked,
        has_family=True,
        entry="front",
        commits=24,
        claims=5,
        effects=("offer", "shelf", "truck", "file", "A-42"),
        visits={
            **stored({
                "run.begin": 1, "ask.question": 3, "ask.answers": 3, "turn.answer": 2,
                "turn.tools": 2, "run.finish": 5, "code.intent": 4,
            }),
            **called({"turn.model": 3, "turn.tool": 3, "code.tool": 4}),
            "turn.tool.after_call": 2,
            "code.tool.after_commit": 4,
            "code.answer.after_run": 4,
        },
        unreachable={
            **_NO_HANDOFF,
            "turn.tools.after_remember": "one tool in a turn is stored with the turn",
        },
    ),
    "compared": Scenario(
        team=ask_teams.compared,
        has_family=True,
        is_side_by_side=True,
        entry="desk",
        commits=0,
        effects=("left", "right", "truck", "note"),
        visits={
            **stored({
                "run.begin": 1, "ask.question": 2, "ask.answers": 2, "turn.answer": 1,
                "turn.tools": 1, "run.finish": 4, "code.intent": 3,
            }),
            **called({"turn.model": 2, "turn.tool": 3, "code.tool": 3}),
            "turn.tool.after_call": 2,
            "turn.tools.after_remember": 2,
            "code.tool.after_commit": 3,
            "code.answer.after_run": 3,
        },
        unreachable=_NO_HANDOFF,
    ),
    "approved": Scenario(
        team=ask_teams.approved,
        has_family=True,
        entry="front",
        config=ask_teams.by_inbox,
        commits=17,
        claims=7,
        effects=("draft", "A-42"),
        visits={
            **stored({
                "run.begin": 1, "ask.question": 3, "ask.answers": 3, "run.finish": 5,
                "code.intent": 2,
            }),
            **called({"code.tool": 2}),
            "code.tool.after_commit": 2,
            "code.answer.after_run": 2,
        },
        unreachable={**_NO_HANDOFF, "turn.": "no agent has a model"},
    ),
    "planned": Scenario(
        team=plan_teams.planned,
        has_family=True,
        is_side_by_side=True,
        entry="boss",
        commits=0,
        effects=plan_teams.NAMES,
        visits={
            **stored({
                "run.begin": 1, "plan.decomposed": 1, "ask.question": 10, "ask.answers": 10,
                "plan.result": 10, "plan.answer": 1, "run.finish": 11,
                "code.intent": 10,
            }),
            **called({"code.tool": 10}),
            "code.tool.after_commit": 10,
            "code.answer.after_run": 10,
        },
        unreachable={
            "remote.task.": "no agent is run by another program",
            "foreign.": "no agent is of another framework",
    "guardrail.": "nobody has guardrails",
            "handoff.": "nobody hands over",
            "route.": "nobody routes",
            "turn.": "no agent has a model",
        },
    ),
}  # fmt: skip
"""What people have to say in `approved` is a yes to everything."""
