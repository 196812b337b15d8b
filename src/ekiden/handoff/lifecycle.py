"""The lifecycle of a handoff as a table, and the checks before it is made."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from ekiden.core.agent import Agent
from ekiden.core.errors import HandoffError, HandoffRefused
from ekiden.core.handoffs.handoff import Handoff
from ekiden.core.handoffs.request import StatusName
from ekiden.core.text.wording import suggestion
from ekiden.handoff.offers import default_handoff

MOVES: Final[Mapping[StatusName | None, frozenset[StatusName]]] = {
    None: frozenset({"initiated"}),
    "initiated": frozenset({"validating", "failed"}),
    "validating": frozenset({"transferring", "failed"}),
    "transferring": frozenset({"completed", "rolled_back"}),
    "completed": frozenset(),
    "failed": frozenset(),
    "rolled_back": frozenset(),
}
"""The statuses that may follow each status. `failed` means that nothing was changed. From
`transferring` on, the handoff is made completely (`completed`) or not at all (`rolled_back`)."""

FINAL: Final[frozenset[StatusName]] = frozenset(
    {status for status, following in MOVES.items() if status is not None and not following}
)


class IllegalMove(HandoffError):
    """A handoff changed its status in an impossible way: a bug in Ekiden, not in a team."""

    code = "handoff.illegal_move"


class Lifecycle:
    """The status of one handoff, and the moves that are not stored yet."""

    __slots__ = ("fresh", "status")

    def __init__(self, status: StatusName | None = None) -> None:
        self.status = status
        self.fresh: list[StatusName] = []

    def move(self, status: StatusName) -> None:
        """Change the status. Raises `IllegalMove` if the table does not allow it."""
        if status not in MOVES[self.status]:
            raise IllegalMove(f"a handoff cannot go from {self.status} to {status}")
        self.status = status
        self.fresh.append(status)


def move_details(
    handoff_id: str, source: str, target: str, before: StatusName, status: StatusName
) -> dict[str, Any]:
    """The details of the event with which a handoff moves from status `before` to `status`."""
    life = Lifecycle(before)
    life.move(status)
    return {
        "id": handoff_id,
        "from": source,
        "to": target,
        "status": status,
        "moves": list(life.fresh),
    }


def is_legal(path: list[StatusName]) -> bool:
    """Whether the moves, from the first on, follow the table."""
    before: StatusName | None = None
    for status in path:
        if status not in MOVES[before]:
            return False
        before = status
    return True


_SHOWN_CHAIN = 12


def not_found(name: str, known: Collection[str]) -> HandoffRefused:
    """The refusal because the agent does not exist."""
    listed = ", ".join(sorted(known)[:20]) or "none"
    return HandoffRefused(
        "AGENT_NOT_FOUND",
        f"no agent is called {name[:200]!r}; the team has: {listed}{suggestion(name, known)}",
    )


def unavailable(target: str, why: str) -> HandoffRefused:
    """The refusal because the target is not available."""
    return HandoffRefused(
        "AGENT_UNAVAILABLE",
        f"agent {target!r} is not available ({why}); go on without it, choose another agent, "
        "or try again later",
    )


def edge_between(source: Agent[Any], target: str) -> Handoff[Any, Any]:
    """The handoff of `source` to `target`; one that a model may call is preferred. Raises
    `HandoffRefused` if there is none."""
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
    """Raise `HandoffRefused` if the task has reached the maximum number of handoffs."""
    if most is not None and depth >= most:
        raise HandoffRefused(
            "MAX_DEPTH_EXCEEDED",
            f"the task was handed on {depth} times, which is the maximum "
            f"(Limits.depth={most}); finish it yourself, or tell the person what is missing: "
            "their next message starts a new chain",
        )


def check_cycle(target: str, chain: Sequence[str], *, may_return: bool, is_changed: bool) -> None:
    """Raise `HandoffRefused` if the target had the task before and may not get it again."""
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
    """Raise `HandoffRefused` if the target lacks a required capability."""
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
