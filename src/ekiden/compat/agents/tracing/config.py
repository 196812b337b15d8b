"""Settings of one trace."""

from __future__ import annotations

from typing_extensions import TypedDict

__all__ = ["TracingConfig", "include_task_and_turn_spans"]


class TracingConfig(TypedDict, total=False):
    """The key that the trace is sent to OpenAI with, and how much it shows."""

    api_key: str
    include_task_and_turn_spans: bool


def include_task_and_turn_spans(config: TracingConfig | None) -> bool:
    """Whether the trace has spans of tasks and turns."""
    return (config or {}).get("include_task_and_turn_spans", True)
