"""What can only be wrong among several agents."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from ekiden.agents.checks import PERSON
from ekiden.agents.definition import AgentDefinition, HandoffDefinition, Peer, Problem
from ekiden.agents.handoff_rules import BEST
from ekiden.agents.printable import printable
from ekiden.agents.report import shown
from ekiden.agents.supervisor_checks import problem_at, supervisor_problems
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
    """Handoffs, questions and tasks that lead nowhere, and names that cannot be told apart.

    `known` are agents that exist without being among the definitions: those written in Python,
    and those whose files have errors of their own. Of the latter `partial` is what could be read:
    whom they hand to and ask is checked too.
    """
    problems: list[Problem] = []
    everybody = [*definitions, *partial]
    by_name = {each.name: each for each in everybody if each.name}
    names = _Names({*by_name, *known, ROUTER})
    for source in everybody:
        reached: set[str] = set()
        for edge in source.handoffs:
            if edge.to == BEST:
                continue
            if edge.to not in names and not edge.to.startswith(PERSON):
                message = names.missing(edge.to, "to hand to")
                problems.append(problem_at(source, edge, "unknown_handoff", message))
                continue
            fault = _fault(source, edge, by_name.get(edge.to), reached)
            if fault is not None:
                problems.append(problem_at(source, edge, *fault))
            if edge.when != "auto":
                reached.add(edge.to)
        problems.extend(_of_peers(source, source.can_ask, "ask", by_name, names))
        problems.extend(_of_peers(source, source.can_tell, "tell", by_name, names))
        problems.extend(supervisor_problems(source, by_name, {*by_name, *known}, names.missing))
    problems.extend(_same_tool_names(definitions, known))
    return problems


class _Names:
    """Everybody in the team, and how to say that somebody is not."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._suggested = 0

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def missing(self, name: str, what_for: str) -> str:
        self._suggested += 1
        near = suggestion(name, self._names) if self._suggested <= _MAX_SUGGESTIONS else ""
        advice = near or "; add its file, or remove this"
        return f"there is no agent {shown(name)} {what_for}{advice}"


def _of_peers(
    source: AgentDefinition,
    peers: Iterable[Peer],
    verb: Literal["ask", "tell"],
    by_name: Mapping[str, AgentDefinition],
    names: _Names,
) -> Iterable[Problem]:
    """What is wrong with those whom the agent may ask or tell something."""
    for peer in peers:
        target = by_name.get(peer.name)
        if peer.name not in names:
            yield problem_at(source, peer, "unknown_peer", names.missing(peer.name, f"to {verb}"))
        elif peer.name == source.name:
            message = f"{peer.name!r} would {verb} itself; remove this"
            yield problem_at(source, peer, "peer_is_itself", message)
        elif target is not None and target.scope == "system":
            message = (
                f"{peer.name!r} is a system agent, to which only Ekiden itself gives work; {verb} "
                f"{ROUTER!r} to have another agent found"
            )
            yield problem_at(source, peer, "peer_is_system", message)


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
        yield problem_at(
            each,
            each,
            "same_tool_name",
            f"the agents {each.name!r} and {name!r}{where} would both be reached by the tool "
            f"{tool}; rename one of them",
        )
