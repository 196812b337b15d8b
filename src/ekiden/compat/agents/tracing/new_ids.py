"""New ids in the SDK's form."""

import uuid


def new_trace_id() -> str:
    """A new id of a trace."""
    return f"trace_{uuid.uuid4().hex}"


def new_span_id() -> str:
    """A new id of a span."""
    return f"span_{uuid.uuid4().hex[:24]}"


def new_group_id() -> str:
    """A new id of a group."""
    return f"group_{uuid.uuid4().hex[:24]}"
