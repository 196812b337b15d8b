"""Prices of models in the settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ekiden.core.kinds import Number, shown_type, wrong

_AMOUNT = Number(low=0, high=1e9)
_KEYS = ("input", "output", "cached_input")
_NEEDED = {"input", "output"}
_MAX_MODELS = 1_000
_MAX_NAME = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What a million tokens of a model cost, by model."""

    expects: str = 'an object of models, each with "input" and "output" per million tokens'

    def read(self, value: object) -> object:
        if not isinstance(value, Mapping):
            raise wrong(self.expects, value)
        if len(value) > _MAX_MODELS:
            raise ValueError(f"must have at most {_MAX_MODELS} models, not {len(value)}")
        return {_name(name): _price(str(name), each) for name, each in value.items()}

    def schema(self) -> dict[str, Any]:
        price = {
            "type": "object",
            "properties": dict.fromkeys(_KEYS, _AMOUNT.schema()),
            "required": sorted(_NEEDED),
            "additionalProperties": False,
        }
        return {"type": "object", "additionalProperties": price, "maxProperties": _MAX_MODELS}


def _name(name: object) -> str:
    if isinstance(name, str) and name.strip() and len(name) <= _MAX_NAME and name.isprintable():
        return name
    raise ValueError(
        f"has a model whose name is wrong: it has 1 to {_MAX_NAME} printable characters"
    )


def _price(name: str, value: object) -> dict[str, object]:
    is_right = isinstance(value, Mapping) and _NEEDED <= set(value) <= set(_KEYS)
    if not isinstance(value, Mapping) or not is_right:
        what = "an object with other keys" if isinstance(value, Mapping) else shown_type(value)
        raise ValueError(
            'must have "input" and "output", and nothing else but "cached_input", for each model, '
            f"but that of {name[:40]!r} is {what}"
        )
    amounts: dict[str, object] = {}
    for key in _KEYS:
        if value.get(key) is None and key not in _NEEDED:
            continue
        try:
            amounts[key] = _AMOUNT.read(value[key])
        except ValueError as exc:
            raise ValueError(f'has a price of {name[:40]!r} whose "{key}" {exc}') from None
    return amounts
