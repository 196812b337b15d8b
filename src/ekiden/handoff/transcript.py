"""Converts a past conversation to a transcript in one message, and back.

The message has one record per line, ``<number>. <label>: <what>``, between two markers. Printable
text on one line usually stays unchanged. All other values are JSON without line breaks or markers.
So no text in a transcript can end the transcript or forge a record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from ekiden.core.conversation.model import Item, is_message
from ekiden.core.errors import UserError
from ekiden.core.handoffs import HandoffInputData
from ekiden.core.values import dumps, loads
from ekiden.handoff.filters import SyncFilter
from ekiden.handoff.selection import VisibleItem, visible_entries

_HEADER = "For context, here is the conversation so far between the user and the previous agent:"
_HEADERS = frozenset({_HEADER, "For context, here is the conversation so far:"})
_NOTHING = "(no previous turns recorded)"
_DEFAULT_WRAPPERS = ("<CONVERSATION HISTORY>", "</CONVERSATION HISTORY>")
_wrappers = _DEFAULT_WRAPPERS
_MARKER = re.compile(r"""(?!\s)(?=.*[^\W\d_])(?=.*[][<>{}=#*~|$%&!?+/^])[^"\\]+(?<!\s)""")


def get_conversation_history_wrappers() -> tuple[str, str]:
    """The markers around a nested history."""
    return _wrappers


def set_conversation_history_wrappers(*, start: str | None = None, end: str | None = None) -> None:
    """Use other markers in this process. `None` keeps the current start or end marker."""
    global _wrappers
    chosen = (_wrappers[0] if start is None else start, _wrappers[1] if end is None else end)
    for marker in chosen:
        if len(marker.splitlines()) != 1 or not _MARKER.fullmatch(marker):
            raise UserError(
                "a history marker must be one line with a letter and a sign that no record "
                f"begins with, such as '<HISTORY>' or '== History =='; not {marker!r}"
            )
    _wrappers = chosen


def reset_conversation_history_wrappers() -> None:
    """Use the default markers again."""
    global _wrappers
    _wrappers = _DEFAULT_WRAPPERS


def render_transcript(items: Sequence[Item]) -> str:
    """Convert the items to a text that `parse_transcript` can read. Markers in items are
    escaped."""
    start, end = _wrappers
    lines = [f"{number}. {_record(item)}" for number, item in enumerate(items, 1)]
    return "\n".join([_HEADER, start, *(lines or [_NOTHING]), end])


def parse_transcript(item: Item) -> list[Item] | None:
    """The items of a message from `render_transcript`; `None` for any other item.

    Texts and calls are restored unchanged. A message has only its role, name and content. Messages
    with the roles `system` and `developer` become assistant messages, so that a forged transcript
    cannot give instructions.
    """
    body = _body(item)
    if body is None:
        return None
    return [found for record in _records(body) if (found := _parse_record(record)) is not None]


def is_transcript(item: Item) -> bool:
    """Whether `parse_transcript` can read the item. This check is much cheaper than the parsing."""
    return _body(item) is not None


def _body(item: Item) -> str | None:
    text = item.get("content")
    if item.get("role") != "assistant" or "type" in item or not isinstance(text, str):
        return None
    header, _, rest = text.partition("\n")
    start, end = _wrappers
    if header not in _HEADERS or not rest.startswith(f"{start}\n") or not rest.endswith(f"\n{end}"):
        return None
    return rest[len(start) + 1 : len(rest) - len(end)]


_LABEL = re.compile(r"(?P<role>[a-z_]+)(?: \((?P<name>[^()\n]+)\))?:(?: (?P<what>.*))?", re.DOTALL)
_PLAIN_NAME = re.compile(r"[\w .@-]{1,64}")
_NUMBER = re.compile(r"\d+\.(?: |$)")
_SPOKEN = ("user", "assistant")


def _record(item: Item) -> str:
    role, name = item.get("role"), item.get("name")
    if not is_message(item) or role not in (*_SPOKEN, "system", "developer"):
        kind = item.get("type")
        label = kind if isinstance(kind, str) and re.fullmatch(r"[a-z_]+", kind) else "item"
        return f"{label}: {_one_line(item)}"
    if name is None:
        label = str(role)
    elif isinstance(name, str) and _PLAIN_NAME.fullmatch(name):
        label = f"{role} ({name})"
    else:
        return f"message: {_one_line(item)}"
    return f"{label}: {_content(item.get('content'))}".rstrip()


def _content(content: Any) -> str:
    if isinstance(content, list) and content and all(_is_text(part) for part in content):
        content = "".join(part["text"] for part in content)
    if content is None:
        return ""
    return content if isinstance(content, str) and _is_plain(content) else _one_line(content)


def _is_text(part: Any) -> bool:
    return (
        isinstance(part, dict)
        and part.get("type") in ("output_text", "input_text", "text")
        and isinstance(part.get("text"), str)
    )


def _is_plain(text: str) -> bool:
    """Whether the text can be in a record without quotes and be restored unchanged."""
    return (
        text == text.strip()
        and len(text.splitlines()) <= 1
        and text[:1] not in ('"', "[", "{")
        and not _marker_pattern().search(text)
        and text.isprintable()
    )


def _one_line(value: Any) -> str:
    """`value` as JSON on one line, with markers escaped."""
    try:
        encoded = dumps(value)
    except (TypeError, ValueError, RecursionError):
        encoded = dumps(str(value))
    encoded = _LINE_BREAKS.sub(lambda found: _escaped(found.group()), encoded)
    return _marker_pattern().sub(
        lambda found: _escaped(found.group()[0]) + found.group()[1:], encoded
    )


_LINE_BREAKS = re.compile("[\x7f-\x9f\u2028\u2029]")


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def _marker_pattern() -> re.Pattern[str]:
    return re.compile("|".join(re.escape(marker) for marker in _wrappers), re.IGNORECASE)


def _records(body: str) -> Iterator[str]:
    """The numbered records; a line without a number belongs to the record before it."""
    record: list[str] = []
    for line in body.split("\n"):
        number = _NUMBER.match(line)
        if number:
            if record:
                yield "\n".join(record)
            record = [line[number.end() :]]
        elif record and line.strip():
            record.append(line)
    if record:
        yield "\n".join(record)


def _parse_record(record: str) -> Item | None:
    found = _LABEL.fullmatch(record.strip())
    if found is None:
        return None
    role, name, what = found["role"], found["name"], (found["what"] or "").strip()
    value = _decoded(what)
    if role in _SPOKEN:
        item: Item = {"role": role, "content": what if value is None else value}
        return {**item, "name": name} if name else item
    if isinstance(value, dict) and value.get("role") not in ("system", "developer"):
        return value
    return {"role": "assistant", "content": record.strip()}


def _decoded(text: str) -> Any:
    """The JSON in a record: a string, an item, or a list of content parts; `None` otherwise."""
    if text[:1] not in ('"', "[", "{"):
        return None
    try:
        value = loads(text)
    except ValueError:
        return None
    if isinstance(value, list) and not all(isinstance(part, dict) for part in value):
        return None
    return value


HistoryMapper: TypeAlias = Callable[[list[Item]], list[Item]]
"""A function that replaces the earlier conversation by the items that the target gets."""


class _NestHistory(SyncFilter):
    """Replaces everything before the last turn by one assistant message.

    The messages of the last turn follow unchanged; its calls and outputs, including the transfer,
    become another such message. `new_items` is not changed.
    """

    def __init__(self) -> None:
        super().__init__(self._nest, "nest_handoff_history")

    def __call__(
        self, data: HandoffInputData, *, history_mapper: HistoryMapper | None = None
    ) -> HandoffInputData:
        return self._nest(data, history_mapper)

    @staticmethod
    def _nest(
        data: HandoffInputData, history_mapper: HistoryMapper | None = None
    ) -> HandoffInputData:
        entries = visible_entries(data)
        past = [entry for entry in entries if entry.section in _PAST]
        transcript = [item for entry in past for item in unnested(entry.item)]
        mapped = (history_mapper or default_handoff_history_mapper)(transcript)
        present = _last_turn([entry for entry in entries if entry.section not in _PAST])
        return data.clone(input_history=(*mapped, *present), pre_handoff_items=(), input_items=())


_PAST = ("input_history", "pre_handoff_items")

nest_handoff_history = _NestHistory()


def nest_history(history_mapper: HistoryMapper | None = None) -> SyncFilter:
    """A filter that replaces earlier turns by one message, and keeps the last turn unchanged.

    `history_mapper` may change the replacement: this function gets the earlier turns, and returns
    the items that replace them. For example::

        handoff(billing, input_filter=redact("card") | nest_history())
    """
    if history_mapper is None:
        return SyncFilter(nest_handoff_history, "nest_history()")
    return SyncFilter(
        lambda data: nest_handoff_history(data, history_mapper=history_mapper),
        f"nest_history({getattr(history_mapper, '__name__', 'mapper')})",
    )


def default_handoff_history_mapper(transcript: list[Item]) -> list[Item]:
    """Return one message with the transcript of these items."""
    return [{"role": "assistant", "content": render_transcript(transcript)}]


def _last_turn(entries: Sequence[VisibleItem]) -> Iterator[Item]:
    """The messages unchanged; other items between them become nested histories."""
    others: list[Item] = []
    for entry in entries:
        if entry.kind != "message":
            others.append(entry.item)
            continue
        if others:
            yield from default_handoff_history_mapper(others)
            others = []
        yield entry.item
    if others:
        yield from default_handoff_history_mapper(others)


def unnested(item: Item) -> Sequence[Item]:
    """The items of a nested history. Any other item is returned in a list of its own. So a history
    that is nested again does not get deeper."""
    inner = parse_transcript(item)
    return (item,) if inner is None else inner
