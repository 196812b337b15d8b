"""Settings that are right one by one and cannot hold together."""

from __future__ import annotations

from collections.abc import Callable

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


MODELS: dict[str, Callable[[Settings], str | None]] = {
    "model": lambda settings: settings.model,
    "agents.routing.llm.model": lambda settings: settings.agents.routing.llm.model,
}


def unknown_models(settings: Settings) -> dict[str, str]:
    """By setting, why nobody provides its model; a team in Python may bring its own providers."""
    if settings.team is not None:
        return {}
    named = {name: of(settings) for name, of in MODELS.items()}
    found = {name: unknown_provider(each) for name, each in named.items() if each is not None}
    return {
        name: f"{name} cannot be {named[name]!r:.80}: {why}"
        for name, why in found.items()
        if why is not None
    }


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
