"""Defines `Inbox`, which stores questions to people and their answers, and searches in them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from ekiden.core.approvals import AlwaysScope, Limits
from ekiden.core.checks.fields import Checked, checked_arguments
from ekiden.core.current_agent import acting_agent
from ekiden.core.documents import Value
from ekiden.core.errors import EkidenError, StaleDocument, UserError
from ekiden.core.errors.messages import InboxAnswerInvalid, InboxItemClosed
from ekiden.core.questions import InboxAnswer, InboxItem, InboxKind, InboxStatus
from ekiden.core.values import dumps
from ekiden.inbox.answers import Reply, answered, in_bulk, person, refuse_agents
from ekiden.inbox.changes import (
    Decide,
    ItemWaits,
    all_of,
    change_event,
    change_item,
    closed_error,
    read_current,
    run_due,
    time_text,
)
from ekiden.inbox.items import (
    DONE_ORDER,
    OPEN_ORDER,
    ORDER,
    InboxChange,
    InboxSettings,
    Writes,
    as_item,
    check_name,
    closed,
    due_changes,
    fingerprint,
    folded,
    ids_with,
    is_snoozed,
    post_writes,
    prepared,
    read_item,
)
from ekiden.storage.base import Batch, DocumentStore, Store

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
    if type(limit) is not int or not 1 <= limit <= _MAX_LIMIT:
        raise UserError(f"a page must have 1 to {_MAX_LIMIT} inbox items, not {limit!r:.40}")
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


PROGRAM = "program"
_BULK = 64
_MAX_REASON = 2_000
_LONGEST_S = 1e9
_SETTINGS = InboxSettings()
_OPEN = InboxQuery()


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkAnswer(Value):
    """The result of one answer to all identical items."""

    answered: tuple[str, ...]
    """The ids of the answered items."""
    closed: int
    """The number of identical items that were closed before the answer."""


class Inbox:
    """Questions to people, kept in a store. An `Inbox` can be the `people` of a `Bus`.

    Any number of processes may use one store. Each change is one transaction, which also stores an
    event with actor, time and origin, and wakes the waiting session. All times come from the clock
    of the store::

        inbox = Inbox(store)
        item = await inbox.post(
            InboxItem(kind="approval", from_agent="sales", subject="15 % for 山田?",
                      options=("yes", "no"))
        )
        await inbox.answer(item.id, choice="yes", by="安娜")
    """

    @checked_arguments
    def __init__(self, store: Store, *, settings: InboxSettings = _SETTINGS) -> None:
        self._store = store
        self._settings = settings
        self._waiting = ItemWaits(store)

    # Asking

    async def post(self, item: InboxItem) -> InboxItem:
        """Store a question, and return the stored item without waiting.

        If the store already has this question under the same id, the call returns the stored item.
        Raises `UserError` for an invalid item, or if the id belongs to another question.
        """
        return (await self._post(item))[0]

    async def _post(self, item: InboxItem, *, waits: bool = False) -> tuple[InboxItem, bool]:
        """The stored item, and whether it is new; with `waits`, this process waits for it."""
        now_us = await self._store.now_us()
        new = prepared(item, self._settings, now_us=now_us)
        posted = InboxChange(name="posted", item=new, by="", via=PROGRAM, at_us=now_us)
        documents = post_writes(new)
        if waits:
            documents.append(self._waiting.presence(item.id, now_us))
        batch = Batch(documents=documents, events=[change_event(posted, now_us=now_us)])
        try:
            await self._store.write(batch)
        except StaleDocument:
            there = await self.get(item.id)
            if fingerprint(there) != fingerprint(new):
                raise UserError(f"another inbox item is called {item.id}") from None
            return there, False
        return replace(new, version=1), True

    def item_writes(self, item: InboxItem) -> Writes:
        """Return the store writes that create the item. Use this method to commit the item together
        with other writes, such as the writes of the waiting session. The item must have
        `created_at_us`.

        If the store already has an item with this id, your commit raises `StaleDocument`. This
        method raises `UserError` in the same cases as `post`.
        """
        if not item.created_at_us:
            raise UserError("the inbox item needs `created_at_us`: the store's `now_us`")
        return post_writes(prepared(item, self._settings, now_us=item.created_at_us))

    async def ask_person(self, item: InboxItem) -> InboxAnswer:
        """Store a question and wait for its answer. The wait has no limit unless the question has a
        deadline.

        If you cancel the call, the question is withdrawn, unless other callers wait for the same
        item. Raises `InboxItemClosed` if the item was cancelled, or expired without a default
        answer.
        """
        posting = asyncio.ensure_future(self._post(item, waits=True))
        try:
            _, is_new = await asyncio.shield(posting)
            await self._waiting.until_closed(item.id, is_stored=is_new)
        except asyncio.CancelledError:
            # The item may be stored although this call was cancelled, so the write is awaited
            # first.
            await _run_to_end(self._withdraw(item.id, posting))
            raise
        return answer_of(await self.get(item.id))

    # Reading

    async def get(self, item_id: str) -> InboxItem:
        """Return the current item, open or closed. Raises `InboxItemNotFound`."""
        return await read_current(self._store, item_id)

    async def list(
        self, query: InboxQuery = _OPEN, *, limit: int = 50, cursor: str | None = None
    ) -> InboxPage:
        """Return one page of items. Open items come first, sorted by priority, and newest first
        within a priority. Closed items follow, last closed first.

        Raises `UserError` for a malformed cursor or an invalid limit.
        """
        now_us = await self._store.now_us()
        await run_due(self._store, now_us=now_us)
        return await find_items(self._store, query, now_us=now_us, limit=limit, cursor=cursor)

    async def ids(self, prefix: str) -> tuple[str, ...]:
        """Return at most ten ids that begin with `prefix`. Ids of open items come first. If
        `prefix` is a complete id, the result is only this id."""
        if await read_item(self._store, prefix) is not None:
            return (prefix,)
        return tuple(await ids_with(self._store, prefix))

    # Deciding

    async def answer(
        self,
        item_id: str,
        *,
        by: str,
        choice: str | None = None,
        text: str = "",
        arguments: str | None = None,
        always: bool = False,
        scope: AlwaysScope = "call",
        limits: Limits | None = None,
        confirm_edit: bool = False,
        seen_version: int | None = None,
        via: str = PROGRAM,
    ) -> InboxItem:
        """Answer a question in the name of the person `by`, and return the answered item. An item
        can be answered only once.

        `choice` is one of the item's options, ignoring case. If the item has no options, pass
        `text` instead. If `arguments` differ from the arguments in the item, ``confirm_edit=True``
        is required. `always` also approves later calls of the tool in the session; `scope` and
        `limits` choose which, see `Approval.scope`. With `seen_version`, the answer is refused
        if the item has changed since that version.

        Raises `InboxItemClosed` with the name of the person who answered first, and
        `InboxAnswerInvalid` with the valid answers. Raises `InboxForbidden` if an agent tries to
        answer, and `InboxItemNotFound` for an unknown id.
        """
        reply = Reply(
            choice=choice,
            text=text,
            arguments=arguments,
            always=always,
            scope=scope,
            limits=limits,
            confirm_edit=confirm_edit,
            seen_version=seen_version,
            by=by,
            via=via,
        )
        return await self._reply(item_id, reply)

    async def answer_identical(
        self,
        item_id: str,
        *,
        by: str,
        choice: str | None = None,
        text: str = "",
        arguments: str | None = None,
        always: bool = False,
        scope: AlwaysScope = "call",
        limits: Limits | None = None,
        via: str = PROGRAM,
    ) -> BulkAnswer:
        """Give the same answer to the item and to all other open items with the same content, such
        as agent, subject, tool and arguments.

        Each item is answered only once, as with `answer`. Raises `InboxAnswerInvalid` if
        `arguments` differ from the arguments in the item.
        """
        refuse_agents("answer")
        item = await self.get(item_id)
        if item.status != "open":
            raise closed_error(item)
        given = Reply(
            choice=choice,
            text=text,
            arguments=arguments,
            always=always,
            scope=scope,
            limits=limits,
            by=by,
            via=via,
        )
        reply = in_bulk(item, given)
        answered(item, reply, at_us=0)  # Raises for an invalid reply, before any item is answered.
        done: list[str] = []
        lost = 0
        async for ids in self._alike(item):
            outcomes = await all_of(self._reply_if_open(each, reply) for each in ids)
            done += [each for each, was_open in zip(ids, outcomes, strict=True) if was_open]
            lost += outcomes.count(False)
        return BulkAnswer(answered=tuple(done), closed=lost)

    async def assign(
        self, item_id: str, to: str | None, *, by: str, via: str = PROGRAM
    ) -> InboxItem:
        """Assign the item to a person; `None` removes the assignment. Other people may still answer
        the item."""
        refuse_agents("assign")
        who = person(by)
        name = None if to is None else check_name(to, what="the name of the assignee")

        def decide(item: InboxItem, now_us: int) -> InboxChange:
            after = replace(item, assignee=name)
            return InboxChange(name="assigned", item=after, by=who, via=via, at_us=now_us)

        return await change_item(self._store, item_id, decide)

    async def snooze(
        self,
        item_id: str,
        *,
        by: str,
        for_s: float | None = None,
        until_us: int | None = None,
        via: str = PROGRAM,
    ) -> InboxItem:
        """Hide the item for a time. The item stays open, and its session keeps waiting.

        The item reappears after this time, or earlier if it is escalated. Raises
        `InboxAnswerInvalid` if the snooze would not end before the deadline of the item.
        """
        refuse_agents("snooze")
        who = person(by)

        def decide(item: InboxItem, now_us: int) -> InboxChange:
            until = _until(item, now_us, for_s=for_s, until_us=until_us)
            after = replace(item, snoozed_until_us=until)
            return InboxChange(name="snoozed", item=after, by=who, via=via, at_us=now_us)

        return await change_item(self._store, item_id, decide)

    async def cancel(
        self, item_id: str, *, by: str, reason: str = "", via: str = PROGRAM
    ) -> InboxItem:
        """Withdraw a question. The waiting session is notified that it gets no answer.

        An agent may withdraw only its own questions.
        """
        who = person(by)

        def decide(item: InboxItem, now_us: int) -> InboxChange:
            refuse_agents("cancel", owner=item.from_agent)
            name = acting_agent() or who
            return _cancelled(item, now_us, by=name, via=via, reason=reason)

        return await self._close(item_id, decide)

    # Internal

    async def _reply(self, item_id: str, reply: Reply) -> InboxItem:
        refuse_agents("answer")
        return await self._close(item_id, lambda item, now_us: answered(item, reply, at_us=now_us))

    async def _reply_if_open(self, item_id: str, reply: Reply) -> bool:
        try:
            await self._reply(item_id, reply)
        except InboxItemClosed:
            return False
        return True

    async def _close(self, item_id: str, decide: Decide) -> InboxItem:
        item = await change_item(self._store, item_id, decide)
        self._waiting.hint(item_id)
        return item

    async def _alike(self, item: InboxItem) -> AsyncIterator[Sequence[str]]:
        """The ids of identical open items, in pages, beginning with the item itself."""
        yield [item.id]
        mark, cursor = fingerprint(item), None
        everything = InboxQuery(kind=item.kind, agent=item.from_agent, snoozed=True)
        while True:
            page = await self.list(everything, limit=_BULK, cursor=cursor)
            alike = [each.id for each in page.items if fingerprint(each) == mark]
            yield [each for each in alike if each != item.id]
            cursor = page.next_cursor
            if cursor is None:
                return

    async def _withdraw(
        self, item_id: str, posting: asyncio.Future[tuple[InboxItem, bool]]
    ) -> None:
        def decide(item: InboxItem, now_us: int) -> InboxChange:
            why = "the asker stopped waiting"
            return _cancelled(item, now_us, by=item.from_agent, via=PROGRAM, reason=why)

        await asyncio.wait({posting})
        with suppress(EkidenError):
            posting.result()
            if await self._waiting.give_up(item_id):
                await change_item(self._store, item_id, decide)


def answer_of(item: InboxItem) -> InboxAnswer:
    """Return the answer. Raises `InboxItemClosed` if the item was cancelled or expired."""
    if item.answer is None:
        raise closed_error(item)
    return item.answer


def _cancelled(item: InboxItem, now_us: int, *, by: str, via: str, reason: str) -> InboxChange:
    after = closed(item, status="cancelled", by=by, at_us=now_us, reason=reason[:_MAX_REASON])
    is_asker = by == item.from_agent
    return InboxChange(
        name="cancelled", item=after, by="" if is_asker else by, via=via, at_us=now_us
    )


def _until(item: InboxItem, now_us: int, *, for_s: float | None, until_us: int | None) -> int:
    if (for_s is None) == (until_us is None):
        raise InboxAnswerInvalid("a snooze needs either `for_s` or `until_us`")
    if for_s is not None and not 0 < for_s <= _LONGEST_S:
        raise InboxAnswerInvalid(f"`for_s` must be above 0 seconds, not {for_s}")
    until = now_us + round((for_s or 0) * 1e6) if until_us is None else until_us
    if not now_us < until <= now_us + _LONGEST_S * 1e6:
        raise InboxAnswerInvalid("`until_us` must be in the future")
    if item.deadline_us is not None and until >= item.deadline_us:
        raise InboxAnswerInvalid(
            f"inbox item {item.id} has a deadline before that, {time_text(item.deadline_us)}: "
            "snooze it for less, or answer it"
        )
    return until


async def _run_to_end(work: Coroutine[Any, Any, None]) -> None:
    """Wait until the work is done, even if this task is cancelled again."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(task)
