"""What can only be wrong among several agents."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ekiden.agents.checks import PERSON
from ekiden.agents.definition import AgentDefinition, HandoffDefinition, Problem
from ekiden.agents.handoff_rules import BEST
from ekiden.agents.printable import printable
from ekiden.agents.report import shown
from ekiden.core.handoff import transfer_tool_name
from ekiden.core.suggest import suggestion

ROUTER = "router-agent"
_MAX_SUGGESTIONS = 20
"""To compare a name with a thousand others takes some milliseconds."""


def check_team(
    definitions: Sequence[AgentDefinition],
    *,
    known: Collection[str] = (),
    partial: Sequence[AgentDefinition] = (),
) -> list[Problem]:
    """Handoffs that lead nowhere, and names that cannot be told apart.

    `known` are agents that exist without being among the definitions: those written in Python,
    and those whose files have errors of their own. Of the latter `partial` is what could be read:
    their handoffs are checked too.
    """
    problems: list[Problem] = []
    everybody = [*definitions, *partial]
    by_name = {each.name: each for each in everybody if each.name}
    names = {*by_name, *known, ROUTER}
    suggested = 0
    for source in everybody:
        reached: set[str] = set()
        for edge in source.handoffs:
            if edge.to == BEST:
                continue
            if edge.to not in names and not edge.to.startswith(PERSON):
                suggested += 1
                near = suggestion(edge.to, names) if suggested <= _MAX_SUGGESTIONS else ""
                problems.append(_missing(source, edge, near))
                continue
            fault = _fault(source, edge, by_name.get(edge.to), reached)
            if fault is not None:
                problems.append(_problem(source, edge, *fault))
            if edge.when != "auto":
                reached.add(edge.to)
    problems.extend(_same_tool_names(definitions, known))
    return problems


def _missing(source: AgentDefinition, edge: HandoffDefinition, near: str) -> Problem:
    return _problem(
        source,
        edge,
        "unknown_handoff",
        f"there is no agent {shown(edge.to)} to hand to{near or '; add its file, or remove this'}",
    )


def _fault(
    source: AgentDefinition,
    edge: HandoffDefinition,
    target: AgentDefinition | None,
    reached: Collection[str],
) -> tuple[str, str] | None:
    if edge.to == source.name:
        return "handoff_to_itself", f"{edge.to!r} hands to itself; remove this handoff"
    if edge.to in reached and edge.when != "auto":
        return (
            "repeated_handoff",
            f"there is already a handoff to {edge.to!r} that the model is offered; write one, "
            "with one description",
        )
    if target is not None and target.scope == "system":
        return (
            "handoff_to_system",
            f"{edge.to!r} is a system agent, to which only Ekiden itself gives work; hand to "
            f"{ROUTER!r} to have another agent found",
        )
    return None


def _same_tool_names(
    definitions: Iterable[AgentDefinition], known: Iterable[str]
) -> Iterable[Problem]:
    taken = {transfer_tool_name(name): name for name in (*known, ROUTER)}
    first: dict[str, AgentDefinition] = {}
    for each in definitions:
        tool = transfer_tool_name(each.name)
        other = first.get(tool)
        if other is None and taken.get(tool, each.name) == each.name:
            first[tool] = each
            continue
        where = "" if other is None else f" in {printable(str(other.path))}"
        name = taken.get(tool) if other is None else other.name
        yield _problem(
            each,
            each,
            "same_tool_name",
            f"the agents {each.name!r} and {name!r}{where} would both be reached by the tool "
            f"{tool}; rename one of them",
        )


def _problem(
    source: AgentDefinition, place: AgentDefinition | HandoffDefinition, code: str, message: str
) -> Problem:
    return Problem(
        path=source.path,
        line=place.line,
        column=place.column,
        code=f"agent.{code}",
        message=message,
    )
