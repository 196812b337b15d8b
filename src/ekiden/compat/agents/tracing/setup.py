"""The one provider of traces of this process."""

from __future__ import annotations

from ekiden.compat.agents.tracing.provider import DefaultTraceProvider, TraceProvider

GLOBAL_TRACE_PROVIDER: TraceProvider | None = None


def set_trace_provider(provider: TraceProvider) -> None:
    """Use this provider for all new traces and spans."""
    global GLOBAL_TRACE_PROVIDER
    GLOBAL_TRACE_PROVIDER = provider


def get_trace_provider() -> TraceProvider:
    """The current provider; the first call creates it."""
    global GLOBAL_TRACE_PROVIDER
    if GLOBAL_TRACE_PROVIDER is None:
        GLOBAL_TRACE_PROVIDER = DefaultTraceProvider()
    return GLOBAL_TRACE_PROVIDER
