"""Loads a team by its name, ``module:attribute``."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from inspect import iscoroutinefunction
from typing import Any

from ekiden.core.agent import Agent, Team
from ekiden.core.errors import UserError

DEMO_TEAM = "ekiden.project.demo:team"


def load_team(target: str) -> Team:
    """The team at ``module:attribute``: a `Team`, an `Agent`, or a function that returns one.

    A module in the current folder is preferred to an installed one. Raises `UserError` for a wrong
    name, and if the module or the function raises an exception; the message then has the type and
    text of that exception::

        team = load_team("desk:team")
    """
    module_name, separator, attribute = target.partition(":")
    if not (separator and module_name and attribute):
        raise UserError(f"{target!r} does not name a team; write module:attribute, as {DEMO_TEAM}")
    found = _attribute(_module(module_name), attribute, target)
    if callable(found) and not isinstance(found, Team | Agent):
        found = _call_factory(found, target)
    if isinstance(found, Agent):
        return Team(found)
    if isinstance(found, Team):
        return found
    raise UserError(f"{target} is of type {type(found).__name__}, neither a Team nor an Agent")


def _module(name: str) -> Any:
    # An installed team must not import modules of the current folder, which may be untrusted. So
    # the folder joins the path only if the named module is in it.
    is_here = PathFinder.find_spec(name.partition(".")[0], [""]) is not None
    if is_here and "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name is not None and (name == exc.name or name.startswith(exc.name + ".")):
            raise UserError(
                f"there is no module {exc.name!r} here; run in the folder that has it, "
                "or install the package it is in"
            ) from exc
        raise UserError(f"module {name!r} needs {exc.name!r}, which is not installed") from exc
    except (Exception, SystemExit) as exc:
        raise UserError(f"module {name!r} fails: {type(exc).__name__}: {exc}") from exc


def _attribute(module: Any, path: str, target: str) -> Any:
    found = module
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as exc:
            raise UserError(f"{target}: {module.__name__!r} has no {path!r}") from exc
        except (Exception, SystemExit) as exc:
            raise UserError(f"{target} fails: {type(exc).__name__}: {exc}") from exc
    return found


def _call_factory(factory: Any, target: str) -> Any:
    if iscoroutinefunction(factory):
        raise UserError(f"{target} is an async function; a team is made by a plain one")
    try:
        return factory()
    except (Exception, SystemExit) as exc:
        raise UserError(f"{target}() fails: {type(exc).__name__}: {exc}") from exc
