"""Agents that several runs use at the same time: their tools must not change meanwhile.

A hook or a program may change `agent.tools` between turns. If two runs work with the same agent,
the tools that one run's user is allowed would be offered to the other's: then all of them stop.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from ekiden.compat.agents.exceptions import UserError


@dataclass
class _Use:
    agent: Any
    tools: list[Any]
    runs: set[int] = field(default_factory=set)
    in_conflict: set[int] = field(default_factory=set)


_lock = threading.Lock()
_uses: dict[int, _Use] = {}


def begin(run: object, agent: Any) -> None:
    """The run works with the agent from now on."""
    with _lock:
        use = _uses.setdefault(id(agent), _Use(agent, list(agent.tools)))
        _look(use)
        use.runs.add(id(run))
        if use.in_conflict:
            use.in_conflict.add(id(run))


def check(run: object, agent: Any) -> None:
    """`UserError` if the agent's tools changed while several runs work with it."""
    with _lock:
        use = _uses.get(id(agent))
        if use is None or id(run) not in use.runs:
            return
        if len(use.runs) == 1 and not use.in_conflict:
            use.tools = list(agent.tools)
            return
        _look(use)
        is_refused = id(run) in use.in_conflict
    if is_refused:
        raise UserError(
            f"the tools of agent {agent.name!r} were changed while concurrent runs use it: give "
            "each run an agent of its own (agent.clone(tools=[…])), or use is_enabled"
        )


def end(run: object) -> None:
    """The run is over."""
    with _lock:
        for key, use in list(_uses.items()):
            if id(run) in use.runs:
                _look(use)
                use.runs.discard(id(run))
                use.in_conflict.discard(id(run))
            if not use.runs:
                del _uses[key]


def _look(use: _Use) -> None:
    if use.runs and not _same(use.tools, use.agent.tools):
        use.in_conflict |= use.runs
        use.tools = list(use.agent.tools)


def _same(before: list[Any], now: list[Any]) -> bool:
    return len(before) == len(now) and all(a is b for a, b in zip(before, now, strict=True))
