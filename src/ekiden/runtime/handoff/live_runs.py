"""The runs of this process that somebody may want something of."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from types import TracebackType
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.errors import HandoffRefused, UnknownAgent
from ekiden.handoff import BEST
from ekiden.handoff.records.requests import Asked
from ekiden.handoff.validation import (
    check_capabilities,
    check_cycle,
    check_depth,
    edge_between,
    not_found,
    unavailable,
)
from ekiden.runtime.conversation.facts import check_condition
from ekiden.runtime.handoff.brought import joined_chain
from ekiden.runtime.state.state import RunState
from ekiden.storage.base import Store


def is_hopeless(run: RunState, asked: Asked) -> bool:
    """Whether it would be refused whatever anybody who is asked says.

    For such a request nobody is interrupted: it is refused at the end of the step.
    """
    if asked.cancel is not None:
        return all(each.id != asked.cancel for each in run.cursor.handoffs.open)
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
    chain = (
        joined_chain(asked.chain, cursor.handoffs.chain) if asked.chain else cursor.handoffs.chain
    )
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


_runs: dict[tuple[int, int, str], RunState] = {}
"""By event loop, store and session; a run is in here while it is worked on."""


class on_display:
    """The run can be found during the body."""

    __slots__ = ("_key", "_run")

    def __init__(self, run: RunState) -> None:
        self._run = run
        self._key = _key(run.store, run.session_id)

    def __enter__(self) -> None:
        run = self._run
        _runs[self._key] = run
        if run.hold is not None:
            run.hold.may_interrupt = partial(_may_interrupt, run)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if _runs.get(self._key) is self._run:
            del _runs[self._key]


def live_run(store: Store, session_id: str) -> RunState | None:
    """The run of the session in this event loop, if there is one."""
    return _runs.get(_key(store, session_id))


def _may_interrupt(run: RunState, request: Mapping[str, Any]) -> bool:
    from ekiden.handoff.records.requests import Asked

    return not is_hopeless(run, Asked.from_json(request))


def _key(store: Store, session_id: str) -> tuple[int, int, str]:
    return id(asyncio.get_running_loop()), id(store), session_id
