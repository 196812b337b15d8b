"""Which agents of a team a worker runs: by name and by worker labels."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ekiden.core.agent import Team
from ekiden.core.errors import UserError
from ekiden.core.profile import check_labels


def served_agents(
    team: Team, *, agents: Iterable[str] | None = None, labels: Iterable[str] = ()
) -> frozenset[str]:
    """The names of those that may be run where the `labels` are: all whose `runs_on` is among them,
    or of these the named `agents` alone.

    `UnknownAgent` for a name outside the team; `UserError` for a named agent that cannot run here,
    and if none is left.
    """
    here = check_labels(labels, "the labels of a worker")
    chosen = runnable(team, here)
    named = None if agents is None else [team[name] for name in agents]
    if named == []:
        raise UserError("a worker that runs no agent does nothing: name some, or leave that out")
    for agent in named or ():
        missing = sorted(agent.runs_on - here)
        if missing:
            raise UserError(
                f"agent {agent.name!r} runs only on workers with the label {missing[0]!r}: give "
                f"this one the label (--label {missing[0]}), or leave the agent out"
            )
    if named is not None:
        chosen = frozenset(agent.name for agent in named)
    if not chosen:
        raise UserError(
            "no agent of the team runs here: all need labels that this worker does not have"
        )
    return chosen


def runnable(team: Team, labels: frozenset[str]) -> frozenset[str]:
    """The names of those that may be run where the `labels` are; there may be none."""
    return frozenset(agent.name for agent in team if agent.runs_on <= labels)


def needs_of(team: Team, served: Collection[str]) -> dict[str, list[str]]:
    """The labels that each agent needs that is not served."""
    return {agent.name: sorted(agent.runs_on) for agent in team if agent.name not in served}
