"""Sends batches of spans with OpenTelemetry's exporter, and finds out why a batch failed.

The exporter retries within its timeout and returns only success or failure. The HTTP status, which
is read from the exporter's HTTP session, shows whether a batch may be accepted later.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ekiden.core.errors import UserError
from ekiden.tracing.redaction import masked

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

_REFUSED: Final = frozenset({400, 413, 422})
"""Statuses of invalid batches, which are never accepted."""
_CREDENTIALS = (
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER",
    "OTEL_PYTHON_EXPORTER_OTLP_HTTP_TRACES_CREDENTIAL_PROVIDER",
)
_TRACES_PATH = "/v1/traces"
_EXPORTER_LOGS = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.common.http",
)
_LONGEST_WAIT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The result of sending a batch."""

    sent: int = 0
    refused: int = 0
    """The number of spans that the collector will never accept."""
    problem: str | None = None
    """The reason why the other spans were not accepted now. The collector may accept them later."""
    retry_after_s: float | None = None
    """The delay that the collector asks for."""


class OtlpSender:
    """A connection to a collector. `send` and `close` may be called in different threads."""

    def __init__(self, *, endpoint: str | None = None) -> None:
        """The default endpoint comes from the environment. Raises `UserError` without the extra
        ``otel``."""
        need_otel()
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        self._last = _LastAnswer()
        session = None
        self._last.is_heard = not any(os.environ.get(name) for name in _CREDENTIALS)
        if self._last.is_heard:
            session = self._last.session()
        self._exporter: SpanExporter = OTLPSpanExporter(
            endpoint=traces_endpoint(endpoint), session=session
        )
        self._closed = threading.Event()

    def send(self, spans: Sequence[ReadableSpan]) -> Sent:
        """Send a batch. The call blocks until the batch is sent. A refused batch is sent again in
        halves, so that one invalid span does not block the other spans."""
        if not spans:
            return Sent()
        from opentelemetry.sdk.trace.export import SpanExportResult

        self._last.forget()
        with _quiet():
            is_taken = self._exporter.export(spans) is SpanExportResult.SUCCESS
        status = self._last.status
        if is_taken and (status is None or status < 300):
            return Sent(sent=len(spans))
        is_at_fault = status in _REFUSED or not self._last.is_asked
        if not is_at_fault or self._closed.is_set():
            return Sent(problem=self._last.problem(), retry_after_s=self._last.retry_after_s)
        if len(spans) == 1:
            return Sent(refused=1)
        middle = len(spans) // 2
        first = self.send(spans[:middle])
        if first.problem is not None:
            return first
        rest = self.send(spans[middle:])
        return Sent(
            sent=first.sent + rest.sent,
            refused=first.refused + rest.refused,
            problem=rest.problem,
            retry_after_s=rest.retry_after_s,
        )

    def close(self) -> None:
        """Close the connection. A running `send` returns soon. A second call does nothing."""
        if not self._closed.is_set():
            self._closed.set()
            self._exporter.shutdown()


class _LastAnswer:
    """The last response of the collector."""

    def __init__(self) -> None:
        self.is_heard = True
        """Whether responses can be observed; not with a session of the environment."""
        self.forget()

    def forget(self) -> None:
        """Reset, before a new request."""
        self.is_asked = not self.is_heard
        """Whether a request was sent; the exporter does not send spans that it cannot encode."""
        self.status: int | None = None
        self.retry_after_s: float | None = None

    def session(self) -> Any:
        """A session of `requests` that reports its responses here."""
        import requests

        heard = self

        class Observed(requests.Session):
            def request(self, *args: Any, **named: Any) -> Any:
                heard.is_asked = True
                return super().request(*args, **named)

        session = Observed()
        session.hooks["response"].append(self._hear)
        return session

    def _hear(self, response: Any, *_: Any, **__: Any) -> None:
        self.status = response.status_code
        with suppress(ValueError):
            seconds = float(response.headers.get("retry-after", ""))
            self.retry_after_s = min(max(seconds, 0.0), _LONGEST_WAIT_S)

    def problem(self) -> str:
        if not self.is_heard:
            return "the collector cannot be reached, or refuses"
        if self.status is None:
            return "the collector cannot be reached"
        if self.status in (401, 403):
            return (
                f"the collector refuses the credentials ({self.status}): see "
                "OTEL_EXPORTER_OTLP_HEADERS"
            )
        return f"the collector answered {self.status}"


def traces_endpoint(endpoint: str | None) -> str | None:
    """Return the address for traces. An address without a path gets the standard path. Raises
    `UserError` for an invalid address."""
    if endpoint is None:
        return None
    shown = masked(endpoint, 200)
    try:
        parts = urlsplit(endpoint)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        raise UserError(f"{shown!r} is not the address of a collector") from None
    if parts.scheme not in ("http", "https") or not has_host:
        raise UserError(
            f"{shown!r} is not the address of a collector: use one such as http://127.0.0.1:4318"
        )
    if parts.path in ("", "/"):
        return parts._replace(path=_TRACES_PATH).geturl()
    return endpoint


def need_otel() -> None:
    """Raise `UserError` without the extra ``otel``."""
    try:
        import opentelemetry.exporter.otlp.proto.http.trace_exporter
        import opentelemetry.sdk.trace  # noqa: F401
        import requests  # noqa: F401
    except ImportError as exc:
        raise UserError(
            "the export to OpenTelemetry needs its SDK: pip install 'ekiden[otel]'"
        ) from exc


class _Quiet(logging.Filter):
    """Drops the exporter's log lines about single attempts in the thread of a `send`, because the
    sender reports an outage once. Other exporters of the program keep their log lines."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not getattr(_here, "is_quiet", False)


_here = threading.local()


@contextmanager
def _quiet() -> Iterator[None]:
    for name in _EXPORTER_LOGS:
        logger = logging.getLogger(name)
        if not any(isinstance(each, _Quiet) for each in logger.filters):
            logger.addFilter(_Quiet())
    _here.is_quiet = True
    try:
        yield
    finally:
        _here.is_quiet = False
