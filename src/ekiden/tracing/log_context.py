"""What log lines belong to: a context variable, set by whoever works for a session or a request.

Setting it costs a fraction of a microsecond, and nothing is looked up until a line is written:
the runtime sets the run itself, and its session, correlation id and trace are read from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from ekiden.core.current_agent import acting_here
from ekiden.tracing.ids import TRACEPARENT, parse_traceparent, trace_id_of

NO_FIELDS: Mapping[str, str] = MappingProxyType({})


class LoggedSession(Protocol):
    """A session for which somebody works: a run, or a `LogSession`."""

    @property
    def session_id(self) -> str: ...

    @property
    def correlation_id(self) -> str: ...

    @property
    def meta(self) -> Mapping[str, Any]: ...

    @property
    def created_at_us(self) -> int | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSession:
    """A session of which only its row is known."""

    session_id: str
    meta: Mapping[str, Any]
    created_at_us: int | None = None
    """When the store made it; its trace is not told if nobody knows."""

    @property
    def correlation_id(self) -> str:
        """What the session belongs to: itself, unless whoever made it named something."""
        return str(self.meta.get("correlation_id") or self.session_id)


_session: ContextVar[LoggedSession | None] = ContextVar("ekiden_log_session", default=None)
_fields: ContextVar[Mapping[str, str]] = ContextVar("ekiden_log_fields", default=NO_FIELDS)


class logging_for:
    """Lines that are logged in the body of the `with`, and in tasks that it starts, belong to the
    session."""

    __slots__ = ("_session", "_token")

    _token: Token[LoggedSession | None]

    def __init__(self, session: LoggedSession) -> None:
        self._session = session

    def __enter__(self) -> None:
        self._token = _session.set(self._session)

    def __exit__(self, *exc_info: object) -> None:
        _session.reset(self._token)


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


def bind_log_session(session: LoggedSession) -> None:
    """As `logging_for`, to the end of the task that calls it: for a task that does nothing else."""
    _session.set(session)


def logged_session() -> LoggedSession | None:
    """The session for which somebody works now."""
    return _session.get()


def current_log_fields() -> dict[str, str]:
    """What a line that is logged now belongs to; what nobody knows is left out."""
    found: dict[str, str] = {}
    session = _session.get()
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
    """The trace of the session, as far as its own row tells: not if it answers another's."""
    given = parse_traceparent(session.meta.get(TRACEPARENT))
    if given is not None:
        return given.trace_id
    if session.created_at_us is None or "asked_in" in session.meta:
        return None
    return trace_id_of(session.session_id, session.created_at_us)
