"""The data and the conversation that a target got: before and after the input filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from ekiden.core.conversation.model import Item, is_message
from ekiden.core.events import Event
from ekiden.core.values import loads
from ekiden.handoff.records import HandoffRecord
from ekiden.handoff.report import FilterReport, filter_report, texts_of
from ekiden.sessions import current_events, is_transfer, visible_events
from ekiden.storage.base import Store

Role: TypeAlias = Literal["user", "assistant", "system", "tool", "call", "other"]
ShownFate: TypeAlias = Literal["kept", "summarised", "dropped", "added"]

MOST_SHOWN: Final = 200
"""The maximum number of listed items."""
LONGEST_SHOWN: Final = 300
"""The maximum number of shown characters of an item."""

_ROLES: Final[dict[object, Role]] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FilteredItem:
    """One item of the conversation before the handoff, or an item that the filter added."""

    text: str
    """The first characters for people; empty if the item is private."""
    role: Role
    agent: str | None
    """The agent that produced the item. `None` if it was a person or is unknown."""
    fate: ShownFate
    changed: bool = False
    """Whether the item was kept, but cut or masked in part."""
    seq: int | None
    """The number of the item's event; `None` for an item that a filter added."""

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownConversation:
    """The outcome of the conversation's items in a handoff."""

    kept: int = 0
    summarised: int = 0
    dropped: int = 0
    entries: tuple[FilteredItem, ...] = ()
    """The first items, in order."""
    more: int = 0
    """The number of further items, which are not in `entries`."""

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON."""
        return {
            "kept": self.kept,
            "summarised": self.summarised,
            "dropped": self.dropped,
            "entries": [entry.to_json() for entry in self.entries],
            "more": self.more,
        }


NOTHING_SHOWN: Final = ShownConversation()


@dataclass(frozen=True, slots=True)
class ItemSource:
    """An item of the conversation before a handoff, with its origin."""

    item: Item
    seq: int | None = None
    agent: str | None = None
    is_hidden: bool = False
    """Whether the item's content must not be shown."""


def sources_of(
    events: Sequence[Event], *, base: Sequence[Item] = (), after: int = 0
) -> list[ItemSource]:
    """The source's view before a handoff. The last of `events` is the event of the handoff.

    The view is `base`, followed by the items after event number `after`. Items of private runs are
    hidden. If the handoff itself is part of a private run, all items are hidden.
    """
    all_hidden = hides_everything(events)
    public = None if all_hidden else _public_items(events, until=after)
    found = [
        ItemSource(item, is_hidden=all_hidden or (public is not None and _key(item) not in public))
        for item in base
    ]
    for event in visible_events(events, after=after):
        hidden = all_hidden or event.is_private
        found += [ItemSource(item, event.seq, event.agent, hidden) for item in event.items]
    return found


def hides_everything(events: Sequence[Event]) -> bool:
    """Whether the last event, the handoff, is part of a private run."""
    return bool(events) and events[-1].is_private


_Key: TypeAlias = tuple[Role, str, tuple[str, ...]]


def _public_items(events: Sequence[Event], *, until: int) -> set[_Key] | None:
    """The keys of all items up to an event that may be shown; `None`: all items.

    Needed because the result of a filter does not say which of its items are private.
    """
    past = [event for event in events if event.seq <= until]
    if not any(event.is_private for event in past):
        return None
    return {_key(item) for event in past if not event.is_private for item in event.items}


def _key(item: Item) -> _Key:
    return role_of(item), str(item.get("name")), texts_of(item)


def shown_conversation(
    events: Sequence[Event],
    *,
    base: Sequence[Item] = (),
    after: int = 0,
    result: Sequence[Item] | None = None,
) -> ShownConversation:
    """The effect of a handoff on the source's view. The last of `events` is the event of the
    handoff.

    The source's view is `base`, followed by the items after event number `after`. `result` is the
    result of the filter; `None` means that the target saw everything. Items of private runs
    (`trace_include_sensitive_data=False`) have no texts.
    """
    before = sources_of(events, base=base, after=after)
    if result is None:
        entries = [_entry(each, each.item, "kept") for each in before]
    else:
        report = filter_report([each.item for each in before], result)
        hide_new = hides_everything(events) or any(each.is_hidden for each in before)
        entries = list(_entries(before, report, hide_new=hide_new))
    counts = Counter(entry.fate for entry in entries)
    return ShownConversation(
        kept=counts["kept"],
        summarised=counts["summarised"],
        dropped=counts["dropped"],
        entries=tuple(entries[:MOST_SHOWN]),
        more=max(len(entries) - MOST_SHOWN, 0),
    )


def _entries(
    before: Sequence[ItemSource], report: FilterReport, *, hide_new: bool
) -> Iterator[FilteredItem]:
    """The items of both sides in order; a new item comes before the items that follow it."""
    added = [
        _entry(ItemSource(row.item, is_hidden=hide_new), row.item, "added") for row in report.new
    ]
    places = [row.index for row in report.new]
    done = 0
    for row in report.rows:
        is_kept = row.fate in ("kept", "changed")
        while is_kept and done < len(places) and places[done] < (row.into or 0):
            yield added[done]
            done += 1
        fate: ShownFate = "kept" if row.fate == "changed" else row.fate
        yield _entry(before[row.index], row.item, fate, changed=row.fate == "changed")
    yield from added[done:]


def _entry(
    source: ItemSource, item: Item, fate: ShownFate, *, changed: bool = False
) -> FilteredItem:
    role = role_of(item)
    return FilteredItem(
        text="" if source.is_hidden else text_shown(item),
        role=role,
        agent=None if role in ("user", "system") else source.agent,
        fate=fate,
        changed=changed,
        seq=source.seq,
    )


def role_of(item: Item) -> Role:
    """The role of the item in the conversation."""
    if is_message(item):
        return _ROLES.get(item.get("role"), "other")
    kind = str(item.get("type") or "")
    if kind.endswith("_output"):
        return "tool"
    return "call" if kind.endswith("_call") else "other"


def text_shown(item: Item) -> str:
    """The beginning of an item for people."""
    text = "\n".join(filter(None, (each[:LONGEST_SHOWN] for each in texts_of(item))))
    if role_of(item) == "call" and isinstance(item.get("name"), str):
        text = f"{item['name']}({text})"
    return text[:LONGEST_SHOWN]


_PASSED = ("reason", "summary", "context")


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffViews:
    """The conversation before and after a handoff with a filter."""

    before: Sequence[Item]
    """The source's view, including the output of its call if its model requested the handoff."""
    after: Sequence[Item]
    """The target's view."""
    hidden: frozenset[int] = frozenset()
    """The positions in `before` of items of private runs."""
    hide_new: bool = False
    """Whether items that the filter added must not be shown."""


async def read_views(store: Store, record: HandoffRecord) -> HandoffViews | None:
    """The views of a handoff; `None` if the handoff had no filter, or was not made.

    The view before the handoff may itself begin with the result of an earlier handoff's filter.
    """
    if record.filter is None:
        return None
    transfer = next(move.seq for move in record.moves if move.status == "transferring")
    events = await store.events(record.session_id, limit=transfer)
    key, after = view_before(events, transfer)
    base: list[Item] = []
    if key is not None:
        base = await read_result(store, record.session_id, key)
    sources = sources_of(events, base=base, after=after)
    hidden = frozenset(place for place, each in enumerate(sources) if each.is_hidden)
    return HandoffViews(
        before=[each.item for each in sources],
        after=await read_result(store, record.session_id, record.filter),
        hidden=hidden,
        hide_new=hides_everything(events) or bool(hidden),
    )


def passed_data_of(events: Sequence[Event], record: HandoffRecord) -> dict[str, Any]:
    """The reason, summary, context and other arguments that were passed to the target, as far as
    the session's events contain them."""
    data: dict[str, Any] = {}
    for event in events:
        if event.type == "handoff" and event.details and event.details.get("id") == record.id:
            data.update({name: event.details[name] for name in _PASSED if event.details.get(name)})
        if record.call_id is None or event.seq > record.moves[0].seq:
            continue
        for item in event.items:
            if item.get("type") == "function_call" and item.get("call_id") == record.call_id:
                data = {**data, **_arguments(item)}
    return data


def view_before(events: Sequence[Event], transfer: int) -> tuple[str | None, int]:
    """How the source's view before a handoff begins. The first value is the step key of the filter
    result at the start of the view, or `None`. The second value is the number of the event after
    which the view continues."""
    now: tuple[str | None, int] = (None, 0)
    earlier: dict[str, tuple[str | None, int]] = {}
    for event in current_events([event for event in events if event.seq < transfer]):
        if event.type != "handoff":
            continue
        details = event.details or {}
        if is_transfer(event):
            earlier[str(details.get("id"))] = now
            if "filter" in details:
                now = (details["filter"], event.seq)
        elif "undoes" in details:
            now = earlier.get(str(details.get("id")), now)
    return now


async def read_result(store: Store, session_id: str, key: str) -> list[Item]:
    """The stored result of a filter."""
    items: list[Item] = (await store.steps(session_id, prefix=key)).get(key, [])
    return items


def _arguments(call: Item) -> Mapping[str, Any]:
    try:
        values = loads(call.get("arguments") or "{}")
    except (TypeError, ValueError, RecursionError):
        return {"arguments": str(call.get("arguments"))}
    if not isinstance(values, dict):
        return {"arguments": values}
    return {name: value for name, value in values.items() if value not in ("", None)}
