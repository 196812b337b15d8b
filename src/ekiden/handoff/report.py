"""Reports the effect of a filter, by comparing the conversation before and after it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias

from ekiden.core.conversation.model import Item, is_message, refusal_of, text_of, to_input_item
from ekiden.core.privacy.redaction import redact_text
from ekiden.core.text.wording import plain_line
from ekiden.core.values import dumps
from ekiden.handoff.selection import call_key
from ekiden.handoff.summaries import parse_summary
from ekiden.handoff.transcript import is_transcript, parse_transcript

_LOOK_BACK = 64
"""The number of earlier items that are searched for the original of a changed message."""


def match_items(before: Sequence[Item], after: Sequence[Item]) -> dict[int, int]:
    """For each item of `before` that still exists: its position in `after`, by its position in
    `before`.

    Both ends are matched first, because filters mostly keep items there. Then items with equal
    content are matched, then items with the same id, and last similar items between the same
    neighbours.
    """
    matched = _ends(before, after)
    for key in (_content, _identity):
        if len(matched) < len(after):
            _match_by_key(matched, before, after, key)
    if len(matched) < len(after):
        _match_similar(matched, before, after)
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
    """The content of an item as text; the same for all notations of a plain message."""
    if is_message(item):
        content, role = item.get("content"), item.get("role")
        is_one_text = isinstance(content, list) and len(content) == 1 and bool(text_of(item))
        if is_one_text or isinstance(content, str):
            return f"{role}\n{item.get('name') or ''}\n{text_of(item)}"
    return _encoded(to_input_item(item))


def _identity(item: Item) -> Hashable:
    """The id of an item, which does not depend on its text; `None` without an id."""
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


def _match_by_key(
    matched: dict[int, int],
    before: Sequence[Item],
    after: Sequence[Item],
    key_of: Callable[[Item], Hashable],
) -> None:
    """Match items with the same key, in order; items with the key `None` are skipped."""
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


def _match_similar(matched: dict[int, int], before: Sequence[Item], after: Sequence[Item]) -> None:
    """Match messages without an id that were masked or cut, in order, from the end."""
    originals = {now: place for place, now in matched.items()}
    since = _latest_before(originals, len(after))
    until = len(before)
    for place in range(len(after) - 1, -1, -1):
        if place in originals:
            until = min(until, originals[place])
        elif is_message(after[place]):
            between = range(until - 1, max(since[place], until - 1 - _LOOK_BACK), -1)
            places = [each for each in between if each not in matched]
            found = _first_similar([before[each] for each in places], after[place])
            if found is not None:
                until = places[found]
                matched[until] = place


def _latest_before(originals: dict[int, int], length: int) -> list[int]:
    """For each position, the latest original position of all items before it."""
    latest, maximum = [], -1
    for place in range(length):
        latest.append(maximum)
        maximum = max(maximum, originals.get(place, -1))
    return latest


_MASK = re.compile(r"\[[a-z_]{3,12}\]|\*{3,}|…")


def _first_similar(candidates: Sequence[Item], now: Item) -> int | None:
    """The index of the first candidate that may be the original of `now`, masked or cut."""
    new = text_of(now)
    pieces = _MASK.split(new) if candidates else []
    # All summaries and nested histories begin and end alike, so similar ends prove nothing.
    is_exact = len(pieces) > 1 or is_transcript(now) or parse_summary(now) is not None
    for place, original in enumerate(candidates):
        if is_message(original) and original.get("role") == now.get("role"):
            old = text_of(original)
            if _in_order(pieces, old) if is_exact else _have_similar_ends(old, new):
                return place
    return None


def _have_similar_ends(old: str, new: str) -> bool:
    same = _common_prefix(old, new)
    rest = min(len(old), len(new)) - same
    same += _common_prefix(old[len(old) - rest :][::-1], new[len(new) - rest :][::-1])
    return 2 * same >= max(len(new), 1)


def _in_order(pieces: Sequence[str], text: str) -> bool:
    """Whether the text contains the pieces in order, with the first and last at its ends."""
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
        # A binary search over slices, which are compared in C, is faster than a loop over the
        # characters.
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
    """The outcome of one item of the original conversation."""

    index: int
    """The position before the filter. The first position is 0."""
    item: Item = field(repr=False)
    """The item after the filter. If the filter removed the item, this is the original item."""
    fate: Fate
    into: int | None
    """The position after the filter, or the position of the summary that contains the item. `None`
    if the item was dropped."""
    chars: int
    """The length of the item's original text."""
    chars_after: int
    """The length of the text after the filter; 0 if the item was removed."""

    @property
    def label(self) -> str:
        """The role or type of the item and its first words, with sensitive data masked."""
        return _label(self.item)

    def to_json(self) -> dict[str, Any]:
        """The row as plain JSON, without the item."""
        return _plain(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRow:
    """An item that the filter added."""

    index: int
    """The position after the filter. The first position is 0."""
    item: Item = field(repr=False)
    kind: Literal["summary", "nested", "added"]
    chars: int
    """The length of the text."""

    @property
    def label(self) -> str:
        """The role or type of the item and its first words, with sensitive data masked."""
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
    """Return the difference between two versions of a conversation, both as plain items.

    Items with equal content count as the same item. An item counts as changed if an item with the
    same id or call id has different content. An item also counts as changed if the item at the same
    position is a masked or shortened version of it. A missing item counts as summarised if a nested
    history or a summary in `after` covers it; otherwise it counts as dropped. The function takes
    linear time in the number of items. For example::

        report = filter_report(what_the_source_saw, what_the_target_sees)
        print(report.counts)
    """
    matched = match_items(before, after)
    summarised = _summarised_in(before, after, matched)
    rows = [
        _row(place, item, after, matched.get(place), summarised.get(place))
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


def _summarised_in(
    before: Sequence[Item], after: Sequence[Item], matched: dict[int, int]
) -> dict[int, int]:
    """For removed items: the position of the new message that contains or summarises them."""
    removed = [place for place in range(len(before)) if place not in matched]
    known = set(matched.values())
    new = [place for place in range(len(after)) if place not in known] if removed else []
    found = _nested_in(before, removed, [(place, parse_transcript(after[place])) for place in new])
    summaries = [(place, parse_summary(after[place])) for place in new]
    for place, summary in [pair for pair in summaries if pair[1] is not None][:_SUMMARIES]:
        assert summary is not None
        left = [one for one in removed if one not in found]
        until = min((was for was, now in matched.items() if now > place), default=len(before))
        found.update(dict.fromkeys(_last_of(left, summary.count, until), place))
    return found


_SUMMARIES = 8
"""The maximum number of summaries that are read; a filter makes one."""


def _nested_in(
    before: Sequence[Item],
    removed: Sequence[int],
    nested: Iterable[tuple[int, Sequence[Item] | None]],
) -> dict[int, int]:
    """For removed items: the position of the nested history that contains them.

    An older history or summary counts as contained, because nesting takes it apart.
    """
    inner = [(place, item) for place, items in nested for item in items or ()]
    if not inner:
        return {}
    matched = match_items([before[place] for place in removed], [item for _, item in inner])
    found = {removed[one]: inner[other][0] for one, other in matched.items()}
    for place in removed:
        item = before[place]
        if is_transcript(item) or parse_summary(item) is not None:
            found.setdefault(place, inner[0][0])
    return found


def _last_of(removed: Sequence[int], count: int, until: int) -> Sequence[int]:
    """The `count` removed items that a summary replaces: the nearest ones before `until`."""
    border = bisect_left(removed, until)
    nearest = removed[max(border - count, 0) : border]
    return [*nearest, *removed[border : border + count - len(nearest)]]


def _row(
    place: int, item: Item, after: Sequence[Item], now: int | None, summary: int | None
) -> FilterRow:
    old = texts_of(item)
    new = () if now is None else old if after[now] == item else texts_of(after[now])
    fate: Fate
    if now is not None:
        fate = "kept" if old == new else "changed"
    else:
        fate = "dropped" if summary is None else "summarised"
    return FilterRow(
        index=place,
        item=item if now is None else after[now],
        fate=fate,
        into=summary if now is None else now,
        chars=sum(map(len, old)),
        chars_after=sum(map(len, new)),
    )


def _new_row(place: int, item: Item) -> NewRow:
    kind: Literal["summary", "nested", "added"] = "added"
    if is_transcript(item):
        kind = "nested"
    elif parse_summary(item) is not None:
        kind = "summary"
    return NewRow(index=place, item=item, kind=kind, chars=sum(map(len, texts_of(item))))


def _plain(row: FilterRow | NewRow) -> dict[str, Any]:
    named = [each.name for each in fields(row) if each.name not in ("index", "item")]
    return {"index": row.index, "label": row.label, **{name: getattr(row, name) for name in named}}


def _label(item: Item) -> str:
    """One line about an item for people: its role or type, and a masked excerpt."""
    if is_message(item):
        label = str(item.get("role"))
    else:
        name, label = item.get("name"), str(item.get("type") or "item")
        label = f"{label} {plain_line(name, 64)}" if isinstance(name, str) else label
    text = next(iter(texts_of(item)), "")
    excerpt = plain_line(redact_text(text[: 4 * _EXCERPT]), _EXCERPT)
    return f"{plain_line(label, 100)}: {excerpt}" if excerpt else plain_line(label, 100)


def _bare(item: Item) -> Item:
    return {name: item[name] for name in ("type", "role", "name") if name in item}
