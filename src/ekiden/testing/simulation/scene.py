"""What a simulation is about: a scene with its team and messages, found by name."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any, TypeAlias

from ekiden.core.agent import Agent, Team
from ekiden.core.errors import UserError
from ekiden.runtime import RunConfig
from ekiden.testing.simulation.outside import Outside

Told: TypeAlias = Callable[[str], bool]
"""Whether an answer is right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """One conversation: its messages in order, and the expected results."""

    id: str
    """The id of the session."""
    texts: Sequence[str]
    """The messages, in order."""
    waits_for_answer: bool = True
    """Whether each message waits for the answer to the previous one."""
    answer: str | Told | None = None
    """The expected last answer, or a function that checks it. `None`: any answer."""
    effects: Mapping[str, int | Collection[int]] | None = None
    """The expected number of each effect at the end, or several allowed numbers. Repeats with the
    same idempotency key count once. The name of an effect begins with the id of the talk, which is
    left out here. `None`: no effect may be made twice."""
    variables: Mapping[str, int | Collection[int]] = field(default_factory=dict)
    """The expected values of numeric session variables at the end: one number, or several allowed
    numbers."""
    outcomes: Sequence[str] = ("done",)
    """The allowed outcomes of the last run."""
    at_s: float = 0.0
    """The start time, in simulated seconds."""
    hand_to: str | None = None
    """If set, a program requests a handoff to this agent at some time."""
    ask: str | None = None
    """If set, this is not a conversation: the first text is a query to this agent on the bus, and
    the other texts are notifications to it, each sent more than once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A team, and its simulated conversations.

    For example::

        talk = Talk(id="s1", texts=["book A-42"], answer="A-42 is booked")
        assert simulate(Scene(team=team, talks=[talk]), seed=7).ok
    """

    team: Agent[Any] | Team
    talks: Sequence[Talk] = ()
    config: RunConfig = field(default_factory=RunConfig)
    context: Callable[[Outside], Any] = lambda outside: outside
    """A function that makes ``ctx.context`` for tools. By default this is the `Outside` object."""
    workers: int = 3
    serves: Sequence[Collection[str] | None] = ()
    """For each worker: the agents that it runs. `None`, or a missing entry: all agents."""
    people: int = 2
    """The number of people who answer items in the inbox."""
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The choices of people by kind of inbox item; by default the options of the item."""


SceneOf: TypeAlias = "Callable[[Random], Scene]"
"""Makes the scene of a seed."""

_DEFAULT = "scene"
_CONFIG = RunConfig(approver="inbox", lease_s=2.0, model_timeout_s=5.0)


def load_scene(name: str, said: Sequence[str] = (), *, seed: int) -> Scene:
    """The scene called ``file.py:name`` or ``module:name``, of this seed; `UserError`.

    It is a `Scene`, a function that takes a `Random` and makes one, or an agent or a team, which is
    told each text of `said` in a conversation of its own.
    """
    place, _, attribute = name.partition(":")
    attribute = attribute or _DEFAULT
    module = _module(place)
    try:
        found: Any = getattr(module, attribute)
    except AttributeError:
        raise UserError(f"{place} has nothing called {attribute!r}") from None
    if isinstance(found, Agent | Team):
        return _told(found, said, name)
    if said:
        raise UserError(f"--say works only for an agent or a team; {name} has its own messages")
    if not isinstance(found, Scene) and callable(found):
        found = found(Random(f"{seed} scene"))
    if not isinstance(found, Scene):
        raise UserError(
            f"{name} must be a Scene, a function that makes one, an Agent or a Team, not "
            f"{type(found).__name__}"
        )
    return found


def _told(team: Agent[Any] | Team, said: Sequence[str], name: str) -> Scene:
    if not said:
        raise UserError(f"there is no message for {name}: give --say TEXT, or name a Scene")
    talks = [Talk(id=f"talk{number}", texts=[text]) for number, text in enumerate(said, 1)]
    return Scene(team=team, talks=talks, config=_CONFIG)


@cache
def _module(place: str) -> ModuleType:
    try:
        if not place.endswith(".py"):
            return importlib.import_module(place)
        file = Path(place).resolve()
        if str(file.parent) not in sys.path:
            sys.path.insert(0, str(file.parent))
        module = importlib.import_module(file.stem)
    except ImportError as exc:
        raise UserError(f"{place} cannot be imported: {exc}") from exc
    if Path(module.__file__ or "").resolve() != file:
        raise UserError(f"{place} cannot be imported: another module has its name; rename the file")
    return module
