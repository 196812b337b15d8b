"""May this handoff be made? The checks in their order, each with its code and the way out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.errors import HandoffRefused
from ekiden.core.handoff import Handoff
from ekiden.core.text import suggestion
from ekiden.handoff.offers import default_handoff

_SHOWN_CHAIN = 12


def not_found(name: str, known: Collection[str]) -> HandoffRefused:
    """There is no such agent."""
    listed = ", ".join(sorted(known)[:20]) or "none"
    return HandoffRefused(
        "AGENT_NOT_FOUND",
        f"no agent is called {name[:200]!r}; the team has: {listed}{suggestion(name, known)}",
    )


def unavailable(target: str, why: str) -> HandoffRefused:
    """The target takes nothing now."""
    return HandoffRefused(
        "AGENT_UNAVAILABLE",
        f"agent {target!r} is not available ({why}); go on without it, choose another agent, "
        "or try again later",
    )


def edge_between(source: Agent[Any], target: str) -> Handoff[Any, Any]:
    """The handoff of `source` that leads to `target`; `HandoffRefused` if there is none."""
    edges = [
        each if isinstance(each, Handoff) else default_handoff(each) for each in source.handoffs
    ]
    leading = [edge for edge in edges if edge.agent_name == target]
    for edge in (*(each for each in leading if each.terms.when != "auto"), *leading):
        return edge
    allowed = ", ".join(edge.agent_name for edge in edges) or "none"
    raise HandoffRefused(
        "PERMISSION_DENIED",
        f"agent {source.name!r} may not hand to {target!r}; allowed: {allowed}; add it to the "
        f"`handoffs` of {source.name!r} to allow it",
    )


def check_depth(depth: int, most: int | None) -> None:
    """`HandoffRefused` if one more handoff would be one too many."""
    if most is not None and depth >= most:
        raise HandoffRefused(
            "MAX_DEPTH_EXCEEDED",
            f"the task was handed on {depth} times, which is the maximum "
            f"(Limits.depth={most}); finish it yourself, or tell the person what is missing: "
            "their next message starts a new chain",
        )


def check_cycle(target: str, chain: Sequence[str], *, may_return: bool, is_changed: bool) -> None:
    """`HandoffRefused` if the target had the task before and may not have it again."""
    if target not in chain:
        return
    shown = " → ".join(chain[-_SHOWN_CHAIN:])
    if not may_return:
        raise HandoffRefused(
            "CIRCULAR_HANDOFF",
            f"{target!r} had the task already ({shown}), and this handoff does not say "
            "`allow_return`; finish it yourself, or hand it to an agent that did not have it",
        )
    if not is_changed:
        raise HandoffRefused(
            "CIRCULAR_HANDOFF",
            f"nothing changed since {target!r} had the task ({shown}); do something new first, "
            "or pass a `summary` or `context` that it does not have yet",
        )


def check_capabilities(target: Agent[Any], required: Sequence[str]) -> None:
    """`HandoffRefused` if the target cannot do everything that is required."""
    if not required:
        return
    from ekiden.capabilities import missing_capabilities

    missing = missing_capabilities(required, target.capabilities)
    if missing:
        has = ", ".join(each.name for each in target.capabilities) or "none"
        raise HandoffRefused(
            "CAPABILITY_MISSING",
            f"agent {target.name!r} lacks {', '.join(missing)} (it has: {has}); "
            "choose an agent that has it: `ekiden agents match` finds one",
        )
