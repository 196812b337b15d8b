"""Finding items: filters, and pages that do not depend on how many there are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ekiden.core.errors import UserError
from ekiden.core.inbox_item import InboxItem, InboxKind, InboxStatus
from ekiden.core.jsonio import dumps
from ekiden.inbox.documents import DONE_ORDER, OPEN_ORDER, ORDER, as_item
from ekiden.inbox.items import folded
from ekiden.inbox.life import due_changes, is_snoozed
from ekiden.storage.base import DocumentStore

StatusFilter: TypeAlias = InboxStatus | Literal["closed", "any"]
"""`closed`: all but open ones."""

_CURSOR = re.compile(r"(1/[5-8]|2)/[0-9]{17}/[A-Za-z0-9_\-.:@]{1,128}", re.ASCII)
_PAGE = 200
_MAX_LIMIT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxQuery:
    """Which items; `None` does not restrict."""

    status: StatusFilter = "open"
    role: str | None = None
    assignee: str | None = None
    """The person whose they are; empty: only those that are nobody's."""
    kind: InboxKind | None = None
    agent: str | None = None
    """Who asks."""
    session_id: str | None = None
    priority: int | None = None
    """Of this priority."""
    snoozed: bool = False
    """Also those that are snoozed."""
    text: str | None = None
    """Only those that say this somewhere, in whatever case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxPage:
    """Some items, and how to get the next ones, if there may be any.

    Open ones come by urgency, the newest first; then those that are closed, the last one first.
    """

    items: Sequence[InboxItem]
    next_cursor: str | None


async def find_items(
    store: DocumentStore, query: InboxQuery, *, now_us: int, limit: int, cursor: str | None
) -> InboxPage:
    """One page; `UserError` for a malformed cursor or a limit that is none.

    A page begins behind the last item of the page before, whatever changed meanwhile.
    """
    if not 1 <= limit <= _MAX_LIMIT:
        raise UserError(f"a page has 1 to {_MAX_LIMIT} inbox items, not {limit}")
    if cursor is not None and not _CURSOR.fullmatch(cursor):
        raise UserError(
            f"{cursor[:40]!r} is not a cursor of an inbox list: pass the `next_cursor` of a page"
        )
    found: list[InboxItem] = []
    prefix, after, last = _range(query.status), cursor or "", None
    while True:
        documents = await store.list_documents(ORDER, prefix=prefix, after=after, limit=_PAGE)
        for document in documents:
            item = as_item(document)
            if not matches(item, query, now_us=now_us):
                continue
            if len(found) == limit:
                return InboxPage(items=found, next_cursor=last)
            found.append(item)
            last = document.key
        if len(documents) < _PAGE:
            return InboxPage(items=found, next_cursor=None)
        if len(found) == limit:
            return InboxPage(items=found, next_cursor=last)
        after = documents[-1].key


def matches(item: InboxItem, query: InboxQuery, *, now_us: int) -> bool:
    """Whether the query is for this item; one whose time is over is not open any more."""
    if not _has_status(item, query, now_us):
        return False
    people = ((query.role, item.role), (query.assignee, item.assignee or ""))
    if any(wanted is not None and folded(wanted) != folded(has) for wanted, has in people):
        return False
    pairs = (
        (query.kind, item.kind),
        (query.agent, item.from_agent),
        (query.session_id, item.session_id),
        (query.priority, item.priority),
    )
    if any(wanted is not None and wanted != has for wanted, has in pairs):
        return False
    return query.text is None or folded(query.text) in folded(_words(item))


def _has_status(item: InboxItem, query: InboxQuery, now_us: int) -> bool:
    if item.status != "open":
        return query.status in (item.status, "closed", "any")
    if query.status not in ("open", "any"):
        return False
    if any(change.item.status != "open" for change in due_changes(item, now_us)):
        return False
    return query.snoozed or not is_snoozed(item, now_us)


def _range(status: StatusFilter) -> str:
    return {"open": OPEN_ORDER, "any": ""}.get(status, DONE_ORDER)


def _words(item: InboxItem) -> str:
    """All that an item says."""
    answer = item.answer
    said = () if answer is None else (answer.choice, answer.text, answer.by)
    parts = (
        item.id,
        item.subject,
        item.body,
        item.from_agent,
        item.role,
        item.assignee or "",
        item.tool or "",
        item.arguments or "",
        *item.options,
        "" if item.context is None else dumps(item.context),
        *said,
        item.reason,
    )
    return "\n".join(parts)
