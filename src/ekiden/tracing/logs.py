"""Adds the session, agent and trace to records of the standard `logging`.

The library writes to the loggers ``ekiden.…`` and configures no logging. A program calls
`setup_logging` once, or adds a `ContextFilter` and one of the formatters to its own handlers.

The context costs a fraction of a microsecond, because the runtime only sets a context variable to
the run. Session, correlation id and trace are read from the run when a line is written.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Literal, TextIO, TypeAlias, get_args

from ekiden.core.current_agent import ACTING, LOGGED, LoggedSession
from ekiden.core.errors import UserError
from ekiden.core.privacy.masking import MASK, masked_names, secrets_of
from ekiden.core.text.wording import suggestion
from ekiden.core.values import dumps
from ekiden.tracing.exports import masked
from ekiden.tracing.spans import TRACEPARENT, parse_traceparent, trace_id_of

NO_FIELDS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSession:
    """The session of log lines that are written outside of a run."""

    session_id: str
    meta: Mapping[str, Any]
    created_at_us: int | None = None
    """When the session was created, in microseconds since 1970. Without this time, log lines have
    no trace id."""

    @property
    def correlation_id(self) -> str:
        """The correlation id in `meta`, or the session's id."""
        return str(self.meta.get("correlation_id") or self.session_id)


_fields: ContextVar[Mapping[str, str]] = ContextVar("ekiden_log_fields", default=NO_FIELDS)


@contextmanager
def log_fields(**fields: str | None) -> Iterator[None]:
    """Add these fields to all log lines inside the ``with`` block. Fields of nested blocks are
    combined.

    `session_id`, `correlation_id`, `agent` and `trace_id` replace the values of the session. Other
    fields, such as `request_id` or `tenant`, are added. Fields with the value `None` are left out::

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
    """The fields that a log line would have now. Unknown fields are left out."""
    found: dict[str, str] = {}
    session = LOGGED.get()
    if session is not None:
        found["session_id"] = session.session_id
        found["correlation_id"] = session.correlation_id
        trace_id = _trace_id(session)
        if trace_id is not None:
            found["trace_id"] = trace_id
    agent = ACTING.get()
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


LogFormat: TypeAlias = Literal["json", "text"]
LOG_FIELDS = ("session_id", "correlation_id", "agent", "trace_id")
"""The fields that a `ContextFilter` adds to every record. An unknown field is `None`."""
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

_MAX_TEXT = 16_000
_MAX_STACK = 32_000
_MAX_FIELD = 2_000
_NOT_SHOWN = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Characters that would start a new line, or change what a terminal shows."""
_NOT_IN_STACK = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_STANDARD = frozenset(
    [*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "log_fields"]
)
"""The attributes of every record; others come from ``extra=``."""


class ContextFilter(logging.Filter):
    """Adds context to log records: an attribute for each of `LOG_FIELDS`, and all fields in the
    attribute `log_fields`.

    The filter drops no record. Fields that the caller passed with ``extra=`` have precedence.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the context to the record. Always returns `True`."""
        fields = current_log_fields()
        for name in LOG_FIELDS:
            given = getattr(record, name, None)
            if given is not None:
                fields[name] = str(given)
            else:
                setattr(record, name, fields.get(name))
        record.log_fields = fields
        return True


class Redaction:
    """Masks keys and tokens in a text. A key or token is found by its form, by a name before it
    (``token=…``), or because it is the value of an environment variable.

    The value of a variable counts as a secret if the variable's name suggests it (``…_KEY``,
    ``…_TOKEN``, ``…PASSWORD``). Passwords in addresses also count as secrets.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        values = secrets_of(os.environ if environ is None else environ)
        self._known = re.compile("|".join(map(re.escape, values))) if values else None

    def __call__(self, text: str, most: int = _MAX_TEXT) -> str:
        """The text with masked secrets, cut off after `most` characters."""
        if self._known is not None:
            text = self._known.sub(MASK, text)
        return masked_names(masked(text, most))


class _Formatter(logging.Formatter):
    """The base class of both formatters."""

    def __init__(self, redaction: Redaction | None = None) -> None:
        super().__init__()
        self._redact = redaction or Redaction()

    def _message(self, record: logging.LogRecord) -> str:
        try:
            text = record.getMessage()
        except Exception as exc:
            # A record with the wrong number of arguments is still worth logging.
            text = f"{record.msg} ({type(exc).__name__} in its arguments)"
        return self._redact(text)

    def _stack(self, record: logging.LogRecord) -> str:
        """The traceback of the record's exception, and the stack if the caller asked for it."""
        parts = []
        if record.exc_info and record.exc_info[1] is not None:
            parts.append("".join(traceback.format_exception(record.exc_info[1])))
        elif record.exc_text:
            parts.append(record.exc_text)
        if record.stack_info:
            parts.append(record.stack_info)
        return self._redact("\n".join(parts).rstrip(), _MAX_STACK) if parts else ""

    def _fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """The context fields, then those of ``extra=``."""
        fields: dict[str, Any] = {}
        known: Mapping[str, str] = getattr(record, "log_fields", {})
        for name in (*LOG_FIELDS, *known):
            value = known.get(name, getattr(record, name, None))
            if value is not None:
                fields[name] = self._redact(str(value), _MAX_FIELD)
        for name, value in vars(record).items():
            if name not in _STANDARD and name not in fields and name not in LOG_FIELDS:
                fields[name] = self._plain(value)
        return fields

    def _plain(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, float):
            return value if value == value and abs(value) != float("inf") else str(value)
        try:
            text = value if isinstance(value, str) else dumps(value)
        except (TypeError, ValueError, RecursionError):
            text = _described(value)
        return self._redact(text, _MAX_FIELD)


class JsonFormatter(_Formatter):
    """Formats each record as a JSON object on one line: `timestamp`, `level`, `logger`, `message`,
    the context fields, and `error`.

    The line is ASCII, so that no text can break it::

        {"timestamp": "2026-03-01T09:30:00.000Z", "level": "WARNING", "logger": "ekiden.worker",
         "message": "…", "session_id": "ses_01…", "correlation_id": "…", "agent": "triage"}
    """

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line, without a line break."""
        line: dict[str, Any] = {
            "timestamp": _timestamp(record),
            "level": record.levelname,
            "logger": record.name,
            "message": self._message(record),
        }
        stack = self._stack(record)
        for name, value in self._fields(record).items():
            line.setdefault(name, value)
        if stack:
            exc = record.exc_info[1] if record.exc_info else None
            line["error"] = {"stack": stack}
            if exc is not None:
                line["error"] = {
                    "type": type(exc).__name__,
                    "message": self._redact(_described(exc), _MAX_FIELD),
                    "stack": stack,
                }
        return json.dumps(line, ensure_ascii=True, allow_nan=False)


class TextFormatter(_Formatter):
    """Formats each record as one line for people. A stack trace follows on indented lines.

    ::

        2026-03-01T09:30:00.000Z WARNING ekiden.worker: … [session_id=ses_01… agent=triage]
    """

    def format(self, record: logging.LogRecord) -> str:
        """The record as text, without a final line break."""
        fields = " ".join(f"{name}={value}" for name, value in self._fields(record).items())
        line = f"{_timestamp(record)} {record.levelname} {record.name}: {self._message(record)}"
        shown = _NOT_SHOWN.sub(_escaped, f"{line} [{fields}]" if fields else line)
        stack = _NOT_IN_STACK.sub(_escaped, self._stack(record))
        if stack:
            shown = "\n    ".join([shown, *stack.split("\n")])
        return shown.encode("utf-8", "backslashreplace").decode()


def setup_logging(
    format: LogFormat = "text",
    level: str | int = "INFO",
    *,
    others: str | int = "WARNING",
    stream: TextIO | None = None,
    environ: Mapping[str, str] | None = None,
) -> logging.Handler:
    """Write the log of this process to `stream`, by default standard error. A second call replaces
    the first setup.

    `level` is the level of the logger ``ekiden``; `others` is the level of all other loggers. Other
    handlers of the root logger are kept. For an unknown format or level, this function raises
    `UserError` and changes nothing. For example::

        setup_logging("json", level="INFO")
    """
    if format not in get_args(LogFormat):
        known = get_args(LogFormat)
        raise UserError(
            f"there is no log format {str(format)[:80]!r}, known: {', '.join(known)}"
            f"{suggestion(str(format), known)}"
        )
    own, rest = level_number(level), level_number(others)
    redaction = Redaction(environ)
    handler = _Handler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonFormatter(redaction) if format == "json" else TextFormatter(redaction))
    handler.addFilter(ContextFilter())
    root = logging.getLogger()
    for each in [each for each in root.handlers if isinstance(each, _Handler)]:
        root.removeHandler(each)
    root.addHandler(handler)
    root.setLevel(rest)
    logging.getLogger("ekiden").setLevel(own)
    return handler


def level_number(level: str | int) -> int:
    """Return the number of a level, given by its number or by its name in any case. Raises
    `UserError` for an unknown level."""
    if isinstance(level, int) and not isinstance(level, bool):
        return level
    number = logging.getLevelName(str(level).strip().upper())
    if str(level).strip().upper() in LEVELS and isinstance(number, int):
        return number
    raise UserError(
        f"there is no log level {str(level)[:80]!r}, known: {', '.join(LEVELS).lower()}"
        f"{suggestion(str(level), [name.lower() for name in LEVELS])}"
    )


class _Handler(logging.StreamHandler[TextIO]):
    """The handler of `setup_logging`, which a second call replaces."""


def _timestamp(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _described(value: object) -> str:
    try:
        return str(value)
    except Exception:
        return f"({type(value).__name__}, which cannot be shown)"


def _escaped(found: re.Match[str]) -> str:
    code = ord(found.group())
    known = {0x0A: "\\n", 0x0D: "\\r"}
    return known.get(code) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
