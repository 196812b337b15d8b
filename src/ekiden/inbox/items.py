"""Inbox items: settings, checks, changes that time causes, and stored documents.

An open item is closed once: it is answered, is cancelled, or expires. Until then the item can be
assigned and snoozed, and follows its escalation chain. Changes that time causes depend only on the
item and the clock. So every reader sees the same item, whether or not the change is already stored.

Each item is stored in two documents. One document has the item's id as key, and its version decides
which answer was first. The other document is in the order of the list, so a page is read without
reading all items. The two documents are always written in one transaction, so they have the same
version.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Annotated, Literal, TypeAlias

from ekiden.core.checks.fields import Checked, check_fields
from ekiden.core.checks.kinds import Allowed
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import UserError
from ekiden.core.questions import (
    DEFAULT_ROLE,
    NOBODY,
    EscalationStep,
    InboxAnswer,
    InboxItem,
    option_texts,
)
from ekiden.core.values import check_id, dumps, priority_number
from ekiden.storage.base import Document, DocumentStore, DocumentWrite
from ekiden.storage.timers import Timer, timer_removal, timer_write

ChangeName: TypeAlias = Literal[
    "posted", "assigned", "snoozed", "back", "escalated", "answered", "expired", "cancelled"
]
"""The kind of a change. `back` is the end of a snooze."""

CLOCK = "clock"
"""The origin (`via`) of changes that time causes."""
_US = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxChange:
    """A change of an inbox item."""

    name: ChangeName
    item: InboxItem
    """The item after the change."""
    by: str
    via: str
    at_us: int
    edited: bool = False
    """For `answered`: whether the person changed the arguments."""


def is_snoozed(item: InboxItem, now_us: int) -> bool:
    """Whether the item is snoozed at this time."""
    return item.snoozed_until_us is not None and item.snoozed_until_us > now_us


def next_due_us(item: InboxItem) -> int | None:
    """When time next changes the item, for example when it expires; `None` if time does not change
    it."""
    return None if item.status != "open" else min(_times(item), default=None)


def due_changes(item: InboxItem, now_us: int) -> list[InboxChange]:
    """The changes that time has caused up to now, in order, each with the time at which it was
    due."""
    changes: list[InboxChange] = []
    while True:
        due = next_due_us(item)
        if due is None or due > now_us:
            return changes
        change = _due_change(item, due)
        changes.append(change)
        item = change.item


def closed(
    item: InboxItem,
    *,
    status: Literal["answered", "expired", "cancelled"],
    by: str,
    at_us: int,
    reason: str = "",
    answer: InboxAnswer | None = None,
) -> InboxItem:
    """A copy of the item with the values of a closed item."""
    return replace(
        item,
        status=status,
        answer=answer,
        closed_at_us=at_us,
        closed_by=by,
        reason=reason,
        snoozed_until_us=None,
    )


def escalation_start_us(item: InboxItem) -> int | None:
    """The time of a new item's first escalation; `None` without an escalation chain."""
    if item.escalate_at_us is not None or not item.chain:
        return item.escalate_at_us
    return item.created_at_us + round(item.chain[0].after_s * _US)


def _times(item: InboxItem) -> list[int]:
    times = (item.deadline_us, item.escalate_at_us if item.chain else None, item.snoozed_until_us)
    return [each for each in times if each is not None]


def _due_change(item: InboxItem, due: int) -> InboxChange:
    if item.deadline_us == due:
        return _expired(item, due)
    if item.chain and item.escalate_at_us == due:
        return _escalated(item, due)
    back = replace(item, snoozed_until_us=None)
    return InboxChange(name="back", item=back, by=NOBODY, via=CLOCK, at_us=due)


def _expired(item: InboxItem, due: int) -> InboxChange:
    answer = None
    if item.default is not None:
        answer = InboxAnswer(
            choice=item.default if item.options else "",
            text="" if item.options else item.default,
            by=NOBODY,
            at_us=due,
            via=CLOCK,
        )
    after = closed(
        item, status="expired", by=NOBODY, at_us=due, reason="no answer in time", answer=answer
    )
    return InboxChange(name="expired", item=after, by=NOBODY, via=CLOCK, at_us=due)


def _escalated(item: InboxItem, due: int) -> InboxChange:
    """The escalation to the next role, which ends an assignment or a snooze."""
    step, *rest = item.chain
    after = replace(
        item,
        role=step.role,
        assignee=None,
        snoozed_until_us=None,
        chain=tuple(rest),
        escalate_at_us=due + round(rest[0].after_s * _US) if rest else None,
    )
    return InboxChange(name="escalated", item=after, by=NOBODY, via=CLOCK, at_us=due)


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxSettings(Checked):
    """Defaults of inbox items."""

    role: Annotated[str, Allowed(what="a role's name")] = DEFAULT_ROLE
    """The role of the people who get questions that name no role."""
    escalation: tuple[EscalationStep, ...] = ()
    """The roles to ask next if there is no answer, each after a number of seconds. The setting
    applies to items for the role ``inbox.role`` if an agent waits for the answer. Items with their
    own escalation chain ignore the setting."""


MAX_NAME = 200
_MAX_SUBJECT = 2_000
_MAX_OPTIONS = 100
_MAX_OPTION = 500
_MAX_CHAIN = 50
_LONGEST_S = 1e9


def prepared(item: InboxItem, settings: InboxSettings, *, now_us: int) -> InboxItem:
    """Return a new item with defaults filled in. Raises `UserError` for an invalid item.

    The defaults are the creation time, the role and escalation chain of the settings, and the time
    of the first escalation. A second call changes nothing.
    """
    check_id(item.id, what="id of an inbox item")
    item = replace(item, options=option_texts(item.options))
    _check(item)
    if item.role == DEFAULT_ROLE:
        is_waited_for = not item.notice
        chain = item.chain or (settings.escalation if is_waited_for else ())
        item = replace(item, role=settings.role, chain=chain)
    for name in (item.role, *(step.role for step in item.chain)):
        check_name(name, what="a role's name")
    if item.assignee is not None:
        check_name(item.assignee, what="an assignee's name")
    default = None if item.default is None else canonical_default(item)
    item = replace(item, created_at_us=item.created_at_us or now_us, default=default)
    return replace(item, escalate_at_us=escalation_start_us(item))


def canonical_default(item: InboxItem) -> str:
    """The default in the spelling of the matching option. Raises `UserError` if no option
    matches."""
    default = item.default or ""
    if not item.options:
        return default
    for option in item.options:
        if folded(option) == folded(default):
            return option
    raise UserError(f"the default {default!r:.80} is not one of the options of the inbox item")


def check_name(name: str, *, what: str) -> str:
    """Return the name of a person or a role without surrounding space. Raises `UserError` for an
    invalid name."""
    stripped = name.strip() if isinstance(name, str) else ""
    problem = None
    if not stripped:
        problem = "must not be empty"
    elif len(stripped) > MAX_NAME:
        problem = f"must not be longer than {MAX_NAME} characters"
    elif any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in stripped):
        problem = "must be one line of text, without control characters"
    if problem is not None:
        raise UserError(f"{what} {problem}")
    return stripped


def folded(text: str) -> str:
    """The text for comparisons that ignore case, width and surrounding space."""
    if text.isascii():
        return text.lower().strip()
    return unicodedata.normalize("NFKC", text).casefold().strip()


def _check(item: InboxItem) -> None:
    check_fields(item)
    if item.status != "open":
        raise UserError(f"a new inbox item must be open, not {item.status!r:.40}")
    priority_number(item.priority)
    if not item.subject.strip() or len(item.subject) > _MAX_SUBJECT:
        raise UserError(
            f"an inbox item has a subject of 1 to {_MAX_SUBJECT} characters, not "
            f"{len(item.subject)}; put longer text into its body"
        )
    if not item.from_agent:
        raise UserError("an inbox item needs `from_agent`, the agent that asks")
    _check_options(item)
    _check_times(item)


def _check_options(item: InboxItem) -> None:
    if len(item.options) > _MAX_OPTIONS:
        raise UserError(f"an inbox item has at most {_MAX_OPTIONS} options, not more")
    seen: dict[str, str] = {}
    for option in item.options:
        key = folded(option)
        if not key or len(option) > _MAX_OPTION:
            raise UserError(f"an option must have 1 to {_MAX_OPTION} characters, not {len(option)}")
        if key in seen:
            raise UserError(f"the options {seen[key]!r:.80} and {option!r:.80} look the same")
        seen[key] = option


def _check_times(item: InboxItem) -> None:
    times = (item.created_at_us, item.deadline_us, item.escalate_at_us, item.snoozed_until_us)
    if any(each is not None and not 0 <= each < 10**17 for each in times):
        raise UserError("the times of an inbox item are microseconds since 1970")
    if len(item.chain) > _MAX_CHAIN:
        raise UserError(f"an escalation chain has at most {_MAX_CHAIN} steps")
    for step in item.chain:
        if step.after_s > _LONGEST_S:
            raise UserError(f"a step of an escalation comes after at most {_LONGEST_S:g} seconds")


OPEN = "inbox.open"
DONE = "inbox.done"
ORDER = "inbox.order"
"""The collection in the order of the list. Open items come first, sorted by priority, and newest
first within a priority. Closed items follow, last closed first."""
OPEN_ORDER = "1/"
DONE_ORDER = "2/"
TIMER = "inbox"

Writes: TypeAlias = list[DocumentWrite]

_LATEST_US = 10**17 - 1


def fingerprint(item: InboxItem) -> str:
    """A digest of an item. Items with the same digest are identical and can be answered
    together."""
    asked = (
        item.kind,
        item.from_agent,
        item.tool,
        item.tool_version,
        item.arguments,
        item.subject,
        item.body,
        item.options,
        item.context,
    )
    return sha256(dumps(asked).encode()).hexdigest()


def post_writes(item: InboxItem) -> Writes:
    """The writes that store a new item. The store raises `StaleDocument` if an open or closed item
    already has this id."""
    body = item.to_json()
    return [
        DocumentWrite(collection=OPEN, key=item.id, body=body, expected_version=0),
        DocumentWrite(collection=DONE, key=item.id, body=None, expected_version=0),
        DocumentWrite(collection=ORDER, key=order_key(item), body=body),
        *map(timer_write, _timers(item)),
    ]


def change_writes(before: InboxItem, after: InboxItem) -> Writes:
    """The writes that store the change of an open item. The store raises `StaleDocument` if the
    item has changed since it was read."""
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
    """The key of an item in the collection `ORDER`."""
    if item.status == "open":
        return f"{OPEN_ORDER}{9 - item.priority}/{_newest_first(item.created_at_us)}/{item.id}"
    return f"{DONE_ORDER}{_newest_first(item.closed_at_us or 0)}/{item.id}"


async def read_item(store: DocumentStore, item_id: str) -> InboxItem | None:
    """The stored item, open or closed; `None` if no item has this id."""
    if not is_id(item_id):
        return None
    for collection in (OPEN, DONE):  # In this order: an item may be closed between the reads.
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
    """Ids that begin with `prefix`. Ids of open items come first."""
    if not is_id(prefix):
        return []
    found: dict[str, None] = {}
    for collection in (OPEN, DONE):
        documents = await store.list_documents(collection, prefix=prefix, limit=limit)
        found.update(dict.fromkeys(document.key for document in documents))
    return list(found)[:limit]


def as_item(document: Document) -> InboxItem:
    """Read an item from its document."""
    return InboxItem.from_json(document.body, version=document.version)


def _timers(item: InboxItem) -> list[Timer]:
    due = next_due_us(item)
    return [] if due is None else [Timer(due_us=due, kind=TIMER, id=item.id)]


def _newest_first(at_us: int) -> str:
    return f"{max(_LATEST_US - at_us, 0):017d}"
