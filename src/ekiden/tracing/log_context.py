"""The session, agent and trace that log lines belong to, from context variables.

Setting it costs a fraction of a microsecond, and nothing is looked up until a line is written:
the runtime sets the run itself, and its session, correlation id and trace are read from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ekiden.core.current_agent import LoggedSession, acting_here, logged_session
from ekiden.tracing.ids import TRACEPARENT, parse_traceparent, trace_id_of

NO_FIELDS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSession:
    """A session known by its row only."""

    session_id: str
    meta: Mapping[str, Any]
    created_at_us: int | None = None
    """When the store made it; without it, log lines have no trace id."""

    @property
    def correlation_id(self) -> str:
        """The correlation id of its creator, or its own id."""
        return str(self.meta.get("correlation_id") or self.session_id)


_fields: ContextVar[Mapping[str, str]] = ContextVar("ekiden_log_fields", default=NO_FIELDS)


@contextmanager
def log_fields(**fields: str | None) -> Iterator[None]:
    """Add these fields to all log lines inside the ``with`` block; nested blocks combine.

    `session_id`, `correlation_id`, `agent` and `trace_id` override those of the session; others,
    such as `request_id` or `tenant`, are added. Fields with the value `None` are left out::

        with log_fields(request_id="req_1", tenant="acme"):
            log.info("accepted")
    """
    given = {name: value for name, value in fields.items() if value is not None}
    token = _fields.set({**_fields.get(), **given})
    try:
        yield
    finally:
        _fields.reset(token)


def current_log_fields() -> dict[str, str]:
    """The fields of a log line written now; unknown ones are left out."""
    found: dict[str, str] = {}
    session = logged_session()
    if session is not None:
        found["session_id"] = session.session_id
        found["correlation_id"] = session.correlation_id
        trace_id = _trace_id(session)
        if trace_id is not None:
            found["trace_id"] = trace_id
    agent = acting_here()
    if agent:
        found["agent"] = agent
    found.update(_fields.get())
    return found


def _trace_id(session: LoggedSession) -> str | None:
    """The session's trace id; `None` if it is unknown, or belongs to the session that asked."""
    given = parse_traceparent(session.meta.get(TRACEPARENT))
    if given is not None:
        return given.trace_id
    if session.created_at_us is None or "asked_in" in session.meta:
        return None
    return trace_id_of(session.session_id, session.created_at_us)
