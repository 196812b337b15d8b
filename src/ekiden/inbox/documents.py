"""Items as documents.

Every item is stored twice in one transaction: under its id, where its version decides who was
first, and in the order of the list, so that a page is read without looking at all items. Both
documents are written together, so they have the same version.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import TypeAlias

from ekiden.core.errors import UserError
from ekiden.core.questions import InboxItem
from ekiden.core.values import check_id, dumps
from ekiden.inbox.life import next_due_us
from ekiden.storage.base import Document, DocumentStore, DocumentWrite
from ekiden.storage.timers import Timer, timer_removal, timer_write

OPEN = "inbox.open"
DONE = "inbox.done"
ORDER = "inbox.order"
"""Open items by urgency, newest first, then closed ones, those closed last first."""
OPEN_ORDER = "1/"
DONE_ORDER = "2/"
TIMER = "inbox"

Writes: TypeAlias = list[DocumentWrite]

_LATEST_US = 10**17 - 1


def fingerprint(item: InboxItem) -> str:
    """The same for items that ask the same thing: one answer fits all of them."""
    asked = (
        item.kind,
        item.from_agent,
        item.tool,
        item.arguments,
        item.subject,
        item.body,
        item.options,
        item.context,
    )
    return sha256(dumps(asked).encode()).hexdigest()


def post_writes(item: InboxItem) -> Writes:
    """Store a new item; `StaleDocument` if its id is taken, also by one that is closed."""
    body = item.to_json()
    return [
        DocumentWrite(collection=OPEN, key=item.id, body=body, expected_version=0),
        DocumentWrite(collection=DONE, key=item.id, body=None, expected_version=0),
        DocumentWrite(collection=ORDER, key=order_key(item), body=body),
        *map(timer_write, _timers(item)),
    ]


def change_writes(before: InboxItem, after: InboxItem) -> Writes:
    """Store what became of an open item; `StaleDocument` if it was changed since it was read."""
    body = after.to_json()
    written = DocumentWrite(collection=ORDER, key=order_key(after), body=body)
    old, new = _timers(before), _timers(after)
    timers = [
        *(timer_removal(each) for each in old if each not in new),
        *(timer_write(each) for each in new if each not in old),
    ]
    if after.status == "open":
        here = DocumentWrite(
            collection=OPEN, key=after.id, body=body, expected_version=before.version
        )
        return [here, written, *timers]
    return [
        DocumentWrite(collection=OPEN, key=after.id, body=None, expected_version=before.version),
        DocumentWrite(collection=DONE, key=after.id, body=body, expected_version=0),
        DocumentWrite(collection=ORDER, key=order_key(before), body=None),
        written,
        *timers,
    ]


def order_key(item: InboxItem) -> str:
    """The place of an item in the list."""
    if item.status == "open":
        return f"{OPEN_ORDER}{9 - item.priority}/{_newest_first(item.created_at_us)}/{item.id}"
    return f"{DONE_ORDER}{_newest_first(item.closed_at_us or 0)}/{item.id}"


async def read_item(store: DocumentStore, item_id: str) -> InboxItem | None:
    """The item as it is stored, open or closed; `None` if there is none."""
    if not is_id(item_id):
        return None
    for collection in (OPEN, DONE):  # An item moves in this direction only.
        document = await store.get_document(collection, item_id)
        if document is not None:
            return as_item(document)
    return None


def is_id(text: str) -> bool:
    """Whether an item could have this id."""
    try:
        check_id(text, what="id")
    except UserError:
        return False
    return True


async def ids_with(store: DocumentStore, prefix: str, *, limit: int = 10) -> Sequence[str]:
    """Ids that begin with `prefix`, those of open items first."""
    if not is_id(prefix):
        return []
    found: dict[str, None] = {}
    for collection in (OPEN, DONE):
        documents = await store.list_documents(collection, prefix=prefix, limit=limit)
        found.update(dict.fromkeys(document.key for document in documents))
    return list(found)[:limit]


def as_item(document: Document) -> InboxItem:
    """The item in a document."""
    return InboxItem.from_json(document.body, version=document.version)


def _timers(item: InboxItem) -> list[Timer]:
    due = next_due_us(item)
    return [] if due is None else [Timer(due_us=due, kind=TIMER, id=item.id)]


def _newest_first(at_us: int) -> str:
    return f"{max(_LATEST_US - at_us, 0):017d}"
