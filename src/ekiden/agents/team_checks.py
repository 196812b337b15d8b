"""Checks that involve several agent files: supervisors, handoffs and names."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from ekiden.agents.definition import (
    PERSON,
    AgentDefinition,
    AgentFileProblem,
    HandoffDefinition,
    Peer,
    SupervisorDefinition,
    printable,
    shown,
)
from ekiden.agents.keys.handoffs import BEST
from ekiden.core.handoffs import transfer_tool_name
from ekiden.core.text.wording import suggestion

ROUTER = "router-agent"
_MAX_SUGGESTIONS = 20
"""Limit for one team: comparing a name with a thousand others takes some milliseconds."""


def member_names(source: AgentDefinition, team: Sequence[AgentDefinition]) -> list[str]:
    """The names of the agents that get tasks of the supervisor `source`.

    If the supervisor's file names no agents, these are all agents except the supervisor, other
    supervisors and system agents, sorted by name. Unknown agents and system agents are left out.
    """
    assert source.supervisor is not None
    usable = {each.name: each for each in team if each.scope != "system" and each.name}
    usable.pop(source.name, None)
    named = source.supervisor.agents
    if named is None:
        return sorted(name for name, each in usable.items() if each.supervisor is None)
    return [peer.name for peer in named if peer.name in usable]


def _supervisor_problems(
    source: AgentDefinition,
    by_name: Mapping[str, AgentDefinition],
    known: Container[str],
    names: _Names,
) -> Iterator[AgentFileProblem]:
    """Faults of `supervisor` in the file of `source`; `known` are all agents but the router."""
    supervisor = source.supervisor
    if supervisor is None:
        return
    fallback = [supervisor.fallback] if supervisor.fallback else []
    for peer in (*(supervisor.agents or ()), *fallback):
        target = by_name.get(peer.name)
        if peer.name == source.name:
            words = f"{peer.name!r} would give tasks to itself; remove it here"
            yield _problem(source, peer, "member_is_itself", words)
        elif peer.name not in known:
            words = names.missing(peer.name, "to give tasks to")
            yield _problem(source, peer, "unknown_member", words)
        elif target is not None and target.scope == "system":
            words = f"{peer.name!r} is a system agent, to which only Ekiden itself gives work"
            yield _problem(source, peer, "member_is_system", words)
    yield from _fallback_problems(source, supervisor, by_name)
    if supervisor.agents is None and not member_names(source, list(by_name.values())):
        words = "there is no other agent to give tasks to; add one, or remove `supervisor`"
        yield _problem(source, supervisor, "no_members", words)
    circle = _circle(source.name, by_name)
    if circle:
        words = (
            f"supervisors would give tasks to each other in a circle: {' → '.join(circle)}; take "
            f"{circle[1]!r} out of `supervisor.agents` here, or {source.name!r} out of the other"
        )
        yield _problem(source, supervisor, "supervisor_circle", words)


def _fallback_problems(
    source: AgentDefinition,
    supervisor: SupervisorDefinition,
    by_name: Mapping[str, AgentDefinition],
) -> Iterator[AgentFileProblem]:
    fallback = supervisor.fallback
    if fallback is None or fallback.name not in by_name or fallback.name == source.name:
        return
    if supervisor.agents is None:
        listed = member_names(source, list(by_name.values()))
    else:
        listed = [peer.name for peer in supervisor.agents]
    if fallback.name not in listed and by_name[fallback.name].scope != "system":
        words = (
            f"the fallback {fallback.name!r} is not among the agents that get tasks: "
            f"{', '.join(listed)[:200] or 'none'}; add it to `supervisor.agents`"
        )
        yield _problem(source, fallback, "bad_fallback", words)


def _circle(start: str, by_name: Mapping[str, AgentDefinition]) -> list[str]:
    """The shortest circle of supervisors from `start` back to it; empty if there is none."""
    paths: list[list[str]] = [[start]]
    seen: set[str] = set()
    for path in paths:
        supervisor = by_name[path[-1]].supervisor if path[-1] in by_name else None
        for peer in (supervisor.agents or ()) if supervisor else ():
            if peer.name == start and len(path) > 1:
                return [*path, start]
            if peer.name not in seen and peer.name != start:
                seen.add(peer.name)
                paths.append([*path, peer.name])
    return []


def _problem(
    source: AgentDefinition,
    place: AgentDefinition | HandoffDefinition | Peer | SupervisorDefinition,
    code: str,
    message: str,
) -> AgentFileProblem:
    return AgentFileProblem(
        path=source.path,
        line=place.line,
        column=place.column,
        code=f"agent.{code}",
        message=message,
    )


def check_team(
    definitions: Sequence[AgentDefinition],
    *,
    known: Collection[str] = (),
    partial: Sequence[AgentDefinition] = (),
) -> list[AgentFileProblem]:
    """Find the problems of a team: handoffs, questions and tasks for unknown agents, and ambiguous
    names.

    `known` are existing agents without a definition here: agents written in Python, and agents
    whose files have errors. `partial` has the readable parts of files with errors, so that their
    handoffs and questions are also checked.
    """
    problems: list[AgentFileProblem] = []
    team = [*definitions, *partial]
    by_name = {each.name: each for each in team if each.name}
    names = _Names({*by_name, *known, ROUTER})
    for source in team:
        reached: set[str] = set()
        for edge in source.handoffs:
            if edge.to == BEST:
                continue
            if edge.to not in names and not edge.to.startswith(PERSON):
                message = names.missing(edge.to, "to hand to")
                problems.append(_problem(source, edge, "unknown_handoff", message))
                continue
            fault = _handoff_fault(source, edge, by_name.get(edge.to), reached)
            if fault is not None:
                problems.append(_problem(source, edge, *fault))
            if edge.when != "auto":
                reached.add(edge.to)
        problems.extend(_peer_problems(source, source.can_ask, "ask", by_name, names))
        problems.extend(_peer_problems(source, source.can_tell, "tell", by_name, names))
        problems.extend(_supervisor_problems(source, by_name, {*by_name, *known}, names))
    problems.extend(_same_tool_names(definitions, known))
    return problems


class _Names:
    """All names of the team, and the message for an unknown one."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._suggested = 0

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def missing(self, name: str, purpose: str) -> str:
        self._suggested += 1
        near = suggestion(name, self._names) if self._suggested <= _MAX_SUGGESTIONS else ""
        advice = near or "; add its file, or remove this"
        return f"there is no agent {shown(name)} {purpose}{advice}"


def _peer_problems(
    source: AgentDefinition,
    peers: Iterable[Peer],
    verb: Literal["ask", "tell"],
    by_name: Mapping[str, AgentDefinition],
    names: _Names,
) -> Iterable[AgentFileProblem]:
    for peer in peers:
        target = by_name.get(peer.name)
        if peer.name not in names:
            yield _problem(source, peer, "unknown_peer", names.missing(peer.name, f"to {verb}"))
        elif peer.name == source.name:
            message = f"{peer.name!r} would {verb} itself; remove this"
            yield _problem(source, peer, "peer_is_itself", message)
        elif target is not None and target.scope == "system":
            message = (
                f"{peer.name!r} is a system agent, to which only Ekiden itself gives work; {verb} "
                f"{ROUTER!r} to have another agent found"
            )
            yield _problem(source, peer, "peer_is_system", message)


def _handoff_fault(
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
    definitions: Sequence[AgentDefinition], known: Iterable[str]
) -> Iterable[AgentFileProblem]:
    others = sorted({*known} - {each.name for each in definitions})
    taken = {transfer_tool_name(name): name for name in (*others, ROUTER)}
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
