"""Finds which items of a conversation another version of it still has."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from ekiden.core.conversation.model import Item, is_message, refusal_of, text_of, to_input_item
from ekiden.core.values import dumps
from ekiden.handoff.filters.selection import call_key
from ekiden.handoff.filters.summaries import parse_summary
from ekiden.handoff.filters.transcript import is_transcript

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
