"""What is wrong with a setting, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

ProblemCode: TypeAlias = Literal[
    "settings.unreadable",
    "settings.syntax",
    "settings.duplicate_key",
    "settings.unknown_key",
    "settings.wrong_value",
    "settings.conflict",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsProblem:
    """Something that a person should change."""

    where: str | None = None
    """A file, an environment variable, or ``the call``; `None` for what was just asked for."""
    line: int | None = None
    """In the file; 1 is the first."""
    column: int | None = None
    """In characters; 1 is the first."""
    code: ProblemCode
    message: str
    """What is wrong, and what to write instead."""

    def __str__(self) -> str:
        if self.where is None:
            return self.message
        place = [str(part) for part in (self.where, self.line, self.column) if part is not None]
        return f"{':'.join(place)}: {self.message}"

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "where": self.where,
            "line": self.line,
            "column": self.column,
            "code": self.code,
            "message": self.message,
        }
