"""Settings that are right one by one and cannot hold together."""

from __future__ import annotations

from ekiden.app.settings.faults import unknown_provider
from ekiden.app.settings.loaded import LoadedSettings, SettingOrigin
from ekiden.app.settings.model import Settings
from ekiden.app.settings.problems import SettingsProblem

ENABLED = "agents.routing.enabled"
FALLBACK = "agents.routing.fallback"
DEFAULT_AGENT = "agents.routing.default_agent"

_NOBODY = f"{DEFAULT_AGENT} names nobody"
_IS_DEFAULT = f"{FALLBACK} is 'default_agent'"


def lacks_default_agent(settings: Settings) -> bool:
    """Whether requests that nobody matches go to a default agent, and there is none."""
    routing = settings.agents.routing
    return routing.fallback == "default_agent" and routing.default_agent is None


_MODELS = ("model", "agents.routing.llm.model")


def unknown_model(name: str, value: object, settings: Settings) -> SettingsProblem | None:
    """Why nobody provides the model that `name` is to be, if it is a setting for one; a team in
    Python may bring its own providers."""
    if name not in _MODELS or not isinstance(value, str) or settings.team is not None:
        return None
    why = unknown_provider(value)
    if why is None:
        return None
    message = f"{name} cannot be {value!r:.80}: {why}"
    return SettingsProblem(code="settings.wrong_value", message=message)


def no_default_agent(origin: SettingOrigin) -> str:
    """What to say of settings that lack one, whose fallback comes from `origin`."""
    return (
        f"{_IS_DEFAULT}, but {_NOBODY}; name one: "
        f"`{command('set', DEFAULT_AGENT, 'NAME', origin=origin)}`"
    )


def refused_set(name: str, loaded: LoadedSettings) -> SettingsProblem:
    """Why `name`, one of the two, cannot be set so that `loaded` would hold."""
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
    """Why `name` cannot be removed so that `loaded` would hold."""
    origin = loaded.origin(FALLBACK)
    first = command("set", FALLBACK, "prompt_user", origin=origin)
    if name == FALLBACK:
        first = command("set", DEFAULT_AGENT, "NAME", origin=origin)
    return _conflict(
        f"without {name}, {_IS_DEFAULT} ({origin.where}) and {_NOBODY}; first `{first}`"
    )


def command(verb: str, *words: str, origin: SettingOrigin) -> str:
    """How to change the file that a value comes from."""
    user = " --user" if origin.kind == "user" else ""
    return f"ekiden config {verb}{user} {' '.join(words)}"


def _conflict(message: str) -> SettingsProblem:
    return SettingsProblem(code="settings.conflict", message=message)
