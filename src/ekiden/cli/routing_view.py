"""A routing decision as one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LABELS = {"rule": "rule-match", "sticky": "kept"}
_CERTAIN = frozenset({"named", "sticky", "default"})
"""Methods that do not guess, so that a percentage would say nothing."""
_CAUSES = {"gave_up": "the agent before gave up", "switched": "the subject changed"}


def route_line(details: Mapping[str, Any]) -> str:
    """A decision, as `RouteDecision.to_json` and the details of `route` events tell it, as a line.

    For example ``rule-match → debugger, 90 %``, ``named → billing``, ``kept → orders`` or
    ``no match: no keyword was found``. Fields that are missing are left out, never an error.
    """
    agent, method = details.get("agent"), str(details.get("method") or "route")
    if not agent:
        reason = details.get("reason")
        return f"no match: {reason}" if reason else "no match"
    line = f"{_LABELS.get(method, method)} → {agent}"
    confidence = details.get("confidence")
    if method not in _CERTAIN and isinstance(confidence, int | float):
        line = f"{line}, {confidence:.0f} %"
    cause = _CAUSES.get(str(details.get("cause")))
    return f"{line} ({cause})" if cause else line


def is_news(details: Mapping[str, Any]) -> bool:
    """Whether a decision tells a person anything: not if the conversation stays where it is."""
    return details.get("method") != "sticky"
