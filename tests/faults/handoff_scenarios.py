"""Handoffs of every policy, started by everybody, that are made, refused, undone and given back."""

from __future__ import annotations

from ekiden.core.handoffs import PolicyName
from tests.faults import handoff_teams, other_teams
from tests.faults.acts import HandTo, PersonSays
from tests.faults.scenario import BEGIN_AND_END, Reasons, Scenario, called, stored
from tests.faults.teams import NotingHooks

_REASONS: Reasons = {
    "ask.": "nobody asks",
    "ask.question.": "what people are asked is stored with the handoff to them",
    "code.": "no agent is code",
    "remote.task.": "no agent is run by another program",
    "foreign.": "no agent is of another framework",
    "plan.": "nobody has a plan",
    "guardrail.": "nobody has guardrails",
    "handoff.cancel.": "nobody cancels",
    "handoff.compensation.": "nothing is to be undone",
    "handoff.condition.": "no handoff is conditional",
    "handoff.confirmation.": "no handoff needs a person's yes",
    "handoff.filter.": "no handoff has a filter",
    "handoff.hooks.": "nobody has hooks",
    "handoff.offer.": "no agent is asked whether it accepts",
    "handoff.refused.": "no handoff is refused, or a model's turn is stored with it",
    "handoff.registration.": "no compensation is registered",
    "handoff.request.": "nobody asks while somebody else runs the session",
    "handoff.rollback.": "every target answers",
    "handoff.rollback.after_begin": "a rollback without compensations is one transaction",
    "handoff.rollback.before_begin": "a rollback without compensations is one transaction",
    "handoff.start.": "no program starts a handoff",
    "handoff.start.after_release": "whoever starts a handoff lets the agent work, too",
    "handoff.start.before_release": "whoever starts a handoff lets the agent work, too",
    "handoff.validating.": "no handoff has a callback",
    "handoff.withdrawn.": "nobody withdraws a request",
    "route.": "nobody routes",
    "turn.": "no agent has a model",
    "turn.tool": "no model calls a tool",
    "turn.answer.": "a plain transfer is stored with its answer",
    "turn.tools.after_remember": "one tool in a turn is stored with the turn",
}


def without(*points: str) -> Reasons:
    """Why a scenario does not come by these points; nobody's comes by some of them."""
    rare = ("ask.", "foreign.", "guardrail.", "plan.", "route.")
    rarely = ("handoff.cancel.", "handoff.request.", "handoff.withdrawn.")
    reasons = {point: _REASONS[point] for point in (*rare, *rarely, *points)}
    if "ask.question." in points:
        del reasons["ask."]
    return reasons


_NOTHING_ASKED = ("handoff.condition.", "handoff.confirmation.", "handoff.offer.")
_NOTHING_CALLED = ("handoff.filter.", "handoff.hooks.", "handoff.validating.")
_NOTHING_UNDONE = ("handoff.compensation.", "handoff.registration.", "handoff.rollback.")
_ONE_COMMIT = ("handoff.rollback.before_begin", "handoff.rollback.after_begin")
_BY_MODELS = ("code.", "remote.task.", "handoff.start.", "handoff.refused.")

_UNDONE = {
    **stored({"handoff.rollback": 1}),
    "handoff.rollback.before_begin": 1,
    "handoff.rollback.after_begin": 1,
}


def _policy(
    policy: PolicyName, *conditions: str, tools: int, more: dict[str, int], gone: tuple[str, ...]
) -> Scenario:
    """Everything that can have a say in a handoff has, and the first handoff is rolled back."""
    return Scenario(
        team=handoff_teams.policy(policy, *conditions),
        commits=17 + tools,
        hooks=NotingHooks,
        config=handoff_teams.attended,
        effects=("lorry", "driver", "no driver", "no lorry", "A-42", *["paper"] * (tools - 3)),
        variables={"A-42": 1, **({"paper": 1} if tools > 3 else {})},
        undone=("driver", "lorry"),
        visits={
            **BEGIN_AND_END,
            **_UNDONE,
            **called({
                "turn.model": 7, "turn.tool": tools, "handoff.offer": 2, "handoff.filter": 1,
                "handoff.hooks": 2, "handoff.compensation": 2,
            }),
            **stored({
                "turn.answer": 5, "turn.tools": 3, "handoff.transferring": 2,
                "handoff.registration": 2, "handoff.compensation": 2,
            }),
            "turn.model.after_call": 6,
            "handoff.validating.before_callback": 1,
            "handoff.validating.after_callback": 1,
            "handoff.confirmation.before_call": 1,
            "handoff.confirmation.after_commit": 1,
            **more,
        },
        unreachable=without(*_BY_MODELS, *gone),
    )  # fmt: skip


POLICIES: dict[str, Scenario] = {
    "immediate": _policy(
        "immediate",
        tools=3,
        more={},
        gone=("handoff.condition.", "turn.tools.after_remember"),
    ),
    "graceful": _policy(
        "graceful", tools=4, more={"turn.tools.after_remember": 1}, gone=("handoff.condition.",)
    ),
    "conditional": _policy(
        "conditional",
        "paper == 1",
        "error_count > 0",
        tools=4,
        more={"turn.tools.after_remember": 1, "handoff.condition.after_check": 2},
        gone=(),
    ),
}

_ROLLBACKS = {
    "nested": Scenario(
        team=handoff_teams.nested,
        commits=19,
        effects=("paper", "nails", "hammer", "no hammer", "no nails", "no paper"),
        variables={},
        undone=("hammer", "nails", "paper"),
        visits={
            **BEGIN_AND_END,
            **dict.fromkeys(_UNDONE, 2),
            **called({"turn.model": 7, "turn.tool": 3, "handoff.compensation": 3}),
            **stored({
                "turn.answer": 2, "turn.tools": 2, "handoff.transferring": 2,
                "handoff.registration": 3, "handoff.compensation": 3,
            }),
            "turn.model.after_call": 5,
            "turn.tools.after_remember": 1,
        },
        unreachable=without(*_BY_MODELS, *_NOTHING_ASKED, *_NOTHING_CALLED),
    ),
    "compensated": Scenario(
        team=handoff_teams.compensated,
        commits=23,
        entry="front",
        config=handoff_teams.attended,
        effects=("paper", "permit", "lorry", "driver", "no driver", "no lorry", "no fuel"),
        variables={"paper": 1},
        undone=("fuel", "driver", "lorry"),
        visits={
            **BEGIN_AND_END,
            **_UNDONE,
            **called({"code.tool": 4, "handoff.compensation": 7}),
            **stored({
                "handoff.transferring": 1, "handoff.registration": 3, "handoff.compensation": 7,
                "code.intent": 4,
            }),
            "handoff.compensation.after_call": 3,
            "code.tool.after_commit": 4,
            "code.answer.after_run": 2,
        },
        unreachable=without(
            "turn.", "remote.task.", "handoff.start.", "handoff.refused.",
            *_NOTHING_ASKED, *_NOTHING_CALLED,
        ),
    ),
}  # fmt: skip

_TRIGGERED = {
    "triggered": Scenario(
        team=other_teams.triggered,
        commits=12,
        entry="desk",
        config=other_teams.far,
        effects=("paper", "shift", "lamp"),
        visits={
            **BEGIN_AND_END,
            **called({"turn.model": 5, "turn.tool": 3}),
            **stored({
                "turn.answer": 3, "turn.tools": 3, "handoff.transferring": 3, "handoff.refused": 1,
            }),
            "turn.model.after_call": 4,
            "handoff.condition.after_check": 1,
        },
        unreachable=without(
            "code.", "remote.task.", "handoff.start.", "handoff.confirmation.", "handoff.offer.",
            "turn.tools.after_remember", *_NOTHING_CALLED, *_NOTHING_UNDONE,
        ),
    ),
    "hung": Scenario(
        team=other_teams.hung,
        commits=5,
        entry="desk",
        visits={
            **BEGIN_AND_END,
            **called({"turn.model": 3, "turn.tool": 1}),
            **stored({"turn.answer": 1, "turn.tools": 1, "handoff.transferring": 1}),
            "turn.model.after_call": 2,
        },
        unreachable=without(
            *_BY_MODELS, "turn.tools.after_remember",
            *_NOTHING_ASKED, *_NOTHING_CALLED, *_NOTHING_UNDONE,
        ),
    ),
}  # fmt: skip

_PROGRAMS = {
    "program": Scenario(
        team=other_teams.program,
        commits=20,
        entry="desk",
        config=handoff_teams.attended,
        acts=(
            "hello A-42",
            HandTo(to="shipping"),
            HandTo(to="away"),
            HandTo(to="orders"),
            "and B-7",
        ),
        effects=("lorry", "no lorry", "A-42", "B-7"),
        variables={"A-42": 1, "B-7": 1},
        undone=("lorry",),
        visits={
            **stored({"run.begin": 2, "run.finish": 4}),
            **_UNDONE,
            **called({
                "turn.model": 7, "turn.tool": 3, "handoff.offer": 1, "handoff.compensation": 1,
            }),
            **stored({
                "turn.answer": 3, "turn.tools": 3, "handoff.transferring": 2, "handoff.refused": 1,
                "handoff.registration": 1, "handoff.compensation": 1,
            }),
            "turn.model.after_call": 6,
            "handoff.confirmation.before_call": 1,
            "handoff.confirmation.after_commit": 1,
            "handoff.start.after_claim": 3,
        },
        unreachable=without(
            "code.", "remote.task.", "handoff.condition.", "handoff.start.before_release",
            "handoff.start.after_release", "turn.tools.after_remember", *_NOTHING_CALLED,
        ),
    ),
    "left": Scenario(
        team=other_teams.program,
        commits=17,
        claims=5,
        entry="desk",
        config=handoff_teams.attended,
        acts=(
            "hello A-42",
            HandTo(to="shipping", run=False),
            HandTo(to="orders", policy="immediate", run=False),
        ),
        effects=("lorry", "no lorry", "A-42"),
        variables={"A-42": 1},
        undone=("lorry",),
        visits={
            **stored({"run.begin": 1, "run.finish": 3}),
            **_UNDONE,
            **called({
                "turn.model": 5, "turn.tool": 2, "handoff.offer": 1, "handoff.compensation": 1,
            }),
            **stored({
                "turn.answer": 2, "turn.tools": 2, "handoff.transferring": 2,
                "handoff.registration": 1, "handoff.compensation": 1,
            }),
            "turn.model.after_call": 4,
            "handoff.confirmation.before_call": 1,
            "handoff.confirmation.after_commit": 1,
            "handoff.start.after_claim": 2,
            "handoff.start.before_release": 2,
            "handoff.start.after_release": 2,
        },
        unreachable=without(
            "code.", "remote.task.", "handoff.condition.", "handoff.refused.",
            "turn.tools.after_remember", *_NOTHING_CALLED,
        ),
    ),
}  # fmt: skip

_ELSEWHERE = {
    "returned": Scenario(
        team=handoff_teams.returned,
        commits=6,
        visits={
            **BEGIN_AND_END,
            **called({"turn.model": 4, "turn.tool": 1}),
            **stored({"turn.answer": 1, "turn.tools": 1, "handoff.transferring": 2}),
        },
        unreachable=without(
            *_BY_MODELS, "turn.tools.after_remember",
            *_NOTHING_ASKED, *_NOTHING_CALLED, *_NOTHING_UNDONE,
        ),
    ),
    "elsewhere": Scenario(
        team=other_teams.elsewhere,
        commits=6,
        effects=("parcel of 5 items",),
        visits={
            **BEGIN_AND_END,
            **called({"turn.model": 3, "remote.task": 2}),
            **stored({"handoff.transferring": 3, "handoff.rollback": 1}),
        },
        unreachable=without(
            "code.", "handoff.start.", "handoff.refused.", "turn.tool", "turn.answer.",
            "handoff.compensation.", "handoff.registration.", *_ONE_COMMIT,
            *_NOTHING_ASKED, *_NOTHING_CALLED,
        ),
    ),
    "people": Scenario(
        team=other_teams.people,
        commits=13,
        claims=6,
        acts=(
            "please book A-42",
            PersonSays(text="anna knows", give_back=True),
            "and B-7",
            PersonSays(text="nobody knows"),
        ),
        visits={
            **stored({"run.begin": 2, "run.finish": 4, "ask.answers": 2}),
            **called({"turn.model": 4, "turn.tool": 1}),
            **stored({"turn.answer": 1, "turn.tools": 1, "handoff.transferring": 3}),
        },
        unreachable=without(
            *_BY_MODELS, "ask.question.", "turn.tools.after_remember",
            *_NOTHING_ASKED, *_NOTHING_CALLED, *_NOTHING_UNDONE,
        ),
    ),
}  # fmt: skip

HANDOFFS: dict[str, Scenario] = {
    **POLICIES,
    **_ROLLBACKS,
    **_TRIGGERED,
    **_PROGRAMS,
    **_ELSEWHERE,
}
