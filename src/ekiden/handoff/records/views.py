"""What a target got with a handoff: words, and the conversation before and after its filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from ekiden.core.conversation.model import Item, is_message
from ekiden.core.events import Event
from ekiden.core.values import loads
from ekiden.handoff.filters.report import FilterReport, filter_report, texts_of
from ekiden.handoff.records.records import HandoffRecord
from ekiden.sessions import current_events, is_transfer, visible_events
from ekiden.storage.base import Store

Role: TypeAlias = Literal["user", "assistant", "system", "tool", "call", "other"]
ShownFate: TypeAlias = Literal["kept", "summarised", "dropped", "added"]

MOST_SHOWN: Final = 200
"""Items that are told one by one."""
LONGEST_SHOWN: Final = 300
"""Characters of an item that are told."""

_ROLES: Final[dict[object, Role]] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FilteredItem:
    """One item that was there before the handoff, or that its filter put there."""

    text: str
    """The first characters, as people read it; empty if it is private."""
    role: Role
    agent: str | None
    """The agent that said or did it; `None`: a person, or unknown."""
    fate: ShownFate
    changed: bool = False
    """Kept, but cut or covered in part."""
    seq: int | None
    """The event that said it; `None` for what a filter made."""

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownConversation:
    """What became of the conversation when it was handed over."""

    kept: int = 0
    summarised: int = 0
    dropped: int = 0
    entries: tuple[FilteredItem, ...] = ()
    """The first of them, in order."""
    more: int = 0
    """Those that are not among `entries`."""

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
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
    """An item that was there before a handoff, and where it comes from."""

    item: Item
    seq: int | None = None
    agent: str | None = None
    is_hidden: bool = False
    """What it says is not to be shown."""


def sources_of(
    events: Sequence[Event], *, base: Sequence[Item] = (), after: int = 0
) -> list[ItemSource]:
    """What the source of a handoff saw; `events` go up to the one that handed over.

    Its view began with `base`, and went on after the event of number `after`. What was said in runs
    that are not to be shown is hidden, and everything, if the handoff itself is of such a run.
    """
    all_hidden = hides_everything(events)
    known = None if all_hidden else _said_openly(events, until=after)
    found = [
        ItemSource(item, is_hidden=all_hidden or (known is not None and _saying(item) not in known))
        for item in base
    ]
    for event in visible_events(events, after=after):
        hidden = all_hidden or event.is_private
        found += [ItemSource(item, event.seq, event.agent, hidden) for item in event.items]
    return found


def hides_everything(events: Sequence[Event]) -> bool:
    """Whether the last of the events, which handed over, is of a run that is not to be shown."""
    return bool(events) and events[-1].is_private


_Saying: TypeAlias = tuple[Role, str, tuple[str, ...]]


def _said_openly(events: Sequence[Event], *, until: int) -> set[_Saying] | None:
    """What may be shown of all that was said up to an event; `None`: everything.

    What a filter made of a conversation does not tell which of it was private.
    """
    past = [event for event in events if event.seq <= until]
    if not any(event.is_private for event in past):
        return None
    return {_saying(item) for event in past if not event.is_private for item in event.items}


def _saying(item: Item) -> _Saying:
    return role_of(item), str(item.get("name")), texts_of(item)


def shown_conversation(
    events: Sequence[Event],
    *,
    base: Sequence[Item] = (),
    after: int = 0,
    result: Sequence[Item] | None = None,
) -> ShownConversation:
    """What the target saw of what the source saw; `events` go up to the one that handed over.

    The source's view began with `base`, and went on after the event of number `after`. `result` is
    what the filter gave; without one, everything was shown. Of what was said in runs that are not
    to be shown (`trace_include_sensitive_data=False`) there are no texts.
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
    """In the order of both sides: what is new stands before what followed it."""
    added = [
        _entry(ItemSource(row.item, is_hidden=hide_new), row.item, "added") for row in report.new
    ]
    places = [row.index for row in report.new]
    done = 0
    for row in report.rows:
        is_there = row.fate in ("kept", "changed")
        while is_there and done < len(places) and places[done] < (row.into or 0):
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
    """What the item is in a conversation."""
    if is_message(item):
        return _ROLES.get(item.get("role"), "other")
    kind = str(item.get("type") or "")
    if kind.endswith("_output"):
        return "tool"
    return "call" if kind.endswith("_call") else "other"


def text_shown(item: Item) -> str:
    """The beginning of an item as people read it."""
    text = "\n".join(filter(None, (each[:LONGEST_SHOWN] for each in texts_of(item))))
    if role_of(item) == "call" and isinstance(item.get("name"), str):
        text = f"{item['name']}({text})"
    return text[:LONGEST_SHOWN]


_WORDS = ("reason", "summary", "context")


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffViews:
    """The conversation on both sides of a handoff whose target was not simply shown everything."""

    before: Sequence[Item]
    """What the source saw, with the answer to its call, if its model asked for the handoff."""
    after: Sequence[Item]
    """What the target was shown."""
    hidden: frozenset[int] = frozenset()
    """The places in `before` of what was said in runs that are not to be shown."""
    hide_new: bool = False
    """Nor is to be shown what the filter put there."""


async def read_views(store: Store, record: HandoffRecord) -> HandoffViews | None:
    """The views of a handoff; `None` if there was no filter, or it was not made.

    What was before is told by the events up to the handoff: it may itself begin with what the
    filter of an earlier one gave.
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


def words_of(events: Sequence[Event], record: HandoffRecord) -> dict[str, Any]:
    """Reason, summary and context that went along, and what else the model's call said, as far as
    the session's events tell it."""
    words: dict[str, Any] = {}
    for event in events:
        if event.type == "handoff" and event.details and event.details.get("id") == record.id:
            words.update({name: event.details[name] for name in _WORDS if event.details.get(name)})
        if record.call_id is None or event.seq > record.moves[0].seq:
            continue
        for item in event.items:
            if item.get("type") == "function_call" and item.get("call_id") == record.call_id:
                words = {**words, **_arguments(item)}
    return words


def view_before(events: Sequence[Event], transfer: int) -> tuple[str | None, int]:
    """With which filter's result the view of the source began, and after which event it went on."""
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
    """What the filter gave whose step has this key."""
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
