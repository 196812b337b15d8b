"""What can be wrong with the agents that a supervisor gives tasks to."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence

from ekiden.agents.definition import (
    AgentDefinition,
    HandoffDefinition,
    Peer,
    Problem,
    SupervisorDefinition,
)


def member_names(source: AgentDefinition, everybody: Sequence[AgentDefinition]) -> list[str]:
    """Who gets tasks of the supervisor `source`, without those who cannot.

    Where its file names nobody, those are all agents by name, but not itself, other supervisors
    and system agents.
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
) -> Iterator[Problem]:
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
) -> Iterator[Problem]:
    fallback = said.fallback
    if fallback is None or fallback.name not in by_name or fallback.name == source.name:
        return
    if said.agents is None:
        listed = member_names(source, list(by_name.values()))
    else:
        listed = [peer.name for peer in said.agents]
    if fallback.name not in listed and by_name[fallback.name].scope != "system":
        words = (
            f"the fallback {fallback.name!r} is none of the agents that get tasks: "
            f"{', '.join(listed)[:200] or 'nobody'}; add it to `supervisor.agents`"
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
) -> Problem:
    """A problem of the file of `source`, where `place` stands in it."""
    return Problem(
        path=source.path,
        line=place.line,
        column=place.column,
        code=f"agent.{code}",
        message=message,
    )
