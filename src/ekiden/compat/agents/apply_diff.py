"""Diffs without line numbers, as models write them (V4A): sections found by their context."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

ApplyDiffMode: TypeAlias = Literal["default", "create"]

_END = "*** End Patch"
_END_OF_FILE = "*** End of File"
_NEXT_FILE = (_END, "*** Update File:", "*** Delete File:", "*** Add File:")


@dataclass
class _Change:
    """Lines to replace: `at` counts from the start of its section."""

    at: int
    removed: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)


def apply_diff(input: str, diff: str, mode: ApplyDiffMode = "default") -> str:
    """Apply a diff to a text, and return the new text.

    With mode ``create`` the diff alone makes the text. Raises `ValueError` for a line that is not
    part of a diff, and for context that is not found.
    """
    source = diff if mode == "create" or "\n" not in input else input
    newline = "\r\n" if "\r\n" in source else "\n"
    lines = diff.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    if mode == "create":
        return newline.join(_created(lines))
    before = input.replace("\r\n", "\n").split("\n")
    return newline.join(_updated(before, lines))


def _created(lines: list[str]) -> list[str]:
    made = []
    for line in lines:
        if line.startswith(_NEXT_FILE):
            break
        if not line.startswith("+"):
            raise ValueError(f"Invalid Add File Line: {line}")
        made.append(line[1:])
    return made


def _updated(before: list[str], lines: list[str]) -> list[str]:
    changes: list[_Change] = []
    index = cursor = 0
    while index < len(lines) and not lines[index].startswith((*_NEXT_FILE, _END_OF_FILE)):
        anchors = []
        while index < len(lines) and (lines[index] == "@@" or lines[index].startswith("@@ ")):
            anchors.append(lines[index][3:])
            index += 1
        if not anchors and cursor:
            raise ValueError(f"Invalid Line:\n{lines[index]}")
        for place, anchor in enumerate(each for each in anchors if each.strip()):
            found = _after_anchor(before, anchor, cursor, forward=place > 0)
            if found is None and len(anchors) > 1:
                raise ValueError(f"Invalid Anchor {cursor}:\n{anchor}")
            cursor = cursor if found is None else found
        context, found_changes, index, at_end = _section(lines, index)
        start = _find(before, context, cursor, at_end=at_end)
        if start is None:
            kind = "EOF Context" if at_end else "Context"
            raise ValueError(f"Invalid {kind} {cursor}:\n" + "\n".join(context))
        cursor = start + len(context)
        changes += [_Change(each.at + start, each.removed, each.added) for each in found_changes]
    return _replaced(before, changes)


def _after_anchor(before: list[str], anchor: str, cursor: int, *, forward: bool) -> int | None:
    """The line after the anchor; `cursor` if the anchor is above it already."""
    for same in (_as_it_is, str.strip):
        wanted = same(anchor)
        if not forward and any(same(line) == wanted for line in before[:cursor]):
            return cursor
        for place in range(cursor, len(before)):
            if same(before[place]) == wanted:
                return place + 1
    return None


def _section(lines: list[str], index: int) -> tuple[list[str], list[_Change], int, bool]:
    """Lines up to the next section: the old ones, the changes, where it ends, if at the end."""
    begun = index
    context: list[str] = []
    changes: list[_Change] = []
    current: _Change | None = None
    while index < len(lines):
        line = lines[index] or " "
        if line.startswith(("@@", _END_OF_FILE, *_NEXT_FILE)) or line == "***":
            break
        if line.startswith("***") or line[0] not in "+- ":
            raise ValueError(f"Invalid Line: {line}")
        index += 1
        if line[0] == " ":
            current = None
            context.append(line[1:])
            continue
        if current is None:
            current = _Change(len(context))
            changes.append(current)
        if line[0] == "-":
            current.removed.append(line[1:])
            context.append(line[1:])
        else:
            current.added.append(line[1:])
    if index < len(lines) and lines[index] == _END_OF_FILE:
        return context, changes, index + 1, True
    if index == begun:
        following = lines[index] if index < len(lines) else _END
        raise ValueError(f"Nothing in this section - index={index} {following}")
    return context, changes, index, False


def _as_it_is(line: str) -> str:
    return line


_LOOSENESS: tuple[Callable[[str], str], ...] = (_as_it_is, str.rstrip, str.strip)


def _find(before: list[str], context: list[str], start: int, *, at_end: bool) -> int | None:
    """Where the context is: exactly, else but for spaces at the end, else but for spaces."""
    if at_end:
        real = before[:-1] if before and before[-1] == "" else before
        last = max(0, len(real) - len(context))
        found = _find(real, context, last, at_end=False)
        return _find(real, context, min(start, len(real)), at_end=False) if found is None else found
    if not context:
        return start
    for same in _LOOSENESS:
        wanted = [same(line) for line in context]
        for place in range(start, len(before) - len(context) + 1):
            if [same(line) for line in before[place : place + len(context)]] == wanted:
                return place
    return None


def _replaced(before: list[str], changes: list[_Change]) -> list[str]:
    after: list[str] = []
    cursor = 0
    for change in changes:
        if change.at > len(before):
            raise ValueError(f"applyDiff: chunk.origIndex {change.at} > input length {len(before)}")
        if change.at < cursor:
            raise ValueError(f"applyDiff: overlapping chunk at {change.at} (cursor {cursor})")
        after += [*before[cursor : change.at], *change.added]
        cursor = change.at + len(change.removed)
    return [*after, *before[cursor:]]
