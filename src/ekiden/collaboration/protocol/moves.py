"""The phases of a collaboration and the moves that lead through them, as two tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from ekiden.core.conversation.messages import MessageType

Phase: TypeAlias = Literal[
    "discovery", "negotiation", "agreement", "execution", "completion", "cancelled", "expired"
]

Move: TypeAlias = Literal[
    "call",
    "bid",
    "decline",
    "award",
    "select",
    "request",
    "acknowledge",
    "propose",
    "counter",
    "accept",
    "reject",
    "cancel",
    "execute",
    "complete",
    "expire",
]

SYSTEM: Final = "ekiden"
"""Who makes the moves that no agent makes; no agent takes part under this name."""

WAYS: Final[Mapping[Phase | None, frozenset[Phase]]] = {
    None: frozenset({"discovery"}),
    "discovery": frozenset({"negotiation", "cancelled", "expired"}),
    "negotiation": frozenset({"agreement", "cancelled", "expired"}),
    "agreement": frozenset({"execution", "cancelled", "expired"}),
    "execution": frozenset({"completion", "cancelled", "expired"}),
    "completion": frozenset(),
    "cancelled": frozenset(),
    "expired": frozenset(),
}
"""From each phase to those that may follow. One move may go several steps: whoever knows its
partner has discovered it."""

CLOSED: Final[frozenset[Phase]] = frozenset(
    {phase for phase, following in WAYS.items() if phase is not None and not following}
)
OPEN: Final[tuple[Phase, ...]] = ("discovery", "negotiation", "agreement", "execution")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """When a move fits, and as what it is said."""

    type: MessageType
    fits: tuple[Phase, ...] = ()
    """None: it begins a collaboration."""
    by_system: bool = False


MOVES: Final[Mapping[Move, Rule]] = {
    "call": Rule(type="broadcast"),
    "bid": Rule(type="acknowledge", fits=("discovery",)),
    "decline": Rule(type="reject", fits=("discovery",)),
    "award": Rule(type="broadcast", fits=("discovery",)),
    "select": Rule(type="broadcast", fits=("discovery",)),
    "request": Rule(type="request"),
    "acknowledge": Rule(type="acknowledge", fits=("negotiation",)),
    "propose": Rule(type="negotiate"),
    "counter": Rule(type="negotiate", fits=("negotiation",)),
    "accept": Rule(type="acknowledge", fits=("negotiation",)),
    "reject": Rule(type="reject", fits=("negotiation",)),
    "cancel": Rule(type="cancel", fits=OPEN),
    "execute": Rule(type="notify", fits=("agreement",), by_system=True),
    "complete": Rule(type="notify", fits=("execution",), by_system=True),
    "expire": Rule(type="notify", fits=OPEN, by_system=True),
}
"""Every move, with the phases in which it fits."""
