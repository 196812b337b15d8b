"""Settings of a session."""

from __future__ import annotations

import dataclasses
from typing import Any

from pydantic.dataclasses import dataclass


@dataclass
class SessionSettings:
    """Limits for reading a session."""

    limit: int | None = None
    """The maximum number of items; the newest ones are read. `None`: all items."""

    def resolve(self, override: SessionSettings | dict[str, Any] | None) -> SessionSettings:
        """A copy of these settings; values of `override` that are not `None` win."""
        if override is None:
            return self
        given = coerce_session_settings(override)
        names = [each.name for each in dataclasses.fields(self)]
        changes = {name: getattr(given, name, None) for name in names}
        known = {name: value for name, value in changes.items() if value is not None}
        return dataclasses.replace(self, **known)

    def to_dict(self) -> dict[str, Any]:
        """The settings as JSON."""
        return dataclasses.asdict(self)


def coerce_session_settings(value: SessionSettings | dict[str, Any]) -> SessionSettings:
    """A dictionary of settings as an object; `TypeError` for everything else."""
    if isinstance(value, SessionSettings):
        return value
    if not isinstance(value, dict):
        kind = type(value).__name__
        raise TypeError(f"session settings must be SessionSettings or a dict, not {kind}")
    unknown = sorted(set(value) - {each.name for each in dataclasses.fields(SessionSettings)})
    if unknown:
        raise TypeError(f"Unknown session settings: {', '.join(unknown)}")
    return SessionSettings(**value)


def resolve_session_limit(
    explicit_limit: int | None, settings: SessionSettings | dict[str, Any] | None
) -> int | None:
    """The limit of one call, else the one of the settings."""
    if explicit_limit is not None or settings is None:
        return explicit_limit
    return coerce_session_settings(settings).limit
