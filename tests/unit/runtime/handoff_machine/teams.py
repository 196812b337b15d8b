"""Teams as plain data: what the machine draws, and what the referee judges by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tests.unit.runtime.handoff_machine.dice import Dice

AgentKind: TypeAlias = Literal["model", "code", "runner", "person"]
TriggerKind: TypeAlias = Literal["condition", "event", "error"]

NAMES = ("a", "b", "c", "d", "e", "f")
NOBODY = "zed"
BEST = "*"
TOOLS = ("look", "level", "ring", "book", "slip")
SKILLS = ("cut", "weld")


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeSpec:
    """One way between two agents, with its terms."""

    target: str
    allow_return: bool | Literal["always"] = False
    policy: Literal["immediate", "graceful", "conditional"] = "graceful"
    above: int | None = None
    """The condition of the policy: the variable `level` is above this."""
    capabilities: tuple[str, ...] = ()
    completes: Literal["answer", "result"] = "answer"
    restrict_tools: bool = False
    tokens: int | None = None
    trigger: TriggerKind | None = None
    trigger_above: int = 0
    confirm: bool = False
    view: Literal["all", "last", "no tools"] = "all"

    @property
    def trigger_name(self) -> str:
        """As a handoff that it makes is signed."""
        return {
            "condition": f"condition(level > {self.trigger_above})",
            "event": "event(bell)",
            "error": "error",
        }[self.trigger or "error"]

    @property
    def tool_name(self) -> str:
        """What a model calls."""
        name = "best" if self.target == BEST else self.target.replace(":", "_")
        return f"transfer_to_{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """One member of the team."""

    name: str
    kind: AgentKind = "model"
    available: Literal["yes", "no", "asked"] = "yes"
    accepts: Literal["all", "asked"] = "all"
    tools: tuple[str, ...] = ()
    skills: tuple[tuple[str, float], ...] = ()
    edges: tuple[EdgeSpec, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamSpec:
    """The whole team; the first is who gets a new conversation."""

    agents: tuple[AgentSpec, ...]
    depth: int

    def __getitem__(self, name: str) -> AgentSpec:
        return next(agent for agent in self.agents if agent.name == name)

    @property
    def names(self) -> tuple[str, ...]:
        """Everybody."""
        return tuple(agent.name for agent in self.agents)

    def edge(self, source: str, target: str) -> EdgeSpec | None:
        """The way from one to the other that a program gets: the model's own before a trigger's."""
        ways = [edge for edge in self[source].edges if edge.target == target]
        return min(ways, key=lambda edge: edge.trigger is not None, default=None)

    def offered(self, source: str, tool_name: str) -> EdgeSpec | None:
        """The way that the source's model means with a tool."""
        for edge in self[source].edges:
            if edge.trigger is None and edge.tool_name == tool_name:
                return edge
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accent:
    """What a machine draws more often than others; each choice is as likely as it is frequent."""

    kinds: tuple[AgentKind, ...] = ("model",) * 5 + ("code", "runner", "person")
    available: tuple[Any, ...] = ("yes",) * 6 + ("asked", "no")
    returns: tuple[Any, ...] = (False, True, "always")
    policies: tuple[Any, ...] = ("graceful",) * 6 + ("immediate", "conditional")
    needs: tuple[str | None, ...] = (None,) * 7 + SKILLS
    completes: tuple[Any, ...] = ("answer", "result")
    triggers: tuple[TriggerKind | None, ...] = (None,) * 6 + ("condition", "event", "error")
    extras: tuple[str, ...] = (
        "", "", "", "", "restrict", "budget", "confirm", "last", "no tools", "budget restrict"
    )  # fmt: skip
    tools: tuple[str, ...] = ()
    """What everybody has."""
    depths: tuple[int, ...] = (3, 2, 1, 5)
    moves: tuple[str, ...] = (
        "hand", "hand", "hand words", "say hand", "tool", "tool", "tool hand", "two tools",
        "two hands", "best", "stray", "fail", "fail once", "bad words", "say",
    )  # fmt: skip
    stories: tuple[tuple[str, ...], ...] = (
        ("hand words",) * 7,
        ("hand", "hand", "books", "fail", "hand", "hand"),
        ("hand", "hand", "two tools", "tool", "tool", "tool", "say"),
        ("tool", "hand", "tool", "fail once", "tool", "hand"),
        ("hand", "books", "tool", "books", "fail", "hand", "say"),
    )
    """What would seldom come about by chance."""


def draw_team(dice: Dice, accent: Accent) -> TeamSpec:
    """A team of 2 to 6 agents; the first one thinks with a model and is there."""
    kinds = ["model", *(dice.pick(accent.kinds) for _ in range(1 + dice.throw(5)))]
    names = [
        f"person:{name}" if kind == "person" else name
        for name, kind in zip(NAMES, kinds, strict=False)
    ]
    agents = [_draw_agent(dice, accent, place, kinds[place], names) for place in range(len(names))]
    return TeamSpec(agents=tuple(agents), depth=dice.pick(accent.depths))


def _draw_agent(
    dice: Dice, accent: Accent, place: int, kind: Any, names: Sequence[str]
) -> AgentSpec:
    name = names[place]
    if kind == "person":
        return AgentSpec(name=name, kind=kind, accepts=dice.pick(("all", "asked")))
    available = dice.pick(accent.available)
    skills, held = dice.throw(4), dice.throw(32)
    edges: dict[tuple[str, bool], EdgeSpec] = {}
    for _ in range(1 + dice.throw(4)):
        edge = _draw_edge(dice, accent, (*names[place + 1 :], *names[:place]), name)
        edges.setdefault((edge.target, edge.trigger is None), edge)
    return AgentSpec(
        name=name,
        kind=kind,
        available=available if place else "yes",
        accepts=dice.pick(("all", "all", "asked")),
        tools=tuple(
            tool for bit, tool in enumerate(TOOLS) if held & 1 << bit or tool in accent.tools
        ),
        skills=tuple(
            (skill, (0.4, 0.7, 1.0)[(place + bit) % 3])
            for bit, skill in enumerate(SKILLS)
            if skills & 1 << bit
        ),
        edges=tuple(edges.values()),
    )


def _draw_edge(dice: Dice, accent: Accent, others: Sequence[str], name: str) -> EdgeSpec:
    target = dice.pick((*others, *others, *others, name, BEST))
    policy = dice.pick(accent.policies)
    level = dice.throw(3)
    skill, extra = dice.pick(accent.needs), dice.pick(accent.extras)
    if target == BEST:
        skill, extra = skill or SKILLS[0], ""
    view: Any = extra if extra in ("last", "no tools") else "all"
    return EdgeSpec(
        target=target,
        allow_return=dice.pick(accent.returns),
        policy=policy,
        above=level if policy == "conditional" else None,
        capabilities=() if skill is None else (skill,),
        completes=dice.pick(accent.completes),
        trigger=dice.pick(accent.triggers),
        trigger_above=level,
        restrict_tools="restrict" in extra,
        tokens=15 + 10 * level if "budget" in extra else None,
        confirm=extra == "confirm",
        view=view,
    )
