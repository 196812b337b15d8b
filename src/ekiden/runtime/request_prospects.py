"""What is clear about a request for a handoff before anybody is asked."""

from __future__ import annotations

from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.errors import HandoffRefused, UnknownAgent
from ekiden.handoff import BEST
from ekiden.handoff.request_documents import Asked
from ekiden.handoff.validation import (
    check_capabilities,
    check_cycle,
    check_depth,
    edge_between,
    not_found,
    unavailable,
)
from ekiden.runtime.brought import joined_chain
from ekiden.runtime.facts import check_condition
from ekiden.runtime.state import RunState


def is_hopeless(run: RunState, asked: Asked) -> bool:
    """Whether it would be refused whatever anybody who is asked says.

    For such a request nobody is interrupted: it is refused at the end of the step.
    """
    if asked.cancel is not None:
        return all(each.id != asked.cancel for each in run.cursor.open)
    try:
        _check_quickly(run, asked)
    except HandoffRefused:
        return True
    return False


def _check_quickly(run: RunState, asked: Asked) -> None:
    """`HandoffRefused` for what is clear without asking anybody."""
    cursor = run.cursor
    check_source(run, asked)
    edge = edge_between(run.agent, asked.to)
    chain = joined_chain(asked.chain, cursor.chain) if asked.chain else cursor.chain
    check_depth(len(chain) - 2, run.config.limits.depth)
    if asked.to == BEST:
        return
    target = target_of(run, asked)
    if target.available is False:
        raise unavailable(target.name, "it is switched off")
    may_return = bool(edge.terms.allow_return) or run.config.returns == "always"
    check_cycle(target.name, chain, may_return=may_return, is_changed=True)
    check_capabilities(target, (*edge.terms.capabilities, *asked.capabilities))
    if asked.condition and not asked.variables:
        check_condition(run, asked.condition)


def check_source(run: RunState, asked: Asked) -> None:
    if asked.source and asked.source not in run.team:
        raise not_found(asked.source, [agent.name for agent in run.team])
    if asked.source and run.agent.name != asked.source:
        raise HandoffRefused(
            "PERMISSION_DENIED",
            f"the task is not with {asked.source!r} but with {run.agent.name!r}: only who has it "
            "can hand it over",
        )


def target_of(run: RunState, asked: Asked) -> Agent[Any]:
    try:
        return run.find_agent(asked.to)
    except UnknownAgent:
        raise not_found(asked.to, [agent.name for agent in run.team]) from None
