"""The runs that are killed, and which fault points each of them passes how often."""

from __future__ import annotations

from tests.faults import teams
from tests.faults.ask_scenarios import ASKS
from tests.faults.busy_team import busy
from tests.faults.guarded_team import guarded
from tests.faults.handoff_scenarios import HANDOFFS
from tests.faults.scenario import (
    BEGIN_AND_END,
    DATABASES,
    DatabaseName,
    Scenario,
    called,
    is_unreachable,
    stored,
)

__all__ = [
    "ALL",
    "ASKS",
    "BUSY",
    "DATABASES",
    "HANDOFFS",
    "KNOWN",
    "SCENARIOS",
    "DatabaseName",
    "Scenario",
    "is_unreachable",
]

_NO_ROUTER = {"route.": "nobody routes"}
_NO_CONTROLLER = {
    "ask.": "nobody asks",
    "plan.": "nobody has a plan",
    "remote.task.": "no agent is run by another program",
    "foreign.": "no agent is of another framework",
    "guardrail.": "nobody has guardrails",
    "handoff.cancel.": "nobody cancels",
    "handoff.compensation.": "nothing is to be undone",
    "handoff.condition.": "no handoff is conditional",
    "handoff.confirmation.": "no handoff needs a person's yes",
    "handoff.offer.": "no agent is asked whether it accepts",
    "handoff.refused.": "no handoff is refused",
    "handoff.registration.": "no compensation is registered",
    "handoff.request.": "nobody asks for a handoff",
    "handoff.rollback.after_begin": "a rollback without compensations is one transaction",
    "handoff.rollback.before_begin": "a rollback without compensations is one transaction",
    "handoff.start.": "no program starts a handoff",
    "handoff.withdrawn.": "nobody withdraws a request",
}
_NO_HOOKS = {"handoff.hooks.": "nobody has hooks", **_NO_CONTROLLER}
_NO_CODE = {"code.": "no agent is code", **_NO_ROUTER}
_NO_MODEL = {
    "turn.model.": "no agent has a model",
    "turn.tool": "tools are called by code",
    **_NO_ROUTER,
}
_NO_ROLLBACK = {"handoff.rollback.": "every target answers"}
_NO_FILTER = {"handoff.filter.": "no handoff has a filter"}
_NO_CALLBACK = {"handoff.validating.": "no handoff has a callback", **_NO_HOOKS}
_NO_MEMORY = {"turn.tools.after_remember": "one tool in a turn is stored with the turn"}

_RELAY = {
    **BEGIN_AND_END,
    "turn.model.before_call": 4,
    "turn.model.after_call": 4,
    "turn.answer.before_commit": 1,
    "turn.answer.after_commit": 1,
    "turn.tool.before_call": 1,
    "turn.tool.after_call": 1,
    "turn.tools.before_commit": 1,
    "turn.tools.after_commit": 1,
    "handoff.transferring.before_commit": 2,
    "handoff.transferring.after_commit": 2,
}

SCENARIOS: dict[str, Scenario] = {
    "relay": Scenario(
        team=teams.relay,
        commits=6,
        visits=_RELAY,
        unreachable={**_NO_CODE, **_NO_ROLLBACK, **_NO_FILTER, **_NO_CALLBACK, **_NO_MEMORY},
    ),
    "streamed": Scenario(
        team=teams.relay,
        commits=9,
        streamed=True,
        visits=_RELAY,
        unreachable={**_NO_CODE, **_NO_ROLLBACK, **_NO_FILTER, **_NO_CALLBACK, **_NO_MEMORY},
    ),
    "filtered": Scenario(
        team=teams.filtered,
        commits=12,
        hooks=teams.NotingHooks,
        config=teams.filtering_config,
        acts=("please book A-42", "thank you, and B-7"),
        effects=("A-42", "B-7"),
        visits={
            **dict.fromkeys(BEGIN_AND_END, 2),
            "turn.model.before_call": 6,
            "turn.model.after_call": 6,
            "turn.answer.before_commit": 4,
            "turn.answer.after_commit": 4,
            "turn.tool.before_call": 2,
            "turn.tool.after_call": 2,
            "turn.tools.before_commit": 2,
            "turn.tools.after_commit": 2,
            "handoff.validating.before_callback": 1,
            "handoff.validating.after_callback": 1,
            "handoff.filter.before_call": 2,
            "handoff.filter.after_call": 2,
            "handoff.hooks.before_call": 2,
            "handoff.hooks.after_call": 2,
            "handoff.transferring.before_commit": 2,
            "handoff.transferring.after_commit": 2,
        },
        unreachable={**_NO_CODE, **_NO_CONTROLLER, **_NO_ROLLBACK, **_NO_MEMORY},
    ),
    "parallel": Scenario(
        team=teams.parallel,
        commits=9,
        entry="desk",
        effects=("one", "two", "three", "four"),
        visits={
            **BEGIN_AND_END,
            "turn.model.before_call": 3,
            "turn.model.after_call": 3,
            "turn.answer.before_commit": 2,
            "turn.answer.after_commit": 2,
            "turn.tool.before_call": 4,
            "turn.tool.after_call": 4,
            "turn.tools.after_remember": 3,
            "turn.tools.before_commit": 1,
            "turn.tools.after_commit": 1,
            "handoff.transferring.before_commit": 1,
            "handoff.transferring.after_commit": 1,
        },
        unreachable={**_NO_CODE, **_NO_ROLLBACK, **_NO_FILTER, **_NO_CALLBACK},
    ),
    "rollback": Scenario(
        team=teams.rollback,
        commits=8,
        visits={
            **BEGIN_AND_END,
            "turn.model.before_call": 5,
            "turn.model.after_call": 4,
            "turn.answer.before_commit": 2,
            "turn.answer.after_commit": 2,
            "turn.tool.before_call": 1,
            "turn.tool.after_call": 1,
            "turn.tools.before_commit": 1,
            "turn.tools.after_commit": 1,
            "handoff.filter.before_call": 1,
            "handoff.filter.after_call": 1,
            "handoff.transferring.before_commit": 2,
            "handoff.transferring.after_commit": 2,
            "handoff.rollback.before_commit": 1,
            "handoff.rollback.after_commit": 1,
        },
        unreachable={**_NO_CODE, **_NO_CALLBACK, **_NO_MEMORY},
    ),
    "routed": Scenario(
        team=teams.routed,
        commits=7,
        entry="router-agent",
        visits={
            **BEGIN_AND_END,
            "route.assign.before_call": 2,
            "route.assign.after_call": 2,
            "route.assign.before_commit": 2,
            "route.assign.after_commit": 2,
            "turn.model.before_call": 3,
            "turn.model.after_call": 3,
            "turn.answer.before_commit": 1,
            "turn.answer.after_commit": 1,
            "turn.tool.before_call": 1,
            "turn.tool.after_call": 1,
            "turn.tools.before_commit": 1,
            "turn.tools.after_commit": 1,
            "handoff.transferring.before_commit": 1,
            "handoff.transferring.after_commit": 1,
        },
        unreachable={
            "code.": "no agent is code",
            **_NO_ROLLBACK,
            **_NO_FILTER,
            **_NO_CALLBACK,
            **_NO_MEMORY,
        },
    ),
    "code": Scenario(
        team=teams.code,
        commits=10,
        entry="front",
        effects=("one", "two", "three"),
        visits={
            **BEGIN_AND_END,
            "code.tool.before_call": 3,
            "code.intent.before_commit": 3,
            "code.intent.after_commit": 3,
            "code.tool.after_call": 3,
            "code.tool.after_commit": 3,
            "code.answer.after_run": 3,
            "handoff.transferring.before_commit": 2,
            "handoff.transferring.after_commit": 2,
        },
        unreachable={
            **_NO_MODEL,
            **_NO_ROLLBACK,
            **_NO_FILTER,
            **_NO_CALLBACK,
            "turn.answer.": "a plain transfer is stored with its answer",
        },
    ),
    "code_rollback": Scenario(
        team=teams.code_rollback,
        commits=10,
        entry="front",
        effects=("first", "second", "third"),
        visits={
            **BEGIN_AND_END,
            "code.tool.before_call": 3,
            "code.intent.before_commit": 3,
            "code.intent.after_commit": 3,
            "code.tool.after_call": 3,
            "code.tool.after_commit": 3,
            "code.answer.after_run": 2,
            "handoff.transferring.before_commit": 1,
            "handoff.transferring.after_commit": 1,
            "handoff.rollback.before_commit": 1,
            "handoff.rollback.after_commit": 1,
        },
        unreachable={
            **_NO_MODEL,
            **_NO_FILTER,
            **_NO_CALLBACK,
            "turn.answer.": "a plain transfer is stored with its answer",
        },
    ),
    "foreign": Scenario(
        team=teams.foreign,
        commits=9,
        entry="front",
        effects=("one", "two", "three"),
        visits={
            **BEGIN_AND_END,
            **called({"foreign.step": 3}),
            **stored({"foreign.checkpoint": 3, "handoff.transferring": 1}),
            "foreign.step.after_commit": 3,
            "code.answer.after_run": 2,
        },
        unreachable={
            **_NO_MODEL,
            **_NO_ROLLBACK,
            **_NO_FILTER,
            **{at: why for at, why in _NO_CALLBACK.items() if at != "foreign."},
            "code.intent.": "effects are known by what they are",
            "code.tool.": "no agent is code",
            "turn.answer.": "a plain transfer is stored with its answer",
        },
    ),
    "guarded": Scenario(
        team=guarded,
        commits=15,
        visits={
            **BEGIN_AND_END,
            **called({
                "turn.model": 7, "turn.tool": 1, "guardrail.input": 3, "guardrail.output": 2,
                "guardrail.handoff": 2,
            }),
            **stored({
                "turn.answer": 3, "turn.tools": 2, "handoff.transferring": 3,
                "handoff.rollback": 1, "guardrail.repair": 1, "guardrail.stop": 1,
            }),
            "guardrail.input.after_commit": 2,
        },
        unreachable={
            **{at: why for at, why in _NO_CODE.items() if at != "guardrail."},
            **{at: why for at, why in _NO_CALLBACK.items() if at != "guardrail."},
            **_NO_FILTER,
            **_NO_MEMORY,
        },
    ),
}  # fmt: skip


ALL = {**SCENARIOS, **HANDOFFS}

BUSY = {
    "busy": Scenario(
        team=busy, commits=0, visits={}, unreachable={}, entry="desk", acts=("please book A-42",)
    ),
    "mason": Scenario(
        team=busy, commits=0, visits={}, unreachable={}, entry="desk", acts=("carve a stone",)
    ),
}
"""What does not end by itself: somebody has to say go. Who passes what depends on who is asked."""

KNOWN = {**ALL, **ASKS, **BUSY}
