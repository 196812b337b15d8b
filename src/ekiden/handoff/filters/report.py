"""What a filter did, found by comparing the conversation before it and after it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias

from ekiden.core.conversation.model import Item, is_message, refusal_of, text_of, to_input_item
from ekiden.core.privacy.redaction import redact_text
from ekiden.core.values import dumps
from ekiden.handoff.filters.selection import call_key
from ekiden.handoff.filters.summaries import brief, parse_summary
from ekiden.handoff.filters.transcript import is_transcript, parse_transcript

_LOOK_BACK = 64
"""So many items are looked at to find the one that a changed message was."""


def match_items(before: Sequence[Item], after: Sequence[Item]) -> dict[int, int]:
    """For each place in `before` whose item is still there, its place in `after`.

    The ends are matched first, because what filters keep is mostly there; then what says the same,
    what has the same id, and last what stands between the same neighbours and is alike.
    """
    matched = _ends(before, after)
    for key in (_content, _identity):
        if len(matched) < len(after):
            _by_key(matched, before, after, key)
    if len(matched) < len(after):
        _by_likeness(matched, before, after)
    return matched


def texts_of(item: Item) -> tuple[str, ...]:
    """The texts of an item that a model reads."""
    if is_message(item):
        return (text_of(item) or refusal_of(item) or "",)
    found: list[str] = []
    for name in ("arguments", "input", "output", "summary", "content", "action", "queries"):
        value = item.get(name)
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, list):
            found += [_part_text(part) for part in value]
        elif value is not None:
            found.append(_encoded(value))
    return tuple(found)


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    text = part.get("text") if isinstance(part, dict) else None
    return text if isinstance(text, str) else _encoded(part)


def _encoded(value: Any) -> str:
    try:
        return dumps(value)
    except (TypeError, ValueError, RecursionError):
        return str(value)


def _content(item: Item) -> str:
    """What an item says, the same for all ways to write a plain message."""
    if is_message(item):
        content, role = item.get("content"), item.get("role")
        one = isinstance(content, list) and len(content) == 1 and bool(text_of(item))
        if one or isinstance(content, str):
            return f"{role}\n{item.get('name') or ''}\n{text_of(item)}"
    return _encoded(to_input_item(item))


def _identity(item: Item) -> Hashable:
    """What stays the same when the text of an item is changed; `None` if nothing does."""
    call = call_key(item)
    if call is not None:
        return (item.get("type"), call)
    own = item.get("id")
    return ("id", own) if isinstance(own, str) and own else None


def _ends(before: Sequence[Item], after: Sequence[Item]) -> dict[int, int]:
    matched: dict[int, int] = {}
    shorter = min(len(before), len(after))
    tail = 0
    while tail < shorter and _same(before[-1 - tail], after[-1 - tail]):
        tail += 1
        matched[len(before) - tail] = len(after) - tail
    head = 0
    while head < shorter - tail and _same(before[head], after[head]):
        matched[head] = head
        head += 1
    return matched


def _same(one: Item, other: Item) -> bool:
    return one == other or _content(one) == _content(other)


def _by_key(
    matched: dict[int, int],
    before: Sequence[Item],
    after: Sequence[Item],
    key_of: Callable[[Item], Hashable],
) -> None:
    """Match what has the same key, in order; `None` is no key."""
    known = set(matched.values())
    places: defaultdict[Hashable, deque[int]] = defaultdict(deque)
    for place, item in enumerate(after):
        if place not in known:
            places[key_of(item)].append(place)
    places.pop(None, None)
    for place, item in enumerate(before) if places else ():
        if place not in matched:
            waiting = places.get(key_of(item))
            if waiting:
                matched[place] = waiting.popleft()


def _by_likeness(matched: dict[int, int], before: Sequence[Item], after: Sequence[Item]) -> None:
    """Match messages without an id that were covered or cut, from the end, in order."""
    was = {now: place for place, now in matched.items()}
    since = _latest(was, len(after))
    until = len(before)
    for place in range(len(after) - 1, -1, -1):
        if place in was:
            until = min(until, was[place])
        elif is_message(after[place]):
            between = range(until - 1, max(since[place], until - 1 - _LOOK_BACK), -1)
            places = [each for each in between if each not in matched]
            found = _first_alike([before[each] for each in places], after[place])
            if found is not None:
                until = places[found]
                matched[until] = place


def _latest(was: dict[int, int], length: int) -> list[int]:
    """For each place, the latest place in the other version of anything that stands before it."""
    latest, so_far = [], -1
    for place in range(length):
        latest.append(so_far)
        so_far = max(so_far, was.get(place, -1))
    return latest


_MASK = re.compile(r"\[[a-z_]{3,12}\]|\*{3,}|…")


def _first_alike(candidates: Sequence[Item], now: Item) -> int | None:
    """Which of the candidates may have become `now`, parts of it being covered or cut out."""
    new = text_of(now)
    pieces = _MASK.split(new) if candidates else []
    # Summaries and nested histories all begin and end alike.
    exactly = len(pieces) > 1 or is_transcript(now) or parse_summary(now) is not None
    for place, was in enumerate(candidates):
        if is_message(was) and was.get("role") == now.get("role"):
            old = text_of(was)
            if _in_order(pieces, old) if exactly else _alike(old, new):
                return place
    return None


def _alike(old: str, new: str) -> bool:
    same = _common_prefix(old, new)
    rest = min(len(old), len(new)) - same
    same += _common_prefix(old[len(old) - rest :][::-1], new[len(new) - rest :][::-1])
    return 2 * same >= max(len(new), 1)


def _in_order(pieces: Sequence[str], text: str) -> bool:
    """Whether the pieces stand in the text one after the other, the first and last at its ends."""
    if len(pieces) == 1:
        return text == pieces[0]
    if not (text.startswith(pieces[0]) and text.endswith(pieces[-1])):
        return False
    at = len(pieces[0])
    for piece in pieces[1:-1]:
        at = text.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return at + len(pieces[-1]) <= len(text)


def _common_prefix(one: str, other: str) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


Fate: TypeAlias = Literal["kept", "changed", "summarised", "dropped"]
FATES: tuple[Fate, ...] = ("kept", "changed", "summarised", "dropped")

_EXCERPT = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterRow:
    """What became of one item that was there before."""

    index: int
    """Its place before the filter, from 0."""
    item: Item = field(repr=False)
    """As it is now, or as it was if it is no longer there."""
    fate: Fate
    into: int | None
    """Its place after the filter, or that of the message that tells it now."""
    chars: int
    """How long its text was."""
    chars_after: int
    """How long it is after the filter; 0 if it is no longer there as an item of its own."""

    @property
    def label(self) -> str:
        """What it is, with the first words of it; what is sensitive in them is covered."""
        return _label(self.item)

    def to_json(self) -> dict[str, Any]:
        """The row as plain JSON, without the item."""
        return _plain(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRow:
    """An item that was not there before."""

    index: int
    """Its place after the filter, from 0."""
    item: Item = field(repr=False)
    kind: Literal["summary", "nested", "added"]
    chars: int
    """How long its text is."""

    @property
    def label(self) -> str:
        """What it is, with the first words of it; what is sensitive in them is covered."""
        return _label(self.item)

    def to_json(self) -> dict[str, Any]:
        """The row as plain JSON, without the item."""
        return _plain(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterReport:
    """The effect of a filter: which items it kept, changed, summarised, dropped and added."""

    rows: tuple[FilterRow, ...]
    """One row for each item before the filter, in order."""
    new: tuple[NewRow, ...]
    chars_before: int
    chars_after: int

    @property
    def counts(self) -> dict[str, int]:
        """The number of items by outcome; ``new`` counts the items that the filter added."""
        found = Counter(row.fate for row in self.rows)
        return {**{fate: found[fate] for fate in FATES}, "new": len(self.new)}

    def without_texts(self, hidden: Collection[int], *, hide_new: bool) -> FilterReport:
        """A copy without the texts of the items at the original positions `hidden`. With
        `hide_new`, the texts of new items are also removed."""
        return replace(
            self,
            rows=tuple(
                replace(row, item=_bare(row.item)) if row.index in hidden else row
                for row in self.rows
            ),
            new=tuple(replace(row, item=_bare(row.item)) if hide_new else row for row in self.new),
        )

    def to_json(self) -> dict[str, Any]:
        """The report as plain JSON."""
        return {
            "counts": self.counts,
            "chars_before": self.chars_before,
            "chars_after": self.chars_after,
            "rows": [row.to_json() for row in self.rows],
            "new": [row.to_json() for row in self.new],
        }


def filter_report(before: Sequence[Item], after: Sequence[Item]) -> FilterReport:
    """The difference between two versions of a conversation, both as plain items.

    Two items with equal content are the same item. An item counts as changed if an item with the
    same id or call id has other content. An item also counts as changed if the item at the same
    position is its masked or shortened version. A missing item was summarised if a nested history
    or a summary in `after` covers it; otherwise it was dropped. The time is linear in the number of
    items. For example::

        report = filter_report(what_the_source_saw, what_the_target_sees)
        print(report.counts)
    """
    matched = match_items(before, after)
    told = _told_by(before, after, matched)
    rows = [
        _row(place, item, after, matched.get(place), told.get(place))
        for place, item in enumerate(before)
    ]
    known = set(matched.values())
    new = [_new_row(place, item) for place, item in enumerate(after) if place not in known]
    return FilterReport(
        rows=tuple(rows),
        new=tuple(new),
        chars_before=sum(row.chars for row in rows),
        chars_after=sum(row.chars_after for row in rows) + sum(row.chars for row in new),
    )


def _told_by(
    before: Sequence[Item], after: Sequence[Item], matched: dict[int, int]
) -> dict[int, int]:
    """For items that are gone, the place of the new message that tells them."""
    gone = [place for place in range(len(before)) if place not in matched]
    known = set(matched.values())
    new = [place for place in range(len(after)) if place not in known] if gone else []
    told = _told_in_full(before, gone, [(place, parse_transcript(after[place])) for place in new])
    summaries = [(place, parse_summary(after[place])) for place in new]
    for place, summary in [pair for pair in summaries if pair[1] is not None][:_SUMMARIES]:
        assert summary is not None
        left = [one for one in gone if one not in told]
        until = min((was for was, now in matched.items() if now > place), default=len(before))
        told.update(dict.fromkeys(_last_of(left, summary.count, until), place))
    return told


_SUMMARIES = 8
"""No more summaries than these are looked at; a filter makes one."""


def _told_in_full(
    before: Sequence[Item],
    gone: Sequence[int],
    nested: Iterable[tuple[int, Sequence[Item] | None]],
) -> dict[int, int]:
    """Which of the items that are gone stand in a nested history, and where that is.

    An older history or summary is told if anything is: its parts stand there on their own.
    """
    inner = [(place, item) for place, items in nested for item in items or ()]
    if not inner:
        return {}
    found = match_items([before[place] for place in gone], [item for _, item in inner])
    told = {gone[one]: inner[other][0] for one, other in found.items()}
    for place in gone:
        item = before[place]
        if is_transcript(item) or parse_summary(item) is not None:
            told.setdefault(place, inner[0][0])
    return told


def _last_of(gone: Sequence[int], count: int, until: int) -> Sequence[int]:
    """The `count` items that a summary stands for: those nearest before what follows it."""
    border = bisect_left(gone, until)
    nearest = gone[max(border - count, 0) : border]
    return [*nearest, *gone[border : border + count - len(nearest)]]


def _row(
    place: int, item: Item, after: Sequence[Item], now: int | None, told: int | None
) -> FilterRow:
    said = texts_of(item)
    says = () if now is None else said if after[now] == item else texts_of(after[now])
    fate: Fate
    if now is not None:
        fate = "kept" if said == says else "changed"
    else:
        fate = "dropped" if told is None else "summarised"
    return FilterRow(
        index=place,
        item=item if now is None else after[now],
        fate=fate,
        into=told if now is None else now,
        chars=sum(map(len, said)),
        chars_after=sum(map(len, says)),
    )


def _new_row(place: int, item: Item) -> NewRow:
    kind: Literal["summary", "nested", "added"] = "added"
    if is_transcript(item):
        kind = "nested"
    elif parse_summary(item) is not None:
        kind = "summary"
    return NewRow(index=place, item=item, kind=kind, chars=_length(item))


def _plain(row: FilterRow | NewRow) -> dict[str, Any]:
    named = [each.name for each in fields(row) if each.name not in ("index", "item")]
    return {
        "index": row.index,
        "label": row.label,
        **{name: getattr(row, name) for name in named},
    }


def _label(item: Item) -> str:
    """What an item is, for people, in one line."""
    if is_message(item):
        what = str(item.get("role"))
    else:
        name, what = item.get("name"), str(item.get("type") or "item")
        what = f"{what} {brief(name, 64)}" if isinstance(name, str) else what
    text = next(iter(texts_of(item)), "")
    excerpt = brief(redact_text(text[: 4 * _EXCERPT]), _EXCERPT)
    return f"{brief(what, 100)}: {excerpt}" if excerpt else brief(what, 100)


def _bare(item: Item) -> Item:
    return {name: item[name] for name in ("type", "role", "name") if name in item}


def _length(item: Item) -> int:
    return sum(map(len, texts_of(item)))
