"""Queries of inbox items: filters and pages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ekiden.core.checks.fields import Checked
from ekiden.core.errors import UserError
from ekiden.core.questions import InboxItem, InboxKind, InboxStatus
from ekiden.core.values import dumps
from ekiden.inbox.items import (
    DONE_ORDER,
    OPEN_ORDER,
    ORDER,
    as_item,
    due_changes,
    folded,
    is_snoozed,
)
from ekiden.storage.base import DocumentStore

StatusFilter: TypeAlias = Literal["open", "answered", "expired", "cancelled", "closed", "any"]
"""`closed` means everything except open."""

_CURSOR = re.compile(r"(1/[5-8]|2)/[0-9]{17}/[A-Za-z0-9_\-.:@]{1,128}", re.ASCII)
_TEXTS = (
    "id", "subject", "body", "from_agent", "role", "assignee", "tool", "arguments", "reason"
)  # fmt: skip
_PAGE = 200
_MAX_LIMIT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxQuery(Checked):
    """A filter for inbox items. A field of `None` matches all items."""

    status: StatusFilter = "open"
    role: str | None = None
    assignee: str | None = None
    """Only items assigned to this person. An empty text means unassigned items."""
    kind: InboxKind | None = None
    agent: str | None = None
    """Only items from this agent."""
    session_id: str | None = None
    priority: int | None = None
    """Only items with this priority."""
    snoozed: bool = False
    """Whether to include snoozed items."""
    text: str | None = None
    """Only items that contain this text, ignoring case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxPage:
    """A page of items, and the cursor of the next page. The cursor is `None` if there are no more
    items.

    Open items come first, sorted by priority, and newest first within a priority. Closed items
    follow, last closed first.
    """

    items: Sequence[InboxItem]
    next_cursor: str | None


async def find_items(
    store: DocumentStore, query: InboxQuery, *, now_us: int, limit: int, cursor: str | None
) -> InboxPage:
    """One page of items. Raises `UserError` for a malformed cursor or an invalid limit.

    A page begins after the last item of the previous page, even if items changed meanwhile.
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
            if not _may_match(document.body, query):
                continue
            item = as_item(document)
            if item.status == "open" and not _is_visible(item, query, now_us):
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


def _may_match(body: Mapping[str, Any], query: InboxQuery) -> bool:
    """Whether the item with this document matches the query.

    Checks the document, because creating items takes longer than reading documents, and most items
    do not match.
    """
    if not _has_status(body["status"], query.status):
        return False
    pairs = (
        (query.kind, "kind"),
        (query.agent, "from_agent"),
        (query.session_id, "session_id"),
        (query.priority, "priority"),
    )
    if any(wanted is not None and wanted != body[name] for wanted, name in pairs):
        return False
    people = ((query.role, "role"), (query.assignee, "assignee"))
    for wanted, name in people:
        if wanted is not None and folded(wanted) != folded(body[name] or ""):
            return False
    return query.text is None or folded(query.text) in folded(_words(body))


def _has_status(status: InboxStatus, wanted: StatusFilter) -> bool:
    return wanted in (status, "any") or (wanted == "closed" and status != "open")


def _is_visible(item: InboxItem, query: InboxQuery, now_us: int) -> bool:
    """Whether an open item is still open now, and not hidden by a snooze."""
    if any(change.item.status != "open" for change in due_changes(item, now_us)):
        return False
    return query.snoozed or not is_snoozed(item, now_us)


def _range(status: StatusFilter) -> str:
    return {"open": OPEN_ORDER, "any": ""}.get(status, DONE_ORDER)


def _words(body: Mapping[str, Any]) -> str:
    """The searchable text of an item."""
    answer = body["answer"] or {}
    context = body["context"]
    parts = (
        *(body[name] for name in _TEXTS),
        *body["options"],
        None if context is None else dumps(context),
        *(answer.get(name) for name in ("choice", "text", "by")),
    )
    return "\n".join(filter(None, parts))
