"""Traces of a store's sessions, costs of model calls with the settings' prices, live events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from ekiden.api import traces as api
from ekiden.api.local.context import LocalPart, moment_of
from ekiden.api.methods.called import AsyncStream
from ekiden.api.methods.values import Moment, Page, Pages, page_of
from ekiden.api.traces import Live, LiveEvent, Position
from ekiden.core.conversation.model import Usage
from ekiden.core.errors import EkidenError, UserError
from ekiden.core.errors.server import RequestInvalid
from ekiden.core.events import EventType
from ekiden.core.values import dumps
from ekiden.hub import EventHub, HubEvent, Subscription
from ekiden.inbox import NEW_ITEM, Inbox, new_item_notice
from ekiden.project.run_tasks import prices_of
from ekiden.project.settings import Settings
from ekiden.sessions.costs import (
    CostBook,
    CostKey,
    CostLine,
    CostReport,
    call_pages,
    cost_of_call,
    events_with_asked,
)
from ekiden.storage.base import Store
from ekiden.tracing import (
    CostOf,
    SpanKind,
    Trace,
    export_jsonl,
    export_openai,
    for_export,
    read_trace,
    trace_events,
)


class LocalTraces(LocalPart, api.TracesApi):
    """`TracesApi` on a store in this process."""

    async def get(
        self,
        session_id: str,
        *,
        children: bool = True,
        content: bool = False,
        errors: bool = False,
    ) -> api.SessionTrace:
        found = await self._trace(session_id, children=children)
        return await asyncio.to_thread(_shown, found, content=content, errors=errors)

    def export(
        self, session_id: str, *, children: bool = True, content: bool = False
    ) -> AsyncStream[str]:
        async def lines() -> AsyncGenerator[str, None]:
            found = await self._trace(session_id, children=children)
            async for line in _yielding(export_jsonl(found, include_content=content)):
                yield line

        return AsyncStream(lines())

    def events(
        self, session_id: str, *, children: bool = True, content: bool = False
    ) -> AsyncStream[str]:
        async def lines() -> AsyncGenerator[str, None]:
            found = await trace_events(
                self._store, session_id, children=children, include_content=content
            )
            async for line in _yielding(map(dumps, found)):
                yield line

        return AsyncStream(lines())

    async def openai(
        self, session_id: str, *, children: bool = True, content: bool = False
    ) -> api.OpenAITrace:
        found = await self._trace(session_id, children=children)
        data = await asyncio.to_thread(export_openai, found, include_content=content)
        return api.OpenAITrace(data=data)

    def spans(
        self,
        session_id: str,
        *,
        kinds: Sequence[SpanKind] = (),
        errors: bool = False,
        children: bool = True,
        content: bool = False,
    ) -> Pages[api.TraceSpan]:
        async def fetch(limit: int, cursor: str | None) -> Page[api.TraceSpan]:
            found = await self._trace(session_id, children=children)
            shown = await asyncio.to_thread(_shown, found, content=content)
            failed: Collection[str] = shown.errors if errors else ()
            spans = [
                each
                for each in shown.spans
                if (not kinds or each.kind in kinds) and (not errors or each.span_id in failed)
            ]
            page = page_of(spans, limit=limit, cursor=cursor, key=lambda each: each.span_id)
            if page is None:
                raise UserError(f"{cursor!r:.40} is not a cursor: pass the `next_cursor` of a page")
            return page

        return Pages(fetch)

    async def _trace(self, session_id: str, *, children: bool) -> Trace:
        cost = cost_function(self._context.settings)
        return await read_trace(self._store, session_id, children=children, cost=cost)


def cost_function(settings: Settings) -> CostOf:
    """Return a function that computes the cost of a model call with the prices of the settings or
    of the price list."""
    prices = prices_of(settings)

    def cost(model: str, usage: Usage, at_us: int) -> float | None:
        return cost_of_call(model, usage, prices, at_us=at_us)

    return cost


def _shown(trace: Trace, *, content: bool, errors: bool = False) -> api.SessionTrace:
    """The trace for callers, with keys and tokens masked."""
    spans = for_export(trace.spans, include_content=content, include_errors=errors)
    shown = replace(trace, spans=spans).to_json()
    shown["spans"] = [api.TraceSpan(**each) for each in shown["spans"]]
    return api.SessionTrace(**shown)


async def _yielding(lines: Iterable[str]) -> AsyncGenerator[str, None]:
    for number, line in enumerate(lines):
        if number % 100 == 99:
            await asyncio.sleep(0)  # Nothing else here waits, so other tasks would not run.
        yield line


_DEFAULT_GROUPS: tuple[CostKey, ...] = ("agent", "model")


class LocalCosts(LocalPart, api.CostsApi):
    """`CostsApi` on a store in this process."""

    async def get(
        self,
        *,
        session: str | None = None,
        since: Moment | None = None,
        by: Sequence[CostKey] = (),
    ) -> api.CostSummary:
        if len(set(by)) < len(by):
            raise RequestInvalid("by: a group is listed twice")
        report = await _costs(
            self._store,
            self._context.settings,
            session_id=session,
            since=moment_of(since, what="since"),
            by=tuple(by) or _DEFAULT_GROUPS,
        )
        return summary_of(report)


def summary_of(report: CostReport) -> api.CostSummary:
    """Convert a cost report to the value of the interface."""
    return api.CostSummary(
        by=report.by,
        lines=[_entry(line) for line in report.lines],
        total=_entry(report.total),
        unpriced_models=report.unpriced_models,
    )


def _entry(line: CostLine) -> api.CostEntry:
    usage, cost = line.usage, line.cost
    return api.CostEntry(
        **line.key,
        requests=usage.requests,
        input_tokens=usage.input_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        tokens=usage.tokens,
        cost=None if cost is None else round(cost, 9),
        unpriced_requests=line.unpriced,
    )


class LocalEvents(LocalPart, api.EventsApi):
    """`EventsApi` on a store in this process. While the store is unreachable, subscriptions
    wait."""

    def subscribe(
        self,
        *,
        sessions: Sequence[str] | None = None,
        agents: Sequence[str] | None = None,
        types: Sequence[EventType] | None = None,
        inbox: bool = False,
        after: str | None = None,
        follow: bool = True,
    ) -> AsyncStream[Live]:
        where = Subscription(sessions=sessions, agents=agents, types=types, inbox=inbox)
        return AsyncStream(self._stream(where, after, follow=follow))

    async def _stream(
        self, where: Subscription, after: str | None, *, follow: bool
    ) -> AsyncGenerator[Live, None]:
        inbox = Inbox(self._store, settings=self._context.settings.inbox)
        hub = EventHub(self._store, on_outage=self._context.on_outage)
        async with hub, hub.subscribe(after=after, where=where, follow=follow) as stream:
            yield Position(after=stream.position or "")
            async for found in stream:
                yield await live_event(found, inbox)
            if not follow:
                yield Position(after=stream.position or "")


async def live_event(found: HubEvent, inbox: Inbox) -> LiveEvent:
    """Convert an event to the form that subscribers receive. The event of a new inbox item includes
    the item."""
    event = found.event
    details = event.details or {}
    # The session records that it took the answer. The inbox has published its own event before.
    takes_answer = "status" in details and "change" not in details
    if event.type != "inbox" or takes_answer:
        return LiveEvent(id=found.id, type="event", event=event, data=event.to_json())
    change = details.get("change") or "posted"
    if change != "posted":
        return LiveEvent(id=found.id, type=f"inbox.{change}", event=event, data=dict(details))
    data: Mapping[str, Any] = dict(details)
    if "item" in details:
        with suppress(EkidenError):  # The item was removed, or the store is unreachable now.
            data = new_item_notice(await inbox.get(str(details["item"])))
    return LiveEvent(id=found.id, type=NEW_ITEM, event=event, data=data)


async def _costs(
    store: Store,
    settings: Settings,
    *,
    session_id: str | None,
    since: datetime | None,
    by: Sequence[CostKey],
) -> CostReport:
    """Return the usage and cost of the model calls of all sessions, or of one session and the
    sessions that answered its queries. Raises `SessionNotFound`."""
    since_us = None if since is None else int(since.timestamp() * 1e6)
    book = CostBook(prices_of(settings), by=by)
    if session_id is not None:
        events = await events_with_asked(store, session_id)
        book.add(event for event in events if since_us is None or event.at_us >= since_us)
        return book.report()
    async for page in call_pages(store, since_us=since_us):
        book.add(event for event in page if since_us is None or event.at_us >= since_us)
        await asyncio.sleep(0)  # A memory store never waits, so other tasks would not run.
    return book.report()
