"""Sends Ekiden's spans as OpenTelemetry spans, with the standard OTLP/HTTP exporter.

Ids and times come from Ekiden, so a trace that is sent several times always has the same ids. The
exporter and the SDK are configured by the environment: ``OTEL_EXPORTER_OTLP_ENDPOINT``,
``…_HEADERS``, ``…_COMPRESSION``, ``…_TIMEOUT``, ``OTEL_SERVICE_NAME``,
``OTEL_RESOURCE_ATTRIBUTES``, ``OTEL_TRACES_SAMPLER``, the limits of attributes, and
``OTEL_SDK_DISABLED``.

A span is sent when it has ended. A session never ends, so its span is not sent. Instead, the runs
of the session are at the top of the trace, or below the question that created the session. A
handoff ends when its target has taken over. It then has a link to the target's ``invoke_agent``
span, which may be sent days later.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ekiden import __version__
from ekiden.core.errors import UserError
from ekiden.tracing.exports import masked
from ekiden.tracing.otel_conventions import describe_span
from ekiden.tracing.processors import RunTrace, TracingProcessor, add_trace_processor
from ekiden.tracing.spans import Span, SpanKind, session_span_id

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import SpanContext


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


CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
SCOPE: Final = "ekiden"
BATCH: Final = 512
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_YES = frozenset({"true", "1", "span_only", "span_and_event"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpReport:
    """The result of an export."""

    sent: int = 0
    """The number of spans that the collector accepted."""
    open: int = 0
    """The number of spans that have not ended, and are not sent."""
    refused: int = 0
    """The number of spans that the collector will never accept."""
    problem: str | None = None
    """The reason why the export stopped early. `None` if every span was sent, was refused or is
    still open."""
    is_disabled: bool = False
    """Whether ``OTEL_SDK_DISABLED`` disables the export."""


def export_otlp(
    spans: Iterable[Span], endpoint: str | None = None, *, content: bool | None = None
) -> OtlpReport:
    """Send all finished spans to an OpenTelemetry collector. The call blocks until the spans are
    sent.

    `endpoint` is the address of a collector, such as ``http://127.0.0.1:4318``, or of its traces,
    ``…/v1/traces``. The default is in the environment variables of OpenTelemetry. If `content` is
    true, messages are included, with keys and tokens masked. The default of `content` is in the
    environment variable that `CAPTURE` names. You can send the same spans again, because they keep
    their ids. Raises `UserError` without the extra ``otel``, and for an invalid address. Failures
    of the collector are not raised; the returned report contains them::

        trace = await read_trace(store, "customer-42")
        report = await asyncio.to_thread(export_otlp, trace.spans)
    """
    given = list(spans)
    is_open = sum(span.ended_at_us is None for span in given if span.kind != "session")
    if is_disabled():
        return OtlpReport(open=is_open, is_disabled=True)
    sender = OtlpSender(endpoint=endpoint)
    sent = refused = 0
    try:
        for batch in batches(OtelSpans(content=content).readable(given, tops=tops_of(given))):
            result = sender.send(batch)
            sent, refused = sent + result.sent, refused + result.refused
            if result.problem is not None:
                return OtlpReport(sent=sent, open=is_open, refused=refused, problem=result.problem)
    finally:
        sender.close()
    return OtlpReport(sent=sent, open=is_open, refused=refused)


class OtelSpans:
    """Converts Ekiden's spans to OpenTelemetry spans, with the resource and the limits of this
    process."""

    def __init__(
        self, *, content: bool | None = None, attributes: Mapping[str, str] | None = None
    ) -> None:
        """`attributes` are added to every span. Raises `UserError` without the extra ``otel``."""
        need_otel()
        from opentelemetry.sdk.trace import SpanLimits, TracerProvider
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self.content = captures_content() if content is None else content
        self._attributes = dict(attributes or {})
        self._resource = _resource()
        self._limits = SpanLimits()
        # Created only because it reads the sampler from the environment.
        provider = TracerProvider(resource=self._resource, shutdown_on_exit=False)
        self._sampler = provider.sampler
        self._scope = InstrumentationScope(SCOPE, __version__)

    def readable(
        self, spans: Iterable[Span], *, tops: Mapping[str, str | None]
    ) -> list[ReadableSpan]:
        """Convert the spans that have ended and are sampled.

        `tops` has the parents of sessions, by the ids of the sessions' spans.
        """
        return [
            self._span(span, tops)
            for span in spans
            if span.kind != "session" and span.ended_at_us is not None and self._is_sampled(span)
        ]

    def _is_sampled(self, span: Span) -> bool:
        from opentelemetry.sdk.trace.sampling import Decision

        decision = self._sampler.should_sample(None, int(span.trace_id, 16), span.kind).decision
        return decision is Decision.RECORD_AND_SAMPLE

    def _span(self, span: Span, tops: Mapping[str, str | None]) -> ReadableSpan:
        from opentelemetry.attributes import BoundedAttributes
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import Link, SpanKind as OtelKind, Status, StatusCode

        described = describe_span(span, content=self.content)
        parent_id = span.parent_id
        if parent_id in tops or parent_id == session_span_id(span.session_id):
            parent_id = tops.get(parent_id or "")
        status = Status()
        if described.error_type is not None:
            status = Status(StatusCode.ERROR, described.error or described.error_type)
        # The link of a question is to a session's span, which is not sent; its runs are children of
        # the question's span instead.
        links = () if span.kind == "message" else span.links
        relation = {"ekiden.link": _RELATIONS.get(span.kind, "related")}
        return ReadableSpan(
            name=described.name,
            context=_context(span.trace_id, span.span_id),
            parent=None if parent_id is None else _context(span.trace_id, parent_id),
            resource=self._resource,
            attributes=BoundedAttributes(
                self._limits.max_span_attributes,
                {**described.attributes, **self._attributes},
                max_value_len=self._limits.max_span_attribute_length,
            ),
            links=tuple(Link(_context(span.trace_id, each), relation) for each in links),
            kind=OtelKind.CLIENT if described.is_client else OtelKind.INTERNAL,
            status=status,
            start_time=span.started_at_us * 1000,
            end_time=(span.ended_at_us or span.started_at_us) * 1000,
            instrumentation_scope=self._scope,
        )


def tops_of(spans: Iterable[Span]) -> dict[str, str | None]:
    """The parents of the sessions among the spans, by the ids of the sessions' spans."""
    return {span.span_id: span.parent_id for span in spans if span.kind == "session"}


def batches(spans: Sequence[ReadableSpan]) -> Iterator[Sequence[ReadableSpan]]:
    """The spans in batches of a size that collectors accept."""
    for start in range(0, len(spans), BATCH):
        yield spans[start : start + BATCH]


def captures_content() -> bool:
    """Whether the environment asks for message content in spans."""
    return os.environ.get(CAPTURE, "").strip().lower() in _YES


def is_wanted() -> bool:
    """Whether the environment names a collector for traces, and does not disable the export."""
    has_endpoint = any(os.environ.get(name, "").strip() for name in _ENDPOINTS)
    exporter = os.environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    return (has_endpoint or exporter == "otlp") and exporter != "none" and not is_disabled()


def is_disabled() -> bool:
    """Whether the environment disables the export."""
    return os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


_RELATIONS: Mapping[SpanKind, str] = {"handoff": "target", "agent": "handoff", "run": "resumes"}
"""The relation of a span's links, by the kind of the span."""


def _context(trace_id: str, span_id: str) -> SpanContext:
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=TraceFlags(1)
    )


def _resource() -> Resource:
    """The resource of the environment; the default service name is ``ekiden``."""
    from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource

    given = Resource.create()
    own = {SERVICE_VERSION: __version__} if SERVICE_VERSION not in given.attributes else {}
    if str(given.attributes.get(SERVICE_NAME, "unknown_service")).startswith("unknown_service"):
        own[SERVICE_NAME] = SCOPE
    return given.merge(Resource(own))


_MOST_SESSIONS: Final = 10_000


class OtelProcessor(TracingProcessor):
    """Sends the spans of this process to a collector.

    `add_otel_processor` adds this processor. A thread of the SDK sends the spans in batches, as
    ``OTEL_BSP_…`` configures. If the collector is unreachable for a long time, or the process is
    killed, spans are lost. `OtelFollower` loses no spans.
    """

    def __init__(self, endpoint: str | None = None, *, content: bool | None = None) -> None:
        """The arguments are as for `export_otlp`. Raises `UserError` without the extra ``otel``."""
        need_otel()
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        self._maker = OtelSpans(content=content)
        self._tops: dict[str, str | None] = {}
        """The parents of asked sessions, by the ids of the sessions' spans."""
        self._batches: SpanProcessor | None = None
        if not is_disabled():
            exporter = OTLPSpanExporter(endpoint=traces_endpoint(endpoint))
            self._batches = BatchSpanProcessor(exporter)

    def on_trace_start(self, trace: RunTrace) -> None:
        """Remember the parent of the session."""
        self._set_parent(trace.session_id, trace.parent_id)

    def on_span_start(self, span: Span) -> None:
        """Remember the parent of a session that a question creates."""
        for name in ("asks", "tells"):
            question = span.details.get(name)
            session = question.get("session") if isinstance(question, Mapping) else None
            if isinstance(session, str):
                self._set_parent(session, span.span_id)

    def on_span_end(self, span: Span) -> None:
        """Add the span to the next batch."""
        if self._batches is not None:
            for each in self._maker.readable([span], tops=self._tops):
                self._batches.on_end(each)

    def shutdown(self) -> None:
        """Send the remaining spans."""
        if self._batches is not None:
            self._batches.shutdown()

    def force_flush(self) -> None:
        """Send all ended spans, and block until they are sent."""
        if self._batches is not None:
            self._batches.force_flush()

    def _set_parent(self, session_id: str, parent_id: str | None) -> None:
        top = session_span_id(session_id)
        self._tops.pop(top, None)
        if len(self._tops) >= _MOST_SESSIONS:
            del self._tops[next(iter(self._tops))]
        self._tops[top] = parent_id


def add_otel_processor(
    endpoint: str | None = None, *, content: bool | None = None
) -> OtelProcessor:
    """Send the spans of all runs of this process to a collector. For a run in progress, this begins
    with the next step of the run.

    `endpoint` and `content` work as in `export_otlp`::

        add_otel_processor("http://127.0.0.1:4318")
    """
    wanted = captures_content() if content is None else content
    processor = OtelProcessor(endpoint, content=wanted)
    add_trace_processor(processor, include_content=wanted)
    return processor
