"""Letting go of what is old: sessions, settled messages, closed questions to people."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, TypeAlias

from ekiden.core.documents import Value
from ekiden.core.errors import SessionBusy, SessionNotFound, UserError
from ekiden.inbox.items import DONE, ORDER as INBOX_ORDER, as_item, order_key
from ekiden.runtime.history.deletion import ASKED_IN, remove_session
from ekiden.runtime.questions.cancel_question import is_left
from ekiden.runtime.state.cursor import open_questions
from ekiden.storage.base import (
    DocumentWrite,
    MessageFilter,
    MessageSettle,
    SessionFilter,
    SessionRow,
    SessionStatus,
    Store,
)

_PAGE = 200
_LONGEST_S = 100 * 365 * 86400
_IDLE: tuple[SessionStatus, ...] = ("idle",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned(Value):
    """The number of deleted objects. In a dry run, the number of objects that would be deleted."""

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

    A session and the sessions that answer it count as one, and are deleted together; a new event in
    one of them keeps all. A session that is `ready` or `waiting` is kept unless `status` names this
    state; an interrupted session counts as `ready`. A running session is never deleted. Each
    session is deleted as with `delete_session`, unless it has new events. With `older_than_s` and
    without `user_id`, old settled messages and closed inbox items are also deleted, unless a
    session still needs the answer. `progress` is called with the id of each deleted session. After
    a crash, call this function again. Raises `UserError` if both `older_than_s` and `keep_last` are
    missing. For example::

        print(await prune_sessions(store, older_than_s=30 * 86400, keep_last=1000))
    """
    _check(older_than_s, keep_last, user_id, status)
    await store.open()
    sessions = busy = questions = messages = 0
    before_us = None
    if older_than_s is not None:
        before_us = await store.now_us() - min(int(older_than_s), _LONGEST_S) * 1_000_000
        before_us -= int(older_than_s % 1 * 1e6)
    looked = await _look(store, user_id)
    for family in _old(looked.families, before_us, keep_last, set(status)):
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
            looked.waited_for.pop(session_id, None)
            if progress is not None:
                progress(session_id)
    if before_us is not None and user_id is None:
        waited_for = {each for asked in looked.waited_for.values() for each in asked}
        questions = await _prune_questions(store, before_us, waited_for, dry_run=dry_run)
        messages = await _prune_messages(store, before_us, waited_for, dry_run=dry_run)
    return Pruned(
        sessions=sessions, messages=messages, questions=questions, busy=busy, dry_run=dry_run
    )


def _check(older_than_s: Any, keep_last: Any, user_id: Any, status: Any) -> None:
    if older_than_s is None and keep_last is None:
        raise UserError("say which sessions to delete: give older_than_s, keep_last, or both")
    if older_than_s is not None and not (
        type(older_than_s) in (int, float) and isfinite(older_than_s) and older_than_s >= 0
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
"""The time of the last event of a session, and its state; `None`: a process runs it."""


@dataclass(slots=True, kw_only=True)
class _Family:
    """A session with those that it asked, and that they asked: as they were found."""

    root: str
    used_us: int = 0
    """When something happened last in any of them."""
    members: dict[str, _Seen] = field(default_factory=dict)
    """The newest first."""

    def add(self, session_id: str, seen: _Seen) -> None:
        self.used_us = max(self.used_us, seen[0])
        self.members[session_id] = seen

    def may_go(self, status: set[SessionStatus]) -> bool:
        """Whether no process runs any of them, and none is in another state."""
        return all(state in status for _, state in self.members.values())

    def is_as_seen(self, row: SessionRow) -> bool:
        """Whether nothing happened in it since."""
        return self.members.get(row.id) == (row.updated_at_us, _state(row))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looked:
    families: list[_Family]
    waited_for: dict[str, list[str]]
    """By session: the questions and messages whose answers it has to take up."""


async def _look(store: Store, user_id: str | None) -> _Looked:
    """All sessions, put together; the newest first."""
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
    return _Looked(families=list(families.values()), waited_for=waited_for)


def _root(session_id: str, parents: Mapping[str, str], there: Collection[str]) -> str:
    """The first of those that asked; one that is gone is none of them."""
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
    """Those that go, the one that was used longest ago first."""
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
        # Those without a key go when nothing has to be spared.
        total += len(keys)
        if keys:
            await store.settle_messages(
                [MessageSettle(key=key, state="cancelled", forget=True) for key in keys]
            )
    return total


async def _settled(store: Store, before_us: int, keys: Collection[str]) -> bool:
    """Whether one of the messages was settled before then."""
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
