"""May this handoff be made? Written anew from the specification, over plain data."""

from __future__ import annotations

from dataclasses import dataclass

from tests.unit.runtime.handoff_machine.teams import BEST, AgentSpec, EdgeSpec, TeamSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Everything that a verdict depends on."""

    team: TeamSpec
    chain: tuple[str, ...]
    """Who had the task, beginning with `user` and ending with who has it."""
    target: str
    """As it was asked for; `*` is whoever is best."""
    edge: EdgeSpec | None
    """`None`: there is no way."""
    policy: str
    capabilities: tuple[str, ...]
    level: int | None
    """The session's variable."""
    is_changed: dict[str, bool]
    """By agent: would it find anything that it did not have when it let the task go?"""
    away: frozenset[str]
    declining: frozenset[str]
    is_approved: bool
    are_words_readable: bool


def verdict(case: Case) -> tuple[str | None, str]:
    """The code of the refusal, or `None`; and whom it leads to.

    The checks in the order of the specification: the agents exist, the target is available, there
    is a way, depth, cycle, capability; then condition, approval, and the target's own answer.
    """
    if not case.are_words_readable:
        return "INVALID_INPUT", case.target
    if case.target != BEST:
        if case.target not in case.team.names:
            return "AGENT_NOT_FOUND", case.target
        if not _is_available(case, case.team[case.target]):
            return "AGENT_UNAVAILABLE", case.target
    if case.edge is None:
        return "PERMISSION_DENIED", case.target
    if len(case.chain) - 2 >= case.team.depth:
        return "MAX_DEPTH_EXCEEDED", case.target
    required = {*case.edge.capabilities, *case.capabilities}
    target = case.target
    if target == BEST:
        best = _best(case, required)
        if best is None:
            return "CAPABILITY_MISSING", target
        target = best
    elif target in case.chain and not _may_return(case, case.edge, target):
        return "CIRCULAR_HANDOFF", target
    elif not required <= {name for name, _ in case.team[target].skills}:
        return "CAPABILITY_MISSING", target
    return _objection(case, case.edge, case.team[target]), target


def _objection(case: Case, edge: EdgeSpec, target: AgentSpec) -> str | None:
    is_met = edge.above is not None and case.level is not None and case.level > edge.above
    if "conditional" in (edge.policy, case.policy) and not is_met:
        return "CONDITIONS_NOT_MET"
    if edge.confirm and not case.is_approved:
        return "NOT_APPROVED"
    if target.accepts == "asked" and target.name in case.declining:
        return "DECLINED"
    return None


def _is_available(case: Case, target: AgentSpec) -> bool:
    return target.available == "yes" or (
        target.available == "asked" and target.name not in case.away
    )


def _may_return(case: Case, edge: EdgeSpec, target: str) -> bool:
    return edge.allow_return == "always" or (bool(edge.allow_return) and case.is_changed[target])


def _best(case: Case, required: set[str]) -> str | None:
    scores = [
        (-sum(dict(agent.skills)[name] for name in required) / len(required), agent.name)
        for agent in case.team.agents
        if agent.name not in case.chain
        and required <= {name for name, _ in agent.skills}
        and _is_available(case, agent)
    ]
    return min(scores)[1] if scores else None
