"""The kinds of agents, and what a team may expect of each."""

from __future__ import annotations

from dataclasses import dataclass

from ekiden.core.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class KindTraits:
    """The traits of all agents of a kind; the runtime executes their turns.

    `Agent.traits` returns those of an agent::

        KindTraits(name="council", is_human=True)
    """

    name: str
    """Shown in lists, such as ``code``; agents of a registered kind have it as `Agent.kind`."""
    asks_model: bool = False
    """A turn is one model call, whose answer is parsed as the agent's `output_type`."""
    passes_on: bool = False
    """It routes every conversation to another agent: routing never chooses it, and lists omit
    it."""
    is_human: bool = False
    """People answer for it: routing, plans and negotiations do not choose it."""
    gives_tasks: bool = False
    """Its turn lasts while other agents work for it, and ends with an answer made from theirs."""


MODEL = KindTraits(name="model", asks_model=True)
ROUTER = KindTraits(name="router", passes_on=True)
SUPERVISOR = KindTraits(name="supervisor", gives_tasks=True)
CODE = KindTraits(name="code")
PERSON = KindTraits(name="person", is_human=True)
RUNNER = KindTraits(name="runner")

BY_FIELD = (
    ("router", ROUTER),
    ("plan", SUPERVISOR),
    ("run", CODE),
    ("person", PERSON),
    ("runner", RUNNER),
)
"""The field of `Agent` that determines the kind; without any of them it is a model agent."""

_built_in = {each.name for each in (MODEL, *(traits for _, traits in BY_FIELD))}
_registered: dict[str, KindTraits] = {}


def add_traits(traits: KindTraits) -> None:
    """Register a kind, or replace one of that name; `UserError` for a built-in one."""
    if not traits.name.strip():
        raise UserError("a kind of agent needs a name that is not empty")
    if traits.name in _built_in:
        raise UserError(f"the kind {traits.name!r} is built in: give yours another name")
    _registered[traits.name] = traits


def traits_named(kind: str) -> KindTraits:
    """The traits of a registered kind; `UserError` if there is none of that name."""
    try:
        return _registered[kind]
    except KeyError:
        known = ", ".join(sorted(_registered)) or "none"
        raise UserError(
            f"no kind of agent is registered as {kind!r}; registered: {known}; call "
            "register_agent_kind() before agents of the kind are made"
        ) from None
