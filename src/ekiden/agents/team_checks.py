"""Checks across agents: supervisors, handoffs, names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from ekiden.agents.checks import PERSON, shown
from ekiden.agents.definition import (
    AgentDefinition,
    AgentFileProblem,
    HandoffDefinition,
    Peer,
    SupervisorDefinition,
    printable,
)
from ekiden.agents.keys.handoffs import BEST
from ekiden.core.handoffs.handoff import transfer_tool_name
from ekiden.core.text.wording import suggestion

ROUTER = "router-agent"
_MAX_SUGGESTIONS = 20
"""To compare a name with a thousand others takes some milliseconds."""


def member_names(source: AgentDefinition, everybody: Sequence[AgentDefinition]) -> list[str]:
    """Who gets tasks of the supervisor `source`, without those who cannot.

    If its file names none, those are all agents except itself, other supervisors and system agents,
    by name.
    """
    assert source.supervisor is not None
    usable = {each.name: each for each in everybody if each.scope != "system" and each.name}
    usable.pop(source.name, None)
    named = source.supervisor.agents
    if named is None:
        return sorted(name for name, each in usable.items() if each.supervisor is None)
    return [peer.name for peer in named if peer.name in usable]


def supervisor_problems(
    source: AgentDefinition,
    by_name: Mapping[str, AgentDefinition],
    known: Container[str],
    missing: Callable[[str, str], str],
) -> Iterator[AgentFileProblem]:
    """Faults of `supervisor` in the file of `source`.

    `known` are the agents that there are; `missing` says of a name, and of what it is needed for,
    that there is none.
    """
    said = source.supervisor
    if said is None:
        return
    for peer in (*(said.agents or ()), *([said.fallback] if said.fallback else ())):
        target = by_name.get(peer.name)
        if peer.name == source.name:
            words = f"{peer.name!r} would give tasks to itself; remove it here"
            yield problem_at(source, peer, "member_is_itself", words)
        elif peer.name not in known:
            yield problem_at(source, peer, "unknown_member", missing(peer.name, "to give tasks to"))
        elif target is not None and target.scope == "system":
            words = f"{peer.name!r} is a system agent, to which only Ekiden itself gives work"
            yield problem_at(source, peer, "member_is_system", words)
    yield from _fallback_problems(source, said, by_name)
    if said.agents is None and not member_names(source, list(by_name.values())):
        words = "there is no other agent to give tasks to; add one, or remove `supervisor`"
        yield problem_at(source, said, "no_members", words)
    circle = _circle(source.name, by_name)
    if circle:
        words = (
            f"supervisors would give tasks to each other in a circle: {' → '.join(circle)}; take "
            f"{circle[1]!r} out of `supervisor.agents` here, or {source.name!r} out of the other"
        )
        yield problem_at(source, said, "supervisor_circle", words)


def _fallback_problems(
    source: AgentDefinition, said: SupervisorDefinition, by_name: Mapping[str, AgentDefinition]
) -> Iterator[AgentFileProblem]:
    fallback = said.fallback
    if fallback is None or fallback.name not in by_name or fallback.name == source.name:
        return
    if said.agents is None:
        listed = member_names(source, list(by_name.values()))
    else:
        listed = [peer.name for peer in said.agents]
    if fallback.name not in listed and by_name[fallback.name].scope != "system":
        words = (
            f"the fallback {fallback.name!r} is not among the agents that get tasks: "
            f"{', '.join(listed)[:200] or 'none'}; add it to `supervisor.agents`"
        )
        yield problem_at(source, fallback, "bad_fallback", words)


def _circle(start: str, by_name: Mapping[str, AgentDefinition]) -> list[str]:
    """A way from the supervisor `start` back to it, over other supervisors; empty if none."""
    ways: list[list[str]] = [[start]]
    seen: set[str] = set()
    for way in ways:
        supervisor = by_name[way[-1]].supervisor if way[-1] in by_name else None
        for peer in (supervisor.agents or ()) if supervisor else ():
            if peer.name == start and len(way) > 1:
                return [*way, start]
            if peer.name not in seen and peer.name != start:
                seen.add(peer.name)
                ways.append([*way, peer.name])
    return []


def problem_at(
    source: AgentDefinition,
    place: AgentDefinition | HandoffDefinition | Peer | SupervisorDefinition,
    code: str,
    message: str,
) -> AgentFileProblem:
    """A problem of the file of `source`, where `place` stands in it."""
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
    """Problems of a team: handoffs, questions and tasks for unknown agents, and ambiguous names.

    `known` are existing agents without a definition here: agents written in Python, and agents
    whose files have errors. `partial` has the readable parts of files with errors, so that their
    handoffs and questions are also checked.
    """
    problems: list[AgentFileProblem] = []
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
    """All names of the team, and the message for an unknown one."""

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
) -> Iterable[AgentFileProblem]:
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
        yield problem_at(
            each,
            each,
            "same_tool_name",
            f"the agents {each.name!r} and {name!r}{where} would both be reached by the tool "
            f"{tool}; rename one of them",
        )
