"""Collects what is wrong with one file, so that all of it can be told at once."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Protocol

from ekiden.agents.definition import Problem, WrittenCondition, printable

MAX_PROBLEMS = 100
"""Errors, and warnings, of one file; a hostile one must not fill the screen or the memory."""
_SHOWN = 60
_MAX_MESSAGE = 600


class Place(Protocol):
    """Something with a place in the file."""

    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...


class Report:
    """The problems of the file at `path`, in the order in which they are found."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[Problem] = []
        self.front = ""
        """The front matter, once it is found."""
        self.conditions: list[WrittenCondition] = []
        """Those of the file that are texts; what they say is not looked at here."""
        self._count = {"error": 0, "warning": 0}

    @property
    def failed(self) -> bool:
        """Whether there is an error among them."""
        return self._count["error"] > 0

    def error(self, place: Place | None, code: str, message: str) -> None:
        """Add something that keeps the file from being used; without a place, the first line."""
        self._add(place, code, message, "error")

    def warning(self, place: Place | None, code: str, message: str) -> None:
        """Add something that a person should know."""
        self._add(place, code, message, "warning")

    def _add(
        self,
        place: Place | None,
        code: str,
        message: str,
        severity: Literal["error", "warning"],
    ) -> None:
        self._count[severity] += 1
        if self._count[severity] > MAX_PROBLEMS:
            return
        self.problems.append(
            Problem(
                path=self.path,
                line=place.line if place else 1,
                column=place.column if place else 1,
                code=f"agent.{code}",
                message=printable(message[:_MAX_MESSAGE]),
                severity=severity,
            )
        )


def shown(text: str) -> str:
    """The text in quotes, shortened, and safe for a terminal."""
    return printable(repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…"))
