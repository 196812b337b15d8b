"""Shapes of what an imported cursor has inside; see `ekiden.core.shapes`."""

from __future__ import annotations

from typing import Any, Required

from typing_extensions import TypedDict

from ekiden.core.shapes import Name, Object, shape


class Violation(TypedDict):
    """What does not fit a schema."""

    message: str
    path: str


class Finding(TypedDict, total=False):
    """What one guardrail found, or what one of a tool decided."""

    type: Required[Name]
    guardrail: Required[Name]
    behavior: Required[Name]
    result: str | None
    message: str | None
    violations: list[Violation]


Received: Any = shape(
    "Received", {"from": Required[Name], "reason": str | None, "summary": str | None}
)
"""What an agent was handed."""


class Route(TypedDict, total=False):
    """Why the router was asked."""

    cause: Required[Name]
    options: Object | None
