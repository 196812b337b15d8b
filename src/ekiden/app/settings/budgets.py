"""Budgets by name in the settings: of agents, and of tenants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ekiden.core.kinds import Kind, Number, shown, shown_type, wrong

_LIMITS: dict[str, Kind] = {
    "tokens": Number(low=1, high=1_000_000_000_000, whole=True),
    "money": Number(low=1e-9, high=1e9),
    "seconds": Number(low=0.001, high=1e9),
}
_MAX_NAMES = 10_000
_MAX_NAME = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """What each of some may use, by name."""

    whose: str
    takes: Callable[[str], bool] | None = None
    """Which names there can be; without it, all."""

    @property
    def expects(self) -> str:
        return f'an object of {self.whose}, each with some of "tokens", "money" and "seconds"'

    def read(self, value: object) -> object:
        if not isinstance(value, Mapping):
            raise wrong(self.expects, value)
        if len(value) > _MAX_NAMES:
            raise ValueError(f"must have at most {_MAX_NAMES} {self.whose}, not {len(value)}")
        bad = next((name for name in value if self.takes and not self.takes(name)), None)
        if bad is not None:
            raise ValueError(f"has the name {shown(bad)}, which {self.whose} cannot have")
        return {_name(name): _budget(str(name), each) for name, each in value.items()}

    def schema(self) -> dict[str, Any]:
        budget = {
            "type": "object",
            "properties": {name: kind.schema() for name, kind in _LIMITS.items()},
            "additionalProperties": False,
            "minProperties": 1,
        }
        return {"type": "object", "additionalProperties": budget, "maxProperties": _MAX_NAMES}


def _name(name: object) -> str:
    if isinstance(name, str) and name.strip() and len(name) <= _MAX_NAME and name.isprintable():
        return name
    raise ValueError(f"has a name that is wrong: it has 1 to {_MAX_NAME} printable characters")


def _budget(name: str, value: object) -> dict[str, object]:
    if not isinstance(value, Mapping) or not value or not set(value) <= set(_LIMITS):
        what = "an object with other keys" if isinstance(value, Mapping) else shown_type(value)
        raise ValueError(
            f"must have some of {', '.join(_LIMITS)} for each, but that of {name[:40]!r} is {what}"
        )
    limits: dict[str, object] = {}
    for key, limit in value.items():
        try:
            limits[key] = _LIMITS[key].read(limit)
        except ValueError as exc:
            raise ValueError(f'has a budget of {name[:40]!r} whose "{key}" {exc}') from None
    return limits
