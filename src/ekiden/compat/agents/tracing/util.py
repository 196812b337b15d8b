"""New ids and the time, as the provider of traces gives them."""

from ekiden.compat.agents.tracing.setup import get_trace_provider


def time_iso() -> str:
    """The time as ISO 8601."""
    return get_trace_provider().time_iso()


def gen_trace_id() -> str:
    """A new trace id."""
    return get_trace_provider().gen_trace_id()


def gen_span_id() -> str:
    """A new span id."""
    return get_trace_provider().gen_span_id()


def gen_group_id() -> str:
    """A new id of a group."""
    return get_trace_provider().gen_group_id()
