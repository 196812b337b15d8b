"""The trace of one run: the open one, else a new one as the run's settings say."""

from __future__ import annotations

from typing import Any

from ekiden.compat.agents.tracing.config import TracingConfig
from ekiden.compat.agents.tracing.create import get_current_trace, trace
from ekiden.compat.agents.tracing.traces import Trace, TraceState, reattach_trace


def create_trace_for_run(
    *,
    workflow_name: str,
    trace_id: str | None,
    group_id: str | None,
    metadata: dict[str, Any] | None,
    tracing: TracingConfig | None,
    disabled: bool,
    trace_state: TraceState | None = None,
    reattach_resumed_trace: bool = False,
) -> Trace | None:
    """A trace for a run; `None` if one is open already."""
    if get_current_trace() is not None:
        return None
    key = (tracing or {}).get("api_key")
    if reattach_resumed_trace and trace_state is not None and not disabled:
        return reattach_trace(trace_state, tracing_api_key=key)
    return trace(
        workflow_name=workflow_name,
        trace_id=trace_id,
        group_id=group_id,
        metadata=metadata,
        tracing=tracing,
        disabled=disabled,
    )


class TraceCtxManager:
    """A context manager that creates a trace for a run."""

    def __init__(
        self,
        workflow_name: str,
        trace_id: str | None,
        group_id: str | None,
        metadata: dict[str, Any] | None,
        tracing: TracingConfig | None,
        disabled: bool,
        trace_state: TraceState | None = None,
        reattach_resumed_trace: bool = False,
    ) -> None:
        self.trace: Trace | None = None
        self._settings: dict[str, Any] = {
            "workflow_name": workflow_name,
            "trace_id": trace_id,
            "group_id": group_id,
            "metadata": metadata,
            "tracing": tracing,
            "disabled": disabled,
            "trace_state": trace_state,
            "reattach_resumed_trace": reattach_resumed_trace,
        }

    def __enter__(self) -> TraceCtxManager:
        self.trace = create_trace_for_run(**self._settings)
        if self.trace is not None:
            self.trace.start(mark_as_current=True)
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if self.trace is not None:
            self.trace.finish(reset_current=True)
