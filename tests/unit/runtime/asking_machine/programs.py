"""What the agents of a random team do, and what happens to their sessions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tests.unit.runtime.handoff_machine.dice import Dice

NAMES = ("a", "b", "c", "d")
SHORT_S, LONG_S = 0.01, 0.05
"""How long questions are waited for, in the simulation's own time."""

MoveKind: TypeAlias = Literal[
    "answer", "ask", "ask all", "ask any", "tell", "approve", "effect", "pay", "hand", "fail",
    "late", "hang",
]  # fmt: skip
_MOVES: tuple[MoveKind, ...] = (
    "ask", "ask", "ask", "ask all", "ask any", "ask any", "tell", "approve", "approve", "effect",
    "effect", "pay", "hand", "hand", "fail", "late", "hang", "answer",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One thing that an agent does; what it does not need is not looked at."""

    kind: MoveKind
    to: tuple[str, ...] = ("a",)
    timeout_s: float = LONG_S
    is_careful: bool = True
    """Whether errors of those who are asked are caught."""
    deadline_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """An agent, and what it does when it is written to, asked, and asked by somebody asked."""

    name: str
    is_model: bool
    programs: tuple[tuple[Move, ...], ...]


ActKind: TypeAlias = Literal[
    "message", "submit", "work", "resume", "interrupt", "answer", "time", "undo", "cancel item"
]
_ACTS: tuple[ActKind, ...] = (
    "work", "message", "message", "submit", "submit", "work", "work", "resume", "resume",
    "interrupt", "interrupt", "answer", "answer", "answer", "time", "undo", "undo", "cancel item",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One thing that happens from outside."""

    kind: ActKind
    which: int = 0
    """Of several sessions, items or choices."""
    dies_in: int = 0
    """After so many half writes the process dies; 0: it lives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A team, and what happens to it."""

    members: tuple[Member, ...]
    acts: tuple[Act, ...]
    victim: Literal["longest", "youngest", "lowest_priority"] = "longest"
    entries: tuple[str, ...] = field(default=())


def draw_story(dice: Dice) -> Story:
    """A random one."""
    members = tuple(_member(dice, name) for name in NAMES[: 2 + dice.throw(3)])
    names = tuple(member.name for member in members)
    first = Act(kind=dice.pick(("message", "submit")), dies_in=_death(dice))
    acts = [first, *(_act(dice) for _ in range(2 + dice.throw(7)))]
    return Story(
        members=members,
        acts=tuple(acts),
        victim=dice.pick(("longest", "youngest", "lowest_priority")),
        entries=(dice.pick(names), dice.pick(names)),
    )


def _member(dice: Dice, name: str) -> Member:
    return Member(
        name=name,
        is_model=dice.throw(3) == 2,
        programs=tuple(
            tuple(_move(dice) for _ in range(most and dice.throw(most + 1))) for most in (4, 2, 1)
        ),
    )


def _move(dice: Dice) -> Move:
    return Move(
        kind=dice.pick(_MOVES),
        to=tuple(dice.pick(NAMES) for _ in range(1 + dice.throw(3))),
        timeout_s=dice.pick((LONG_S, SHORT_S)),
        is_careful=dice.throw(3) > 0,
        deadline_s=dice.pick((None, None, LONG_S)),
    )


def _act(dice: Dice) -> Act:
    return Act(kind=dice.pick(_ACTS), which=dice.throw(60), dies_in=_death(dice))


def _death(dice: Dice) -> int:
    return max(dice.throw(40) - 20, 0)
