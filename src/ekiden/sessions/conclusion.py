"""How well a run went: a conclusion from its events, or the one that its code set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ekiden.core.events import Event
from ekiden.core.runs import Conclusion

_ENDS = ("agent_complete", "agent_error")
DECISIONS = frozenset({"inbox", "tool_confirmation"})
"""The types of events that may be a person's refusal, besides events with an error."""
_NO = ("reject", "no")
_BY_OUTCOME: Mapping[str, Conclusion] = {
    "refused": "refused",
    "failed": "failed",
    "out_of_budget": "out_of_budget",
    "cancelled": "stopped",
}


def conclusion_from(events: Sequence[Event]) -> Conclusion:
    """The conclusion of a run that has given its answer, according to its events so far."""
    signs = [event for event in events if event.error is not None or event.type in DECISIONS]
    if not signs:
        return "succeeded"
    if _is_refused(signs):
        return "refused"
    if any(event.type == "handoff" and "undoes" in (event.details or {}) for event in signs):
        return "rolled_back"
    return "with_errors" if _left_failed(events) else "succeeded"


def recorded_conclusion(events: Sequence[Event]) -> Conclusion | None:
    """The conclusion of a stored run according to its events; `None` if the run has not ended."""
    ending = next((event for event in reversed(events) if event.type in _ENDS), None)
    if ending is None:
        return None
    details = ending.details or {}
    outcome = details.get("outcome", "failed" if ending.type == "agent_error" else "done")
    if outcome == "done":
        stored: Conclusion | None = details.get("conclusion")
        return stored or conclusion_from(events)
    return _BY_OUTCOME.get(str(outcome))


def _is_refused(signs: Iterable[Event]) -> bool:
    """Whether a person refused something, and did not allow the same later."""
    refused: dict[Any, bool] = {}
    for event in signs:
        details = event.details or {}
        if details.get("status") != "answered":
            continue
        if event.type == "tool_confirmation":
            refused[details.get("tool")] = details.get("approved") is False
        elif event.type == "inbox" and details.get("kind") == "approval":
            answer = details.get("answer") or {}
            refused[details.get("item")] = answer.get("choice") in _NO
    return any(refused.values())


def _left_failed(events: Iterable[Event]) -> bool:
    """Whether the last call of a tool, or the last attempt at a task of a plan, failed."""
    failed: dict[tuple[str, Any], bool] = {}
    for event in events:
        details = event.details or {}
        if event.type == "tool_call":
            failed["tool_call", details.get("tool")] = event.error is not None
        elif event.type == "task" and details.get("phase") == "finished":
            failed["task", details.get("task_id")] = event.error is not None
    return any(failed.values())
