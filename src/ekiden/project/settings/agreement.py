"""Settings that are valid alone, but contradict each other or the project's agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ekiden.core.errors import SettingsInvalid
from ekiden.core.profile import Scope
from ekiden.core.text.wording import suggestion
from ekiden.project.settings.files import SettingsProblem, Where
from ekiden.project.settings.loaded import LoadedSettings, SettingOrigin
from ekiden.project.settings.model import Settings
from ekiden.project.settings.places import place_of
from ekiden.project.settings.values import unknown_provider

ENABLED = "agents.routing.enabled"
FALLBACK = "agents.routing.fallback"
DEFAULT_AGENT = "agents.routing.default_agent"

_NOBODY = f"{DEFAULT_AGENT} names no agent"
_IS_DEFAULT = f"{FALLBACK} is 'default_agent'"
_MODELS = ("model", "agents.routing.llm.model")
_BUDGETS = "limits.agents"
_ABOUT = (DEFAULT_AGENT, FALLBACK, ENABLED)
_LISTED = 20


def lacks_default_agent(settings: Settings) -> bool:
    """Whether unmatched requests go to a default agent, but there is none."""
    routing = settings.agents.routing
    return routing.fallback == "default_agent" and routing.default_agent is None


def unknown_model(name: str, value: object, settings: Settings) -> SettingsProblem | None:
    """Why no provider has the model, if `name` is a setting for one; a team in Python may bring its
    own providers."""
    if name not in _MODELS or not isinstance(value, str) or settings.team is not None:
        return None
    why = unknown_provider(value)
    if why is None:
        return None
    message = f"{name} cannot be {value!r:.80}: {why}"
    return SettingsProblem(code="settings.wrong_value", message=message)


def no_default_agent(origin: SettingOrigin) -> str:
    """The message for settings without a default agent, whose fallback comes from `origin`."""
    return (
        f"{_IS_DEFAULT}, but {_NOBODY}; name one: "
        f"`{command('set', DEFAULT_AGENT, 'NAME', origin=origin)}`"
    )


def refused_set(name: str, loaded: LoadedSettings) -> SettingsProblem:
    """Why `name`, one of the two, cannot be set to give `loaded`."""
    origin, own = loaded.origin(FALLBACK), loaded.origin(name)
    if name == FALLBACK:
        first = command("set", DEFAULT_AGENT, "NAME", origin=own)
        then = command("set", FALLBACK, "default_agent", origin=own)
        message = f"{FALLBACK} cannot be 'default_agent' while {_NOBODY}"
    else:
        first = command("set", FALLBACK, "prompt_user", origin=origin)
        then = command("set", DEFAULT_AGENT, "null", origin=own)
        message = f"{DEFAULT_AGENT} cannot be null while {_IS_DEFAULT} ({origin.where})"
    return _conflict(f"{message}; first `{first}`, then `{then}`")


def refused_unset(name: str, loaded: LoadedSettings) -> SettingsProblem:
    """Why `name` cannot be removed to give `loaded`."""
    origin = loaded.origin(FALLBACK)
    first = command("set", FALLBACK, "prompt_user", origin=origin)
    if name == FALLBACK:
        first = command("set", DEFAULT_AGENT, "NAME", origin=origin)
    return _conflict(
        f"without {name}, {_IS_DEFAULT} ({origin.where}) and {_NOBODY}; first `{first}`"
    )


def command(verb: str, *words: str, origin: SettingOrigin) -> str:
    """The command that changes the file of a value."""
    user = " --user" if origin.kind == "user" else ""
    return f"ekiden config {verb}{user} {' '.join(words)}"


def _conflict(message: str) -> SettingsProblem:
    return SettingsProblem(code="settings.conflict", message=message)


def agent_names_check(
    key: str,
    *,
    where: Where = "project",
    root: Path | None = None,
    home: Path | None = None,
    agents: Mapping[str, Scope] | None = None,
) -> Callable[[Settings], None]:
    """Return a `check` for ``set_setting(key, …)`` that refuses names of unknown agents.

    `agents` are the agents of a loaded team; `None` reads the agent files of the project in `root`,
    without running any code. If there are no files, or if the setting `team` names a team in
    Python, every name is valid. The user's file also applies to other projects. So an agent in the
    user's file may be missing in this project, unless a setting of this project needs the agent.
    The check raises `SettingsInvalid`::

        set_setting(key, value, check=agent_names_check(key))
    """
    setting = place_of(key).name

    def check(settings: Settings) -> None:
        is_named_here = setting in (DEFAULT_AGENT, _BUDGETS) and where == "project"
        if not (is_named_here or (setting in _ABOUT and _is_needed(settings))):
            return
        known = agents if agents is not None else _of_files(settings, root or Path(), home)
        find = _budget_fault if setting == _BUDGETS else _fault
        fault = None if known is None else find(settings, known)
        if fault is not None:
            raise SettingsInvalid([_problem(fault)])

    return check


def check_default_agent(loaded: LoadedSettings, agents: Mapping[str, Scope]) -> None:
    """Raises `SettingsInvalid`, with file and line, if a required default agent does not exist."""
    fault = _fault(loaded.settings, agents) if _is_needed(loaded.settings) else None
    if fault is not None:
        origin = loaded.origin(DEFAULT_AGENT)
        raise SettingsInvalid([_problem(fault, where=origin.where or "the call", line=origin.line)])


def _is_needed(settings: Settings) -> bool:
    routing = settings.agents.routing
    return routing.fallback == "default_agent" or not routing.enabled


def _fault(settings: Settings, known: Mapping[str, Scope]) -> str | None:
    """What is wrong with the default agent, if there is one."""
    routing = settings.agents.routing
    name = routing.default_agent
    if name is None:
        return None
    if name not in known:
        return _refused(name, "no agent has this name", known)
    gets_requests = routing.enabled or routing.fallback == "default_agent"
    if known[name] == "system" and gets_requests:
        return _refused(name, "a system agent gets no requests", known)
    return None


def _budget_fault(settings: Settings, known: Mapping[str, Scope]) -> str | None:
    """Why a budget's owner cannot have one."""
    for name in settings.limits.agents:
        if name not in known:
            listed = ", ".join(sorted(known)[:_LISTED]) or "none"
            return (
                f"{_BUDGETS} cannot have a budget for {name[:80]!r}: no agent has this name; "
                f"known: {listed}{suggestion(name, known)}"
            )
    return None


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


def _refused(name: str, why: str, known: Mapping[str, Scope]) -> str:
    able = sorted(each for each, scope in known.items() if scope != "system")
    listed = ", ".join(able[:_LISTED]) or "none"
    more = f" and {len(able) - _LISTED} more" if len(able) > _LISTED else ""
    near = suggestion(name, able) if name not in known else ""
    return f"{DEFAULT_AGENT} cannot be {name[:80]!r}: {why}; known: {listed}{more}{near}"


def _problem(message: str, where: str | None = None, line: int | None = None) -> SettingsProblem:
    return SettingsProblem(where=where, line=line, code="settings.wrong_value", message=message)
