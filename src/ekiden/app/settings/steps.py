"""Escalation chains in the settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ekiden.core.inbox_item import EscalationStep
from ekiden.core.kinds import Number, Text, shown_type, wrong

_ROLE = Text(what="a role's name", max_length=4096, is_line=True)
_AFTER = Number(low=1, high=1e8)
_MAX_STEPS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Who is asked next, and after how many seconds."""

    expects: str = 'a list of steps, each with "role" and "after_s"'

    def read(self, value: object) -> object:
        if not isinstance(value, list | tuple):
            raise wrong(self.expects, value)
        if len(value) > _MAX_STEPS:
            raise ValueError(f"must have at most {_MAX_STEPS} steps, not {len(value)}")
        return tuple(_step(each, number) for number, each in enumerate(value, start=1))

    def schema(self) -> dict[str, Any]:
        step = {
            "type": "object",
            "properties": {"role": _ROLE.schema(), "after_s": _AFTER.schema()},
            "required": ["role", "after_s"],
            "additionalProperties": False,
        }
        return {"type": "array", "items": step, "maxItems": _MAX_STEPS}


def _step(value: object, number: int) -> EscalationStep:
    if isinstance(value, EscalationStep):
        value = {"role": value.role, "after_s": value.after_s}
    if not isinstance(value, Mapping) or set(value) != {"role", "after_s"}:
        what = "an object with other keys" if isinstance(value, Mapping) else shown_type(value)
        raise ValueError(
            f'must have "role" and "after_s", and nothing else, in each step, but number {number} '
            f"is {what}"
        )
    for key, kind in (("role", _ROLE), ("after_s", _AFTER)):
        try:
            kind.read(value[key])
        except ValueError as exc:
            raise ValueError(f'has a step, number {number}, whose "{key}" {exc}') from None
    return EscalationStep(role=value["role"].strip(), after_s=float(value["after_s"]))
