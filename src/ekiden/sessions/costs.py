"""Usage and cost of model calls, computed from events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ekiden.core.conversation.model import Usage
from ekiden.core.errors import UserError
from ekiden.core.events import Event
from ekiden.sessions.conversation import find_row, is_copied, is_model_call
from ekiden.storage.base import EventFilter, SessionRow, Store

if TYPE_CHECKING:
    from ekiden.models.prices import PriceOf

CostKey: TypeAlias = Literal["agent", "model", "session", "day"]
"""The keys by which calls can be grouped. Days are in UTC."""

UNKNOWN_MODEL = "?"
_KEYS: tuple[CostKey, ...] = ("agent", "model", "session", "day")
_MOST_SESSIONS = 10_000
_PAGE = 1000


@dataclass(slots=True, kw_only=True)
class CostLine:
    """Usage and cost of a group of calls."""

    key: Mapping[str, str]
    """Identifies the group: a value for each key, for example the name of the agent."""
    usage: Usage = field(default_factory=Usage)
    """The usage of all calls of the group. Its `cost` includes only calls with a known price."""
    unpriced: int = 0
    """The number of calls with an unknown price."""

    @property
    def cost(self) -> float | None:
        """The cost of the group; `None` if the prices of all calls are unknown."""
        is_unknown = self.unpriced and self.unpriced == self.usage.requests
        return None if is_unknown else self.usage.cost

    def to_json(self) -> dict[str, Any]:
        """The object as JSON."""
        cost = self.cost
        usage = self.usage
        return {
            **self.key,
            "requests": usage.requests,
            "input_tokens": usage.input_tokens,
            "cached_tokens": usage.cached_tokens,
            "output_tokens": usage.output_tokens,
            "reasoning_tokens": usage.reasoning_tokens,
            "tokens": usage.tokens,
            "cost": None if cost is None else round(cost, 9),
            "unpriced_requests": self.unpriced,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """The usage and cost of model calls, by group and in total."""

    by: tuple[CostKey, ...]
    lines: Sequence[CostLine]
    """The usage and cost of each group, most expensive first."""
    total: CostLine
    unpriced_models: Sequence[str]
    """Models whose price is unknown. Their calls are not included in the cost."""

    def to_json(self) -> dict[str, Any]:
        """The object as JSON."""
        return {
            "by": list(self.by),
            "lines": [line.to_json() for line in self.lines],
            "total": self.total.to_json(),
            "unpriced_models": list(self.unpriced_models),
        }


def cost_report(
    events: Iterable[Event],
    prices: Mapping[str, PriceOf] | None = None,
    *,
    by: Sequence[CostKey] = ("agent", "model"),
) -> CostReport:
    """Return the usage and cost of the model calls in `events`, including model calls of routers.
    `by` names the facts by which the calls are grouped, such as ``agent``; an unknown name raises
    `UserError`.

    `prices` has prices by model name. The prices of other models come from the price list that the
    extra `prices` installs. The list gives the prices in US dollars at the time of the call. For
    example::

        report = cost_report(await session.events())
        print(report.total.usage.tokens, report.total.cost)
    """
    book = CostBook(prices, by=by)
    book.add(events)
    return book.report()


class CostBook:
    """Computes a report from events that are added in parts. See `cost_report`."""

    def __init__(
        self,
        prices: Mapping[str, PriceOf] | None = None,
        *,
        by: Sequence[CostKey] = ("agent", "model"),
    ) -> None:
        """Raises `UserError` for an unknown key."""
        if isinstance(by, str) or any(name not in _KEYS for name in by):
            raise UserError(f"costs can be grouped by: {', '.join(_KEYS)}; not by {by!r}")
        self._prices = prices or {}
        self._by = by
        self._lines: dict[tuple[str, ...], CostLine] = {}
        self._total = CostLine(key={})
        self._unpriced: set[str] = set()

    def add(self, events: Iterable[Event]) -> None:
        """Count the model calls among the events."""
        for event in events:
            if is_model_call(event):
                self._count(event)

    def report(self) -> CostReport:
        """The report of the events so far."""
        return CostReport(
            by=tuple(self._by),
            lines=sorted(
                self._lines.values(), key=lambda line: (-line.usage.cost, -line.usage.tokens)
            ),
            total=self._total,
            unpriced_models=tuple(sorted(self._unpriced)),
        )

    def _count(self, event: Event) -> None:
        usage = _usage(event)
        model = str((event.details or {}).get("model") or UNKNOWN_MODEL)
        cost = cost_of_call(model, usage, self._prices, at_us=event.at_us)
        if cost is None:
            self._unpriced.add(model)
        usage.cost = cost or 0.0
        key: dict[str, str] = {name: _key(name, event, model) for name in self._by}
        line = self._lines.setdefault(tuple(key.values()), CostLine(key=key))
        for each in (line, self._total):
            each.usage.add(usage)
            each.unpriced += usage.requests if cost is None else 0


async def events_with_asked(store: Store, session_id: str) -> list[Event]:
    """The events of a session, of the sessions that answered its queries, and so on to any depth.

    Deleted sessions and events that a fork copied are left out. Raises `SessionNotFound` if the
    session itself does not exist.
    """
    await store.open()
    await store.get(session_id)
    found: list[Event] = []
    waiting, seen = [session_id], {session_id}
    while waiting:
        events = await own_events(store, await store.events(waiting.pop()))
        found.extend(events)
        for event in events:
            asked = _asked_session(event)
            if asked is not None and asked not in seen and len(seen) < _MOST_SESSIONS:
                seen.add(asked)
                waiting.append(asked)
    return found


async def call_pages(
    store: Store, *, since_us: int | None = None
) -> AsyncIterator[Sequence[Event]]:
    """The model calls of all sessions, in pages, without events that a fork copied."""
    where = EventFilter(types={"llm_call", "route"}, since_us=since_us, newest_first=False)
    rows: dict[str, SessionRow | None] = {}
    cursor = None
    while True:
        page = await store.find_events(where, limit=_PAGE, cursor=cursor)
        yield await own_events(store, page.events, rows)
        cursor = page.next_cursor
        if cursor is None:
            return


async def own_events(
    store: Store, events: Iterable[Event], rows: dict[str, SessionRow | None] | None = None
) -> list[Event]:
    """The events, except for events that a fork copied from another session.

    `rows` caches the sessions' rows. Pass the same object to later calls.
    """
    rows = {} if rows is None else rows
    found: list[Event] = []
    for event in events:
        if event.session_id not in rows:
            rows[event.session_id] = await find_row(store, event.session_id)
        row = rows[event.session_id]
        if row is None or not is_copied(row, event):
            found.append(event)
    return found


def _asked_session(event: Event) -> str | None:
    asks = (event.details or {}).get("asks")
    session = asks.get("session") if isinstance(asks, Mapping) else None
    return session if isinstance(session, str) else None


def _usage(event: Event) -> Usage:
    usage = (event.details or {}).get("usage")
    counts = usage if isinstance(usage, Mapping) else {}
    known = {
        name: max(int(counts[name]), 0)
        for name in Usage.__slots__
        if name != "cost" and isinstance(counts.get(name), int | float)
    }
    cost = counts.get("cost")
    return Usage(
        **{**known, "requests": known.get("requests") or 1},
        cost=float(cost) if isinstance(cost, int | float) else 0.0,
    )


def cost_of_call(
    model: str, usage: Usage, prices: Mapping[str, PriceOf], *, at_us: int
) -> float | None:
    """The cost of a model call. If `usage` has no cost, the cost is computed from `prices`, or from
    the price list at the time of the call. `None` if the price is unknown."""
    if usage.cost:
        return usage.cost
    from ekiden.models.prices import cost_of

    return cost_of([model], usage, prices, at_us=at_us)


def _key(name: CostKey, event: Event, model: str) -> str:
    if name == "agent":
        return event.agent or "?"
    if name == "model":
        return model
    if name == "session":
        return event.session_id
    return datetime.fromtimestamp(event.at_us / 1e6, UTC).strftime("%Y-%m-%d")
