"""Settings of one trace."""

from __future__ import annotations

from typing_extensions import TypedDict


class TracingConfig(TypedDict, total=False):
    """Tracing settings of a run: the key for sending the trace to OpenAI, and the spans of the
    trace."""

    api_key: str
    include_task_and_turn_spans: bool


def include_task_and_turn_spans(config: TracingConfig | None) -> bool:
    """Whether the trace has spans of tasks and turns."""
    return (config or {}).get("include_task_and_turn_spans", True)
