"""Deletes one session with everything that belongs to it, or all old sessions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import Any, TypeAlias

from ekiden.core.conversation.messages import error_json
from ekiden.core.documents import Value
from ekiden.core.errors import SessionBusy, SessionNotFound, UserError
from ekiden.core.events import Event
from ekiden.core.values import owner_name
from ekiden.inbox.items import DONE, ORDER as INBOX_ORDER, as_item, order_key
from ekiden.runtime.questions.cancel_question import is_left, withdraw_stored
from ekiden.runtime.questions.sessions import ANSWERS
from ekiden.runtime.state.budget import shared_budget_removals
from ekiden.runtime.state.cursor import Cursor, open_questions
from ekiden.sessions.search import delete_with_texts
from ekiden.storage.base import (
    Claim,
    Commit,
    DocumentWrite,
    MessageFilter,
    MessageSettle,
    SessionFilter,
    SessionPatch,
    SessionRow,
    SessionStatus,
    Store,
)

ASKED_IN = "asked_in"
"""The key in a session's meta with the session whose agent opened this session, with a question or
a notice."""
_LEASE_S = 30.0
_PAGE = 200
_LONGEST_S = 100 * 365 * 86400
_IDLE: tuple[SessionStatus, ...] = ("idle",)
_REASON = "the session was deleted"
_DELETED = error_json("the session that was to answer was deleted", code="ask.deleted")


async def delete_session(
    store: Store, session_id: str, *, only_if: Callable[[SessionRow], bool] | None = None
) -> bool:
    """Delete the session, including its questions and waits.

    Its questions to people and agents are withdrawn. An agent that waits for the session's answer
    is notified that it gets no answer. Searches no longer find the session. Sessions that answer
    queries of this session are also deleted, unless they are running. A session that only got a
    notification from this session is deleted if it is finished. The function `only_if` is called
    while no other process can change the session. If it returns false, nothing is deleted, and the
    result is `False`. If the process crashes during the call, call `delete_session` again. Raises
    `SessionNotFound`, and `SessionBusy` while the session is running::

        await delete_session(store, "customer-42")
    """
    return bool(await remove_session(store, session_id, only_if=only_if))


async def remove_session(
    store: Store, session_id: str, *, only_if: Callable[[SessionRow], bool] | None = None
) -> list[str]:
    """Like `delete_session`, but returns the ids of all removed sessions. `only_if` also decides
    about the sessions that would be deleted together with this session."""
    await store.open()
    claim, row = await store.claim(session_id, owner=owner_name(), lease_s=_LEASE_S)
    try:
        if only_if is not None and not only_if(row):
            return []
        answering = await _detach(store, claim, row)
        removed: list[str] = []
        for asked in _asked_sessions(await store.events(row.id)):
            with suppress(SessionBusy, SessionNotFound):
                if asked in answering:
                    removed += await remove_session(store, asked)
                elif await _goes_along(store, asked, row.id, only_if):
                    removed += await remove_session(store, asked, only_if=only_if)
    finally:
        await store.release(claim)
    await _forget_messages(store, row.id)
    # After the release, because a claimed session cannot be deleted.
    await delete_with_texts(store, row)
    return [*removed, row.id]


async def _detach(store: Store, claim: Claim, row: SessionRow) -> set[str]:
    """Withdraw the session's questions and fail the question that it should answer; returns the
    sessions that work on its questions."""
    cursor = Cursor.from_json(row.cursor)
    questions, cursor.questions.open = list(cursor.questions.open.values()), {}
    shared_budgets = await shared_budget_removals(
        store, cursor.budget.shared_budget, cursor.budget.levels
    )
    if not questions and not shared_budgets and ANSWERS not in row.meta and row.status == "idle":
        return set()
    side = await withdraw_stored(store, questions, by=row.agent, reason=_REASON)
    if ANSWERS in row.meta:
        side.settles.append(MessageSettle(key=row.meta[ANSWERS], state="failed", answer=_DELETED))
    cursor.budget.shared_budget, cursor.budget.levels = None, []
    # The session becomes idle, so that no worker claims it before it is deleted.
    await store.commit(
        claim,
        Commit(
            patch=SessionPatch(
                status="idle", outcome="failed", conclusion="failed", cursor=cursor.to_json()
            ),
            events=(),
            documents=[*side.documents, *shared_budgets],
            settles=side.settles,
            wakes=side.wakes,
        ),
    )
    return set(side.wakes)


async def _forget_messages(store: Store, session_id: str) -> None:
    """Remove the session's messages to other agents, with the answers."""
    where = MessageFilter(session_id=session_id)
    while page := await store.find_messages(where, limit=_PAGE):
        keys = [each.key for each in page if each.key is not None]
        # Messages without a key stay, and the loop would read them again and again.
        if not keys:
            return
        await store.settle_messages(
            [MessageSettle(key=key, state="cancelled", forget=True) for key in keys]
        )


def _asked_sessions(events: Iterable[Event]) -> list[str]:
    """The sessions that were opened by the questions and notices in these events."""
    found: dict[str, None] = {}
    for event in events:
        for kind in ("asks", "tells"):
            sent = (event.details or {}).get(kind)
            session = sent.get("session") if isinstance(sent, Mapping) else None
            if isinstance(session, str):
                found[session] = None
    return list(found)


async def _goes_along(
    store: Store, session_id: str, asked_in: str, only_if: Callable[[SessionRow], bool] | None
) -> bool:
    """Whether the session is deleted along with session `asked_in`: it was opened by this session
    (and not by the original of a fork), and is finished, answers a question, or `only_if` decides
    about it."""
    row = await store.get(session_id)
    is_over = row.status == "idle" and not is_left(row)
    return row.meta.get(ASKED_IN) == asked_in and (
        is_over or ANSWERS in row.meta or only_if is not None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned(Value):
    """The numbers of objects that `prune_sessions` deleted. After a dry run, the numbers of objects
    that would be deleted."""

    sessions: int = 0
    messages: int = 0
    questions: int = 0
    """The number of closed inbox items."""
    busy: int = 0
    """The number of running sessions, which were not deleted."""
    dry_run: bool = False

    def counts(self) -> str:
        """The counts as a text, such as ``2 sessions, 1 settled message, 0 closed questions``."""
        parts = [
            _many(self.sessions, "session"),
            _many(self.messages, "settled message"),
            _many(self.questions, "closed question"),
        ]
        return ", ".join(parts)

    def __str__(self) -> str:
        verb = "would be removed" if self.dry_run else "removed"
        left = f"; {_many(self.busy, 'session')} in use left alone" if self.busy else ""
        return f"{self.counts()} {verb}{left}"


async def prune_sessions(
    store: Store,
    *,
    older_than_s: float | None = None,
    keep_last: int | None = None,
    user_id: str | None = None,
    status: Collection[SessionStatus] = _IDLE,
    dry_run: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Pruned:
    """Delete old sessions. A session is deleted if it has no event for `older_than_s` seconds, or
    if it is not among the `keep_last` most recent sessions.

    A session and the sessions that answer its queries count as one session, and are deleted
    together. A new event in one of them keeps all of them. A session that is `ready` or `waiting`
    is kept, unless `status` is this state. An interrupted session counts as `ready`. A running
    session is never deleted. Each session is deleted with `delete_session`, unless it has got new
    events in the meantime. With `older_than_s` and without `user_id`, old settled messages and
    closed inbox items are also deleted, unless a session still needs the answer. `progress` is
    called with the id of each deleted session. After a crash, call this function again. Raises
    `UserError` if both `older_than_s` and `keep_last` are missing. For example::

        print(await prune_sessions(store, older_than_s=30 * 86400, keep_last=1000))
    """
    _check(older_than_s, keep_last, user_id, status)
    await store.open()
    sessions = busy = questions = messages = 0
    before_us = None
    if older_than_s is not None:
        before_us = await store.now_us() - min(int(older_than_s), _LONGEST_S) * 1_000_000
        before_us -= int(older_than_s % 1 * 1e6)
    families, waited_for = await _read_families(store, user_id)
    for family in _old(families, before_us, keep_last, set(status)):
        gone = list(reversed(family.members))
        if not dry_run:
            try:
                gone = await remove_session(store, family.root, only_if=family.is_as_seen)
            except SessionBusy:
                busy += 1
                continue
            except SessionNotFound:
                continue
        sessions += len(gone)
        for session_id in gone:
            waited_for.pop(session_id, None)
            if progress is not None:
                progress(session_id)
    if before_us is not None and user_id is None:
        needed = {each for asked in waited_for.values() for each in asked}
        questions = await _prune_questions(store, before_us, needed, dry_run=dry_run)
        messages = await _prune_messages(store, before_us, needed, dry_run=dry_run)
    return Pruned(
        sessions=sessions, messages=messages, questions=questions, busy=busy, dry_run=dry_run
    )


def _check(older_than_s: Any, keep_last: Any, user_id: Any, status: Any) -> None:
    if older_than_s is None and keep_last is None:
        raise UserError("choose the sessions to delete: give older_than_s, keep_last, or both")
    if older_than_s is not None and not (
        type(older_than_s) in (int, float) and 0 <= older_than_s < inf
    ):
        raise UserError(f"older_than_s must be 0 or more seconds, not {older_than_s!r}")
    if keep_last is not None and (type(keep_last) is not int or keep_last < 0):
        raise UserError(f"keep_last must be 0 or more sessions, not {keep_last!r}")
    if user_id is not None and not (isinstance(user_id, str) and user_id):
        raise UserError("user_id must be the name of a user; leave it out for all sessions")
    is_some = isinstance(status, Collection) and not isinstance(status, str)
    if not is_some or any(each not in ("idle", "ready", "waiting") for each in status):
        raise UserError("status must name some of: idle, ready, waiting")


_Seen: TypeAlias = tuple[int, SessionStatus | None]
"""The time of the last event of a session, and its status. `None`: a process runs it."""


@dataclass(slots=True, kw_only=True)
class _Family:
    """A session with the sessions that it opened, directly or through others."""

    root: str
    used_us: int = 0
    """The time of the last event in any of them."""
    members: dict[str, _Seen] = field(default_factory=dict)
    """The sessions by id, the newest first."""

    def add(self, session_id: str, seen: _Seen) -> None:
        self.used_us = max(self.used_us, seen[0])
        self.members[session_id] = seen

    def may_go(self, status: set[SessionStatus]) -> bool:
        """Whether all members have one of these statuses, and no process runs them."""
        return all(state in status for _, state in self.members.values())

    def is_as_seen(self, row: SessionRow) -> bool:
        """Whether the session has not changed since it was read."""
        return self.members.get(row.id) == (row.updated_at_us, _state(row))


async def _read_families(
    store: Store, user_id: str | None
) -> tuple[list[_Family], dict[str, list[str]]]:
    """All sessions as families, the newest first; and the ids of open questions by session."""
    parents: dict[str, str] = {}
    found: dict[str, _Seen] = {}
    waited_for: dict[str, list[str]] = {}
    cursor: str | None = None
    while True:
        page = await store.list(SessionFilter(user_id=user_id), limit=_PAGE, cursor=cursor)
        for row in page.sessions:
            if asked := open_questions(row):
                waited_for[row.id] = [question.id for question in asked.values()]
            state = None if row.owner is not None else _state(row)
            found[row.id] = (row.updated_at_us, state)
            if isinstance(parent := row.meta.get(ASKED_IN), str):
                parents[row.id] = parent
        cursor = page.next_cursor
        if cursor is None:
            break
    families: dict[str, _Family] = {}
    for session_id, seen in found.items():
        root = _root(session_id, parents, found)
        families.setdefault(root, _Family(root=root)).add(session_id, seen)
    return list(families.values()), waited_for


def _root(session_id: str, parents: Mapping[str, str], there: Collection[str]) -> str:
    """The session that opened this one, directly or through others, as far as they still exist."""
    seen = {session_id}
    while (parent := parents.get(session_id, "")) in there and parent not in seen:
        seen.add(parent)
        session_id = parent
    return session_id


def _old(
    families: list[_Family],
    before_us: int | None,
    keep_last: int | None,
    status: set[SessionStatus],
) -> list[_Family]:
    """The families to delete, the least recently used first."""
    going: list[_Family] = []
    kept = 0
    for family in sorted(families, key=lambda each: -each.used_us):
        is_old = before_us is not None and family.used_us < before_us
        is_over = is_old or (keep_last is not None and kept >= keep_last)
        if is_over and family.may_go(status):
            going.append(family)
        else:
            kept += 1
    return going[::-1]


def _state(row: SessionRow) -> SessionStatus:
    return "ready" if is_left(row) else row.status


async def _prune_messages(
    store: Store, before_us: int, waited_for: Collection[str], *, dry_run: bool
) -> int:
    total, after = 0, 0
    # `store.prune_messages` is faster, but cannot spare single messages.
    spared = waited_for and await _settled(store, before_us, waited_for)
    while not (dry_run or spared) and (
        count := await store.prune_messages(before_us=before_us, limit=_PAGE)
    ):
        total += count
    while (dry_run or spared) and (found := await store.find_messages(after=after, limit=_PAGE)):
        after = found[-1].id
        old = [
            each
            for each in found
            if each.settled_at_us is not None
            and each.settled_at_us < before_us
            and each.key not in waited_for
        ]
        if dry_run:
            total += len(old)
            continue
        keys = [each.key for each in old if each.key is not None]
        # Messages without a key are only deleted by `store.prune_messages`.
        total += len(keys)
        if keys:
            await store.settle_messages(
                [MessageSettle(key=key, state="cancelled", forget=True) for key in keys]
            )
    return total


async def _settled(store: Store, before_us: int, keys: Collection[str]) -> bool:
    """Whether one of the messages was settled before this time."""
    wanted = sorted(keys)
    for start in range(0, len(wanted), _PAGE):
        where = MessageFilter(keys=wanted[start : start + _PAGE])
        for each in await store.find_messages(where, limit=_PAGE):
            if each.settled_at_us is not None and each.settled_at_us < before_us:
                return True
    return False


async def _prune_questions(
    store: Store, before_us: int, waited_for: Collection[str], *, dry_run: bool
) -> int:
    count, after = 0, ""
    while True:
        documents = await store.list_documents(DONE, after=after, limit=_PAGE)
        for document in documents:
            after = document.key
            with suppress(UserError):
                item = as_item(document)
                is_young = (item.closed_at_us or document.updated_at_us) >= before_us
                if is_young or item.id in waited_for:
                    continue
                count += 1
                if not dry_run:
                    await store.write_documents(
                        [
                            DocumentWrite(collection=DONE, key=item.id, body=None),
                            DocumentWrite(collection=INBOX_ORDER, key=order_key(item), body=None),
                        ]
                    )
        if not documents:
            return count


def _many(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count} {what}s"
