"""What went along with a handoff that was made: words, and the past before and after its filter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.core.conversation.model import Item
from ekiden.core.events import Event
from ekiden.core.values import loads
from ekiden.handoff.filters.shown import hides_everything, sources_of
from ekiden.handoff.records.records import HandoffRecord
from ekiden.sessions import is_transfer, standing
from ekiden.storage.base import Store

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
    for event in standing([event for event in events if event.seq < transfer]):
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
