"""Computes the conversation and facts about it from a session's events, without undone and blocked
parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ekiden.core.conversation.model import Item, Usage, function_output
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import SessionNotFound
from ekiden.core.events import Event
from ekiden.storage.base import SessionRow, SessionStore
from ekiden.storage.records import is_copied as is_copied

_POPPED = ".popped"
_INTERNAL = frozenset(
    {
        "undoes", "keeps", "hash", "moves", "compensation", "attempt", "place", "tools", "budget",
        "received", "state", "chain", "made_by",
    }
)  # fmt: skip


def is_draft(event: Event) -> bool:
    """Whether the event has an answer that a guardrail blocked, and the request for a new
    answer."""
    return event.type == "guardrail" and bool(event.items)


def is_beginning(event: Event) -> bool:
    """Whether the event is the input of a run."""
    return event.type == "message" and event.step is None and bool(event.items)


def rejected_inputs(events: Sequence[Event], *, anew: bool) -> set[int]:
    """The numbers of the events whose input a guardrail blocked, in runs that have ended.

    With `anew`, a new run is about to begin after the last event, so the last run has ended too.
    """
    rejected: set[int] = set()
    last: int | None = None
    for event in events:
        details = event.details or {}
        if is_beginning(event):
            if last is not None:
                rejected.add(last)
            last = None
        elif event.type == "guardrail":
            if details.get("type") == "input" and "undoes" in details:
                last = details["undoes"][0]
        elif event.items:
            last = None  # The run was resumed, and its input passed.
    if anew and last is not None:
        rejected.add(last)
    return rejected


def refused_calls(events: Sequence[Event]) -> dict[str, str]:
    """The targets of handoff calls that a guardrail refused, by call id."""
    return {
        str(item.get("call_id")): str(event.details.get("to"))
        for event in events
        if event.type == "handoff" and event.details and event.details.get("code") == "GUARDRAIL"
        for item in event.items
    }


def shown_to_others(
    event: Event, rejected: set[int], refused: Mapping[str, str]
) -> tuple[Item, ...]:
    """The items of the event that other agents may see."""
    if is_draft(event):
        return ()
    items = event.items
    if event.seq in rejected:
        items = tuple(item for item in items if item.get("type") == "function_call_output")
    if refused and any(str(item.get("call_id")) in refused for item in items):
        items = tuple(_without_content(item, refused) for item in items)
    return items


def _without_content(item: Item, refused: Mapping[str, str]) -> Item:
    call_id = str(item.get("call_id"))
    if call_id not in refused:
        return item
    if item.get("type") == "function_call":
        return {**item, "arguments": "{}"}
    error = f"Error: the handoff to {refused[call_id]} was not made: a guardrail refused it"
    return function_output(call_id, error)


def undone(events: Iterable[Event]) -> list[tuple[int, int]]:
    """The ranges of event numbers that rollbacks and rewinds removed from the conversation."""
    known = [event for event in events if event.details and "undoes" in event.details]
    ranges = rewound(known)
    for event in known:
        is_undoing = event.type == "handoff" or is_popping(event)
        if is_undoing and event.details and not _is_in(event, ranges):
            first, last = event.details["undoes"]
            for kept in sorted(event.details.get("keeps", ())):
                ranges.append((first, kept - 1))
                first = kept + 1
            ranges.append((first, last))
    return ranges


def is_rewind(event: Event) -> bool:
    """Whether the event records a rewind. `details["rewound"]` is the number of the last event that
    the rewind did not undo."""
    return (
        event.type == "message"
        and event.step is None
        and not event.items
        and event.details is not None
        and "rewound" in event.details
    )


def is_popping(event: Event) -> bool:
    """Whether the event removes the last item of the conversation. Such an event undoes an earlier
    event and repeats all of its items except the last one."""
    return event.type == "message" and (event.step or "").endswith(_POPPED)


def rewound(events: Iterable[Event]) -> list[tuple[int, int]]:
    """The ranges of event numbers that rewinds undid. A rewind that a later rewind undid has no
    effect."""
    ranges: list[tuple[int, int]] = []
    for event in sorted(filter(is_rewind, events), key=lambda each: -each.seq):
        if event.details and not _is_in(event, ranges):
            first, last = event.details["undoes"]
            ranges.append((first, last))
    return ranges


def current_events(events: Sequence[Event]) -> list[Event]:
    """All events except those that a rewind undid."""
    ranges = rewound(events)
    return [event for event in events if not _is_in(event, ranges)] if ranges else list(events)


def _is_in(event: Event, ranges: Sequence[tuple[int, int]]) -> bool:
    return any(first <= event.seq <= last for first, last in ranges)


def is_transfer(event: Event) -> bool:
    """Whether the event gave the conversation to another agent."""
    if event.type != "handoff" or not event.details:
        return False
    moves = event.details.get("moves")
    if moves is None:  # An event of an earlier version.
        return bool(event.details.get("status") == "completed")
    return "transferring" in moves and "rolled_back" not in moves


def said(events: Sequence[Event]) -> Iterable[Event]:
    """The events that have conversation items. Events that a rollback or rewind undid, and content
    that guardrails blocked, are left out."""
    return _shown(_not_undone(events), after=0, stay=None, anew=False)


def _not_undone(events: Sequence[Event]) -> Sequence[Event]:
    ranges = undone(events)
    return [event for event in events if not _is_in(event, ranges)] if ranges else events


def _shown(events: Sequence[Event], *, after: int, stay: int | None, anew: bool) -> Iterable[Event]:
    """The visible events after number `after`. Blocked content is removed from events up to number
    `stay`, or from all; the active agent sees all items since then."""
    rejected, refused = rejected_inputs(events, anew=anew), refused_calls(events)
    for event in events:
        if event.seq <= after or not event.items:
            continue
        items = event.items
        if stay is None or event.seq <= stay:
            items = shown_to_others(event, rejected, refused)
        if items is event.items:
            yield event
        elif items:
            yield _with_items(event, items)


def _with_items(event: Event, items: tuple[Item, ...]) -> Event:
    return Event(
        session_id=event.session_id,
        seq=event.seq,
        type=event.type,
        at_us=event.at_us,
        agent=event.agent,
        step=event.step,
        duration_us=event.duration_us,
        details=event.details,
        items=items,
        error=event.error,
    )


def conversation(events: Sequence[Event]) -> list[Item]:
    """The items of the conversation. Items that a rollback or rewind undid, and content that
    guardrails blocked, are left out."""
    return [item for event in said(events) for item in event.items]


def visible_items(
    events: Sequence[Event], *, base: Sequence[Item] = (), after: int = 0, anew: bool = False
) -> list[Item]:
    """The items that the active agent sees: `base`, followed by the items after event number
    `after`.

    `base` has the items that an input filter returned at the last handoff. With `anew`, the result
    is for a run that is about to start: content that guardrails blocked earlier is left out.
    """
    items = list(base)
    for event in visible_events(events, after=after, anew=anew):
        items.extend(event.items)
    return items


def visible_events(
    events: Sequence[Event], *, after: int = 0, anew: bool = False
) -> Iterable[Event]:
    """The events with items that the active agent sees. Each returned event has only these
    items."""
    events = _not_undone(events)
    stay = None if anew else _stay(events)
    return _shown(events, after=after, stay=stay, anew=anew)


def _stay(events: Sequence[Event]) -> int:
    """The number of the event that gave the active agent the conversation."""
    for event in reversed(events):
        if is_beginning(event) or is_transfer(event):
            return event.seq
    return 0


def history_length(events: Sequence[Event], *, base: Sequence[Item], after: int, first: int) -> int:
    """The number of items that the active agent saw when a run started, including the input of the
    run.

    `first` is the number of the run's first event. The agent saw `base`, followed by the items
    after event number `after`, as in `visible_items`.
    """
    return len(base) + sum(len(event.items) for event in said(events) if after < event.seq <= first)


def open_calls(events: Sequence[Event]) -> list[Item]:
    """The tool calls of the conversation that have no output yet, in order."""
    calls: dict[str, Item] = {}
    for item in conversation(events):
        kind = item.get("type")
        if kind == "function_call":
            calls[str(item.get("call_id"))] = item
        elif kind == "function_call_output":
            calls.pop(str(item.get("call_id")), None)
    return list(calls.values())


def chain_of(events: Sequence[Event]) -> list[Mapping[str, Any]]:
    """The handoffs of a session in order, each with id, source, target, reason, current status and
    time.

    If a rewind undid a handoff, the status of the handoff is `rolled_back`, and `rewound` is true.
    """
    rows: dict[str, dict[str, Any]] = {}
    ranges = rewound(events)
    for event in events:
        if event.type != "handoff":
            continue
        details = event.details or {}
        is_back = _is_in(event, ranges)
        if is_back and details.get("id") in rows:
            continue
        row = rows.setdefault(details.get("id", event.event_id), {"timestamp": event.at_us / 1e6})
        row.update({name: value for name, value in details.items() if name not in _INTERNAL})
        if event.error and "compensation" not in details:
            row["error"] = event.error
        if is_back:
            row.update(status="rolled_back" if is_transfer(event) else row.get("status"))
            row["rewound"] = True
    return list(rows.values())


_MADE = ("transferring", "completed")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """A summary of a session. Times are in seconds since 1970.

    For example::

        info = await Session("customer-42", store=store).info()
        print(info.agent_chain, info.total_tokens)
    """

    session_id: str
    user_id: str | None
    agent: str
    """The current agent of the session."""
    title: str | None
    created_at: float
    updated_at: float
    agent_chain: tuple[str, ...]
    """``user``, followed by all agents that handled the session, in order. Agents whose handoff was
    rolled back are left out."""
    handoff_count: int
    """The number of handoffs that were not rolled back."""
    total_tokens: int
    """The number of tokens of all model calls of the session, including routing and rolled-back
    work. In a fork, model calls before the fork do not count."""

    @property
    def metadata(self) -> dict[str, Any]:
        """Further facts about the session, computed from its events, as JSON."""
        return {
            "agent_chain": list(self.agent_chain),
            "handoff_count": self.handoff_count,
            "total_tokens": self.total_tokens,
        }


def session_info(row: SessionRow, events: Sequence[Event]) -> SessionInfo:
    """Compute the `SessionInfo` of a session from all of its events."""
    handoffs = chain_of(events)
    title = row.meta.get("title")
    return SessionInfo(
        session_id=row.id,
        user_id=row.user_id,
        agent=row.agent,
        title=None if title is None else str(title),
        created_at=row.created_at_us / 1e6,
        updated_at=row.updated_at_us / 1e6,
        agent_chain=tuple(names_of(row, handoffs)),
        handoff_count=sum(each.get("status") in _MADE for each in handoffs),
        total_tokens=sum(_tokens(event) for event in events if not is_copied(row, event)),
    )


def session_record(row: SessionRow) -> dict[str, Any]:
    """A session as JSON, without content."""
    return {
        "session_id": row.id,
        "agent": row.agent,
        "status": row.status,
        "outcome": row.outcome,
        "conclusion": row.conclusion,
        "user_id": row.user_id,
        "priority": row.priority,
        "meta": dict(row.meta),
        "events": row.seq,
        "owner": row.owner,
        "created_at": row.created_at_us / 1e6,
        "updated_at": row.updated_at_us / 1e6,
    }


def names_of(row: SessionRow, handoffs: Sequence[Mapping[str, Any]]) -> list[str]:
    """``user``, followed by the agents that handled the session. Undone handoffs are left out."""
    made = [each for each in handoffs if each.get("status") in _MADE]
    first = made[0]["from"] if made else row.agent
    return ["user", first, *(each["to"] for each in made)]


def is_model_call(event: Event) -> bool:
    """Whether the event has the usage of a model, for an agent or for the router."""
    if event.type == "route":
        return isinstance((event.details or {}).get("usage"), Mapping)
    return event.type == "llm_call"


def _tokens(event: Event) -> int:
    usage = (event.details or {}).get("usage") if is_model_call(event) else None
    return Usage.from_json(usage).tokens if isinstance(usage, Mapping) else 0


async def find_row(store: SessionStore, session_id: str) -> SessionRow | None:
    """The row of the session; `None` if there is no such session."""
    with suppress(SessionNotFound):
        return await store.get(session_id)
    return None
