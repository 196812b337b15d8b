"""Whether the default agent of the settings is one of the project's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ekiden.app.settings.agreement import DEFAULT_AGENT, ENABLED, FALLBACK
from ekiden.app.settings.files import Where
from ekiden.app.settings.model import Settings
from ekiden.app.settings.places import place_of
from ekiden.app.settings.problems import SettingsProblem
from ekiden.core.errors import SettingsInvalid
from ekiden.core.profile import Scope
from ekiden.core.suggest import suggestion

_ABOUT = (DEFAULT_AGENT, FALLBACK, ENABLED)
_LISTED = 20


def default_agent_check(
    key: str,
    *,
    where: Where = "project",
    root: Path | None = None,
    home: Path | None = None,
    agents: Mapping[str, Scope] | None = None,
) -> Callable[[Settings], None]:
    """A `check` for ``set_setting(key, …)``: whether the default agent is one that there is.

    `agents` are those of a team that is loaded; `None` reads the files of the project in `root`,
    without running any code, and takes every name where there are none or the setting `team` names
    a team in Python. In the user's file, which is for other projects too, a name may be unknown
    here as long as nothing here needs it. The check raises `SettingsInvalid`::

        set_setting(key, value, check=default_agent_check(key))
    """
    setting = place_of(key).name

    def check(settings: Settings) -> None:
        routing = settings.agents.routing
        name = routing.default_agent
        is_fallback = routing.fallback == "default_agent"
        is_needed = is_fallback or not routing.enabled
        is_named_here = setting == DEFAULT_AGENT and where == "project"
        if name is None or not (is_named_here or (setting in _ABOUT and is_needed)):
            return
        known = agents if agents is not None else _of_files(settings, root or Path(), home)
        if known is None:
            return
        if name not in known:
            raise _refused(name, "no agent is called so", known)
        if known[name] == "system" and (is_fallback or routing.enabled):
            raise _refused(name, "a system agent gets no requests", known)

    return check


def _of_files(settings: Settings, root: Path, home: Path | None) -> Mapping[str, Scope] | None:
    from ekiden.agents import load_agent_files

    if settings.team is not None:
        return None
    found = load_agent_files(
        root, home=home, foreign_user_folders=settings.agents.foreign_user_folders
    )
    if not found.definitions and not found.problems:
        return None
    return {each.name: each.scope for each in found.definitions}


def _refused(name: str, why: str, known: Mapping[str, Scope]) -> SettingsInvalid:
    able = sorted(each for each, scope in known.items() if scope != "system")
    listed = ", ".join(able[:_LISTED]) or "none"
    more = f" and {len(able) - _LISTED} more" if len(able) > _LISTED else ""
    near = suggestion(name, able) if name not in known else ""
    message = f"{DEFAULT_AGENT} cannot be {name[:80]!r}: {why}; known: {listed}{more}{near}"
    return SettingsInvalid([SettingsProblem(code="settings.wrong_value", message=message)])
