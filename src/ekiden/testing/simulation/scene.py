"""What a simulated world is about: a team, and what people say to it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from ekiden.core.agent import Agent, Team
from ekiden.runtime import RunConfig
from ekiden.testing.simulation.outside import Outside

if TYPE_CHECKING:
    from random import Random

Told: TypeAlias = Callable[[str], bool]
"""Whether an answer is right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """One conversation: what is said, one after the other, and what must come of it."""

    id: str
    """Of the session."""
    texts: Sequence[str]
    """What is said, one after the other."""
    is_patient: bool = True
    """Whether each thing is said when the one before is answered, or at once."""
    answer: str | Told | None = None
    """The last answer, or a function that says whether it is right; `None`: any."""
    effects: Mapping[str, int | Collection[int]] | None = None
    """How often each thing was done outside in the end, counted by idempotency key: so often, or
    one of these numbers. Things are named after the talk; here is what follows its id. `None`:
    nothing is done twice."""
    variables: Mapping[str, int | Collection[int]] = field(default_factory=dict)
    """Numbers among the variables of the session in the end: this one, or one of these."""
    outcomes: Sequence[str] = ("done",)
    """How the last run may end."""
    at_s: float = 0.0
    """When it begins."""
    hand_to: str | None = None
    """Somebody else asks that it is handed to this agent, some time in between."""
    ask: str | None = None
    """Not a conversation: the first text is a question to this agent on the bus, and the others
    are told it, each more than once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A team and the conversations that it has.

    For example::

        talk = Talk(id="s1", texts=["book A-42"], answer="A-42 is booked")
        assert simulate(Scene(team=team, talks=[talk]), seed=7).ok
    """

    team: Agent[Any] | Team
    talks: Sequence[Talk] = ()
    config: RunConfig = field(default_factory=RunConfig)
    context: Callable[[Outside], Any] = lambda outside: outside
    """What tools find as ``ctx.context``: the world outside, unless this makes something else."""
    workers: int = 3
    serves: Sequence[Collection[str] | None] = ()
    """For each worker, the agents that it runs; `None`, or nothing: all of them."""
    people: int = 2
    """People who look into the inbox and answer."""
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By kind of inbox item: what people choose from, if not from its options."""


SceneOf: TypeAlias = "Callable[[Random], Scene]"
"""Makes the scene of a seed."""
