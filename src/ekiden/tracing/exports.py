"""Exports of traces: JSON lines of spans or events, and the format of the OpenAI Agents SDK.

Spans are redacted: keys and tokens are always masked, and content is removed by default.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from ekiden.core.events import PRIVATE, Event
from ekiden.core.privacy.masking import MASK
from ekiden.core.privacy.redaction import redact_json, redact_text
from ekiden.core.values import dumps, loads
from ekiden.storage.base import Store
from ekiden.tracing.lookup import Trace, TracedSession, traced_sessions
from ekiden.tracing.spans import NOTHING, Span, split_details

_MAX_READ = 100_000
"""The number of characters that are checked; the rest of a text is cut off."""
_LONGEST_SECRET = 8_000
_SHORT = 120
"""The results for texts up to this length are cached, because names and ids occur often."""
KEYS: Final = ("api_key",)
"""The kinds that are masked in every view and export: keys, tokens and private keys."""
LEFT_OUT: Final = "Error details are left out."
_ERROR_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,99}(?:Error|Exception|Exit|Interrupt|Timeout)")


def masked(text: str, most: int) -> str:
    """The text with masked keys and tokens, cut off after `most` characters."""
    if len(text) <= _SHORT:
        shown = _redacted_text(text, KEYS, MASK)
    else:
        shown = redact_text(text[:_MAX_READ], kinds=KEYS, mask=MASK)
    if len(text) > _MAX_READ:
        # The end may be half of a key, which is not recognized.
        most = max(min(most, len(shown) - _LONGEST_SECRET), 0)
    return shown if len(shown) <= most else f"{shown[:most]}… (of {len(text)} characters)"


@lru_cache(maxsize=4096)
def _redacted_text(text: str, kinds: tuple[str, ...], mask: str) -> str:
    return redact_text(text, kinds=kinds, mask=mask)


def for_export(
    spans: Iterable[Span],
    *,
    include_content: bool = False,
    include_errors: bool = False,
    kinds: Collection[str] = KEYS,
) -> list[Span]:
    """The spans for an export, without data that must not leave this process.

    Without `include_content`, prompts, answers, arguments, results and reasons are removed. An
    error is then reduced to its code or the name of the exception, unless `include_errors` is true.
    In the remaining text, sensitive data of these `kinds` is masked. See
    `ekiden.core.privacy.redaction`.
    """
    return [
        exported(span, include_content=include_content, include_errors=include_errors, kinds=kinds)
        for span in spans
    ]


def exported(
    span: Span,
    *,
    include_content: bool = False,
    include_errors: bool = False,
    kinds: Collection[str] = KEYS,
) -> Span:
    """Redact one span like `for_export`."""
    shown = span if include_content else without_content(span, keep_error=include_errors)
    return redacted(shown, kinds=kinds)


def without_content(span: Span, *, keep_error: bool = False) -> Span:
    """The span without content. Without `keep_error`, the error is reduced to its code or its class
    name."""
    if not span.content and span.error is None:
        return span
    error = span.error if keep_error else _error_name(span)
    return span.with_content(name=span.name, error=error, details=span.details, content=NOTHING)


def redacted(span: Span, *, kinds: Collection[str] = KEYS) -> Span:
    """The span with masked sensitive data. If there is nothing to mask, the same object is
    returned."""
    name = _redacted_name(span.name, tuple(kinds))
    error = None if span.error is None else redact_text(span.error, kinds=kinds)
    details = _redacted(span.details, kinds)
    content = _redacted(span.content, kinds)
    if (
        name == span.name
        and error == span.error
        and details is span.details
        and content is span.content
    ):
        return span
    return span.with_content(name=name, error=error, details=details, content=content)


def redacted_value(value: Any, *, kinds: Collection[str] = KEYS) -> Any:
    """A JSON value with masked sensitive data. If there is nothing to mask, the same object is
    returned."""
    text = dumps(value)
    redacted_text = redact_json(text, kinds=kinds)
    return value if redacted_text == text else loads(redacted_text)


@lru_cache(maxsize=4096)
def _redacted_name(name: str, kinds: tuple[str, ...]) -> str:
    return redact_text(name, kinds=kinds)


def _redacted(values: Mapping[str, Any], kinds: Collection[str]) -> Mapping[str, Any]:
    if not values:
        return values
    plain = dict(values)
    result: Mapping[str, Any] = redacted_value(plain, kinds=kinds)
    return values if result is plain else result


def _error_name(span: Span) -> str | None:
    if span.error is None:
        return None
    code = span.details.get("code")
    if isinstance(code, str) and code:
        return code
    found = _ERROR_NAME.match(span.error)
    return found.group() if found is not None else LEFT_OUT


def export_jsonl(
    trace: Trace, *, include_content: bool = False, kinds: Collection[str] = KEYS
) -> Iterator[str]:
    """Yield the spans in the order of the trace tree, each as one line of JSON without the line
    break.

    Message content is left out unless `include_content` is true::

        for line in export_jsonl(await read_trace(store, "customer-42")):
            print(line)
    """
    for node in trace.nodes():
        span = exported(node.span, include_content=include_content, kinds=kinds)
        yield dumps(span.to_json())


def export_openai(
    trace: Trace,
    *,
    include_content: bool = False,
    kinds: Collection[str] = KEYS,
    workflow_name: str = "ekiden",
    metadata: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Return the trace in the format of the OpenAI Agents SDK: a list with the trace first,
    followed by its spans.

    Spans without a counterpart in that SDK, such as sessions, runs, routing and questions to
    people, have the type ``custom``. Message content is left out unless `include_content` is true::

        trace = await read_trace(store, "customer-42")
        print(export_openai(trace, workflow_name="desk"))
    """
    first = trace.root.span
    found: list[dict[str, Any]] = [
        openai_trace(
            first.trace_id, workflow_name, group_id=first.correlation_id, metadata=metadata
        )
    ]
    ids = {span.span_id for span in trace.spans}
    for node in trace.nodes():
        span = exported(node.span, include_content=include_content, kinds=kinds)
        data = openai_span(span)
        if span.parent_id not in ids:
            data["parent_id"] = None
        found.append(data)
    return found


def openai_trace(
    trace_id: str,
    workflow_name: str,
    *,
    group_id: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A trace in the format of the OpenAI Agents SDK."""
    return {
        "object": "trace",
        "id": f"trace_{trace_id}",
        "workflow_name": workflow_name,
        "group_id": group_id,
        "metadata": None if metadata is None else dict(metadata),
    }


def openai_span(span: Span) -> dict[str, Any]:
    """A span in the format of the OpenAI Agents SDK. This function does not redact the span."""
    return {
        "object": "trace.span",
        "id": f"span_{span.span_id}",
        "trace_id": f"trace_{span.trace_id}",
        "parent_id": None if span.parent_id is None else f"span_{span.parent_id}",
        "started_at": iso_time(span.started_at_us),
        "ended_at": None if span.ended_at_us is None else iso_time(span.ended_at_us),
        "span_data": openai_span_data(span),
        "error": openai_error(span),
    }


def openai_span_data(span: Span) -> dict[str, Any]:
    """The `span_data` of a span in the format of the OpenAI Agents SDK."""
    details, content = span.details, span.content
    match span.kind:
        case "agent":
            return {
                "type": "agent",
                "name": span.name,
                "handoffs": None,
                "tools": None,
                "output_type": None,
            }
        case "llm_call":
            return {
                "type": "generation",
                "input": content.get("input"),
                "output": content.get("output"),
                "model": details.get("model"),
                "model_config": None,
                "usage": span.tokens.to_json() or None,
            }
        case "tool_call":
            return {
                "type": "function",
                "name": span.name,
                "input": content.get("arguments"),
                "output": content.get("result"),
                "mcp_data": None,
            }
        case "handoff":
            return {
                "type": "handoff",
                "from_agent": details.get("from"),
                "to_agent": details.get("to"),
            }
        case "guardrail":
            failed = details.get("result") == "failed"
            return {"type": "guardrail", "name": span.name, "triggered": failed}
    data = {"kind": span.kind, "status": span.status, **details, **content}
    name = span.name if span.kind == "run" else f"{span.kind} {span.name}"
    return {"type": "custom", "name": name, "data": data}


def openai_error(span: Span) -> dict[str, Any] | None:
    """The `error` of a span in the format of the OpenAI Agents SDK; `None` without an error."""
    if span.status != "error":
        return None
    code = span.details.get("code")
    return {
        "message": span.error or str(code or span.details.get("result") or "error"),
        "data": {"code": code} if code is not None else None,
    }


def iso_time(at_us: int) -> str:
    """A time as ISO 8601 in UTC, with microseconds."""
    return datetime.fromtimestamp(at_us / 1e6, UTC).isoformat(timespec="microseconds")


async def trace_events(
    store: Store,
    session_id: str,
    *,
    children: bool = True,
    include_content: bool = False,
    kinds: Collection[str] = KEYS,
) -> list[dict[str, Any]]:
    """Return the events of a session and of the sessions that answered its questions, each with its
    position in the trace.

    The format is the same as in `Event.to_json`, plus `correlation_id`, `trace_id`, `span_id` and
    `parent_id`. Without `include_content`, items are left out, and `details` contains no message
    content. The content of runs with `trace_include_sensitive_data=False` is never included. Raises
    `SessionNotFound`::

        for event in await trace_events(store, "customer-42"):
            print(event["span_id"], event["event_type"])
    """
    found: list[dict[str, Any]] = []
    async for session in traced_sessions(store, session_id, children=children):
        found += _session_events(session, include_content, kinds)
    return found


def _session_events(
    session: TracedSession, include_content: bool, kinds: Collection[str]
) -> Iterator[dict[str, Any]]:
    builder = session.built()
    for event in session.events:
        part = builder.span_of(event.seq)
        is_shown = include_content and not (part.run is not None and part.run.is_private)
        yield _event_json(event, builder.span(part), is_shown, kinds)


def _event_json(event: Event, span: Span, is_shown: bool, kinds: Collection[str]) -> dict[str, Any]:
    data = event.to_json()
    data["correlation_id"] = span.correlation_id
    data["trace_id"] = span.trace_id
    data["span_id"] = span.span_id
    data["parent_id"] = span.parent_id
    if not is_shown:
        data.pop("items", None)
        details = split_details(event.details or {})[0]
        data.pop("details", None)
        if details:
            data["details"] = details
        if event.error is not None:
            data["error"] = without_content(_with_error(span, event)).error
    elif "details" in data:
        data["details"] = {key: data["details"][key] for key in data["details"] if key != PRIVATE}
    return dict(redacted_value(data, kinds=kinds))


def _with_error(span: Span, event: Event) -> Span:
    from dataclasses import replace

    code = (event.details or {}).get("code")
    return replace(span, error=event.error, details={} if code is None else {"code": code})
