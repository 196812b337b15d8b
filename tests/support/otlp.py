"""An OTLP/HTTP collector on loopback that keeps what it gets, to test real exporters."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan

from ekiden.testing.servers.loopback import HttpReply, HttpRequest, LoopbackServer

_PATH = "/v1/traces"
_PROTOBUF = "application/x-protobuf"
_PATIENCE_S = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedLink:
    """A link to another span."""

    trace_id: str
    span_id: str
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedSpan:
    """A span as it came over the wire; ids in hexadecimal digits, times in nanoseconds."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    kind: str
    """Such as ``CLIENT``."""
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Any]
    links: tuple[ReceivedLink, ...]
    status: str
    """``UNSET``, ``OK`` or ``ERROR``."""
    message: str
    """What the status says."""
    resource: Mapping[str, Any]
    scope: str


class OtlpServer(LoopbackServer):
    """A collector: it takes spans, or answers with the statuses that it is told to.

    For example::

        async with OtlpServer() as collector:
            collector.answer_next(503, 200)
            await asyncio.to_thread(export_otlp, spans, endpoint=collector.endpoint)
            print([span.name for span in collector.spans])
    """

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[HttpRequest] = []
        """All spans, also of requests that were not answered with 200."""
        self.spans: list[ReceivedSpan] = []
        """Those of requests that were answered with 200, in their order."""
        self.default_status = 200
        self._answers: deque[tuple[int, Mapping[str, str]]] = deque()
        self._changed = asyncio.Condition()

    @property
    def endpoint(self) -> str:
        """Where spans are sent to."""
        return self.origin + _PATH

    def answer_next(self, *statuses: int, retry_after_s: int | None = None) -> None:
        """Answer the next requests with these statuses; those after them with the default."""
        headers = {} if retry_after_s is None else {"retry-after": str(retry_after_s)}
        self._answers.extend((status, headers) for status in statuses)

    def clear_answers(self) -> None:
        """Answer everything with the default again."""
        self._answers.clear()

    async def wait_for_spans(self, count: int) -> None:
        """Until so many came in; `TimeoutError` as `wait_until`."""
        await self.wait_until(lambda: len(self.spans) >= count)

    async def wait_for_requests(self, count: int) -> None:
        """Until so many came in; `TimeoutError` as `wait_until`."""
        await self.wait_until(lambda: len(self.requests) >= count)

    async def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait until the condition holds at a request; `TimeoutError` after a while."""
        async with asyncio.timeout(_PATIENCE_S), self._changed:
            await self._changed.wait_for(is_so)

    def named(self, name: str) -> ReceivedSpan:
        """The one span of this name; `AssertionError` if there is none, or several."""
        found = [span for span in self.spans if span.name == name]
        assert len(found) == 1, f"{len(found)} spans are called {name!r}: {self.names}"
        return found[0]

    @property
    def names(self) -> list[str]:
        """The names of all spans."""
        return [span.name for span in self.spans]

    async def handle(self, request: HttpRequest, reply: HttpReply) -> None:
        """Take one batch, or refuse a request that is none."""
        try:
            batch = _batch(request)
        except AssertionError as exc:
            await reply.text(str(exc), status=400)
            return
        default: tuple[int, Mapping[str, str]] = (self.default_status, {})
        status, headers = self._answers.popleft() if self._answers else default
        async with self._changed:
            self.requests.append(request)
            if status == 200:
                self.spans.extend(_spans(batch))
            self._changed.notify_all()
        answer = ExportTraceServiceResponse().SerializeToString().decode("ascii")
        await reply.text(answer, status=status, headers={**headers, "content-type": _PROTOBUF})


def _batch(request: HttpRequest) -> ExportTraceServiceRequest:
    assert request.method == "POST", request.method
    assert request.path == _PATH, request.path
    assert request.headers["content-type"] == _PROTOBUF, request.headers["content-type"]
    batch: ExportTraceServiceRequest = ExportTraceServiceRequest.FromString(_plain(request))
    return batch


def _plain(request: HttpRequest) -> bytes:
    encoding = request.headers.get("content-encoding", "identity")
    if encoding == "gzip":
        return gzip.decompress(request.body)
    if encoding == "deflate":
        return zlib.decompress(request.body)
    assert encoding == "identity", encoding
    return request.body


def _spans(batch: ExportTraceServiceRequest) -> Iterator[ReceivedSpan]:
    for of_resource in batch.resource_spans:
        resource = _attributes(of_resource.resource.attributes)
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                yield _received(span, resource, of_scope.scope.name)


def _received(span: WireSpan, resource: Mapping[str, Any], scope: str) -> ReceivedSpan:
    return ReceivedSpan(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex() or None,
        name=span.name,
        kind=WireSpan.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        attributes=_attributes(span.attributes),
        links=tuple(
            ReceivedLink(
                trace_id=link.trace_id.hex(),
                span_id=link.span_id.hex(),
                attributes=_attributes(link.attributes),
            )
            for link in span.links
        ),
        status=("UNSET", "OK", "ERROR")[span.status.code],
        message=span.status.message,
        resource=resource,
        scope=scope,
    )


def _attributes(pairs: Iterator[KeyValue] | Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    if kind == "kvlist_value":
        return _attributes(value.kvlist_value.values)
    return getattr(value, kind)
