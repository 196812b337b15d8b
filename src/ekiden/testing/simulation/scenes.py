"""Finds a scene by name."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.core.errors import UserError
from ekiden.runtime import RunConfig
from ekiden.testing.simulation.scene import Scene, Talk

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
        raise UserError(f"--say is for an agent or a team; {name} says itself what is said")
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
        raise UserError(f"nobody says anything to {name}: give --say TEXT, or name a Scene")
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
