"""A summary as one message: how it is written, recognised, and made by rules alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unicodedata import category

from ekiden.core.conversation.model import Item, is_message, refusal_of, text_of
from ekiden.core.values import dumps
from ekiden.handoff.filters.selection import call_key, is_tool_kind
from ekiden.handoff.filters.transcript import unnested

BY_RULES = "by rules"
MIN_CHARS = 400

_START, _END = "<CONVERSATION SUMMARY>", "</CONVERSATION SUMMARY>"
_MARKER = re.compile(r"<(?=\s*/?\s*conversation\s+summary)", re.IGNORECASE)
_SUMMARY = re.compile(
    r"Summary of (?P<count>[0-9]{1,9}) earlier items? of this conversation \((?P<how>[^()\n]*)\):\n"
    rf"{_START}\n(?P<body>.*)\n{_END}",
    re.DOTALL,
)
_FAILED = ("Error", "error:", "Traceback", "Tool failed")
_TALLIED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a summary message says."""

    count: int
    """How many items it stands for, those of an earlier summary in it included."""
    how: str
    """Who made it, such as ``by rules``."""
    body: str


def summary_message(summary: Summary, *, max_chars: int) -> Item:
    """The message of a summary, at most `max_chars` long; nothing in the body can end it."""
    items = "item" if summary.count == 1 else "items"
    how = brief(summary.how, 100).replace("(", "").replace(")", "")
    head = f"Summary of {summary.count} earlier {items} of this conversation ({how}):\n{_START}\n"
    room = max_chars - len(head) - len(_END) - 1
    body = _MARKER.sub("‹", summary.body)
    if len(body) > room:
        body = body[: room - 1] + "…"
    return {"role": "assistant", "content": f"{head}{body}\n{_END}"}


def parse_summary(item: Item) -> Summary | None:
    """What a message that `summary_message` made says; `None` for any other item."""
    text = item.get("content")
    if item.get("role") != "assistant" or "type" in item or not isinstance(text, str):
        return None
    found = _SUMMARY.fullmatch(text)
    if found is None:
        return None
    return Summary(count=int(found["count"]), how=found["how"], body=found["body"])


def summarise_by_rules(items: Sequence[Item], *, max_chars: int, how: str = BY_RULES) -> Item:
    """One message that says in short who said what and which tools gave what.

    The same items always give the same text. What was asked first and what came last are told at
    greater length; where room runs out, the middle is left out, and that is said.
    """
    width = min(max((max_chars - MIN_CHARS // 2) // 8, 32), 240)
    flat = [each for item in items for each in unnested(item)]
    lines = list(_lines(flat, width))
    room = max_chars - MIN_CHARS // 2
    tally = _tally(flat, width)
    body = "\n".join([*tally, *_fitting(lines, room - sum(len(line) + 1 for line in tally))])
    return summary_message(Summary(count=count_of(items), how=how, body=body), max_chars=max_chars)


def count_of(items: Sequence[Item]) -> int:
    """How many items a summary of `items` stands for."""
    earlier = (parse_summary(item) for item in items)
    return sum(1 if each is None else each.count for each in earlier)


def brief(text: str, max_chars: int) -> str:
    """`text` as one line without control and invisible characters, cut at `max_chars`."""
    text = text[: 4 * max_chars]
    if not (text.isascii() and text.isprintable()):
        text = "".join(each if category(each)[0] != "C" else " " for each in text)
    line = " ".join(text.split())
    return line if len(line) <= max_chars else line[: max_chars - 1] + "…"


def _lines(items: Sequence[Item], width: int) -> Iterator[str]:
    outputs = {call_key(item): item for item in items if _is_output(item)}
    called = {call_key(item) for item in items if not _is_output(item)}
    spoken = [place for place, item in enumerate(items) if is_message(item)]
    for place, item in enumerate(items):
        earlier = parse_summary(item)
        if earlier is not None:
            yield from (brief(line, 2 * width) for line in earlier.body.split("\n") if line.strip())
        elif is_message(item):
            telling = place in (spoken[0], spoken[-1])
            yield f"- {item.get('role')}: {brief(_said(item), width * (2 if telling else 1))}"
        elif _is_output(item):
            if call_key(item) not in called:
                yield f"- {item.get('type')}: {brief(_text(item.get('output')), width)}"
        elif is_tool_kind(str(item.get("type"))):
            yield _call_line(item, outputs.get(call_key(item)), width)


def _call_line(call: Item, output: Item | None, width: int) -> str:
    arguments = brief(_text(call.get("arguments") or call.get("input") or ""), width // 2)
    line = f"- called {_tool(call)}({'' if arguments == '{}' else arguments})"
    if output is None:
        return line
    result = brief(_text(output.get("output")), width // 2)
    return f"{line}, {'which failed' if _failed(output) else 'got'}: {result}"


def _tally(items: Sequence[Item], width: int) -> list[str]:
    """How often each tool was called, as one line; none if there was no call."""
    calls = Counter(
        _tool(item)
        for item in items
        if is_tool_kind(str(item.get("type"))) and not _is_output(item)
    )
    failures = sum(1 for item in items if _is_output(item) and _failed(item))
    if not calls:
        return []
    most = sorted(calls.items(), key=lambda pair: (-pair[1], pair[0]))[:_TALLIED]
    named = ", ".join(f"{name} ×{count}" for name, count in most)
    rest = sum(calls.values()) - sum(count for _, count in most)
    more = f", {rest} of other tools" if rest else ""
    failed = f"; {failures} failed" if failures else ""
    return [brief(f"Tool calls: {named}{more}{failed}", 2 * width)]


def _fitting(lines: list[str], room: int) -> list[str]:
    """The first line and as many of the last as there is room for."""
    if sum(len(line) + 1 for line in lines) <= room:
        return lines
    room -= len(lines[0]) + len(_gap(len(lines))) + 2
    kept = len(lines)
    while kept > 1 and room >= len(lines[kept - 1]) + 1:
        kept -= 1
        room -= len(lines[kept]) + 1
    return [lines[0], _gap(kept - 1), *lines[kept:]]


def _gap(count: int) -> str:
    return f"- … {count} more left out …"


def _is_output(item: Item) -> bool:
    kind = str(item.get("type"))
    return kind.endswith("_output") or kind == "mcp_approval_response"


def _failed(output: Item) -> bool:
    text = output.get("output")
    return isinstance(text, str) and text.startswith(_FAILED)


def _tool(call: Item) -> str:
    return brief(str(call.get("name") or call.get("type")), 64)


def _said(message: Item) -> str:
    return text_of(message) or refusal_of(message) or "(no text)"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        texts = [str(part.get("text") or part.get("stdout") or "") for part in value
                 if isinstance(part, dict)]  # fmt: skip
        return " ".join(texts)
    return "" if value is None else dumps(value)
