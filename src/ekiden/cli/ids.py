"""Resolves ids that people type: a whole id, or a unique prefix as tables show it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Final

from ekiden.api.methods.values import SESSION_ID
from ekiden.cli.errors import UsageError
from ekiden.core.errors import EkidenError
from ekiden.core.errors.messages import InboxItemNotFound
from ekiden.core.values import generated_part

if TYPE_CHECKING:
    from ekiden.api.inbox import InboxApi
    from ekiden.api.sessions import SessionsApi
    from ekiden.client.ekiden import Ekiden
    from ekiden.core.questions import InboxItem
    from ekiden.project.project import Project
    from ekiden.storage.base import Store

_BEGUN: Final = re.compile(r"([a-z]+_[0-9a-z]{4,19})([^0-9a-z].*)?")
"""The beginning of an id that Ekiden made, and the part after it, such as ``.h1``."""
_LISTED: Final = 5
_LONGEST: Final = 128


async def session_id(sessions: SessionsApi, given: str) -> str:
    """The id of the session that `given` is a prefix of. Raises `UsageError` for an ambiguous
    prefix.

    An unknown prefix is returned unchanged, so that the command reports it.
    """
    found = (each.session_id async for each in sessions.list(text=given))

    async def first_event(session: str) -> None:
        await sessions.events(session).page(limit=1)

    return await _find(given, first_event, found, what="sessions")


def sessions_of(store: Store, project: Project) -> SessionsApi:
    """The sessions of a store that a command has opened for a team."""
    from ekiden.api.local.context import LocalContext
    from ekiden.client.ekiden import at_store

    return at_store(
        LocalContext(store=store, settings=project.settings, origins=project.loaded.origins)
    ).sessions


async def begun_session_id(sessions: SessionsApi, given: str | None) -> str | None:
    """As `session_id`, for a command that starts a missing session: only a prefix of an id that
    Ekiden made is completed, because any other text can be the id of a new session."""
    if given is None or not given.startswith("ses_") or not _BEGUN.fullmatch(given):
        return given
    return await session_id(sessions, given)


async def handoff_id(ekiden: Ekiden, given: str) -> str:
    """As `session_id`, for a handoff or a request of one."""
    below = await _below_session(ekiden, given)
    if below is not None:
        return below
    found = (each.id async for each in ekiden.handoffs.list())
    return await _find(given, ekiden.handoffs.get, found, what="handoffs")


async def record_id(ekiden: Ekiden, given: str) -> str:
    """As `session_id`, for a record of the audit, or a handoff."""
    below = await _below_session(ekiden, given)
    return given if below is None else below


async def message_id(ekiden: Ekiden, given: str) -> str:
    """As `session_id`, for a message between agents."""
    found = (each.message_id async for each in ekiden.messages.list())
    return await _find(given, ekiden.messages.get, found, what="messages")


async def collaboration_id(ekiden: Ekiden, given: str) -> str:
    """As `session_id`, for a collaboration."""
    found = (each.id async for each in ekiden.collaborations.list())
    return await _find(given, ekiden.collaborations.get, found, what="collaborations")


async def item_of(inbox: InboxApi, given: str) -> InboxItem:
    """The inbox item with this id or unique prefix; `InboxItemNotFound`, `UsageError`."""
    if len(given) > _LONGEST or not re.search(SESSION_ID, given):
        raise InboxItemNotFound(given)
    try:
        return await inbox.get(given)
    except InboxItemNotFound:
        items = inbox.list(status="any", snoozed=True, text=given)
        found = {item.id: item async for item in items if item.id.startswith(given)}
        if not found:
            raise
    if len(found) > 1:
        raise _ambiguous(given, found, what="items")
    return next(iter(found.values()))


async def key_id(ekiden: Ekiden, given: str) -> str:
    """As `session_id`, for the key of a server's caller."""
    found = (each.id async for each in ekiden.keys.list())
    return await only(given.removeprefix("ek_"), found, what="keys")


async def _find(
    given: str, get: Callable[[str], Awaitable[object]], ids: AsyncIterable[str], *, what: str
) -> str:
    if given in (".", ".."):
        raise UsageError(f"{given!r} is not an id: it cannot be part of a server's address")
    if not given or generated_part(given):
        return given
    try:
        await get(given)
    except EkidenError as exc:
        if exc.code.endswith("not_found"):
            return await only(given, ids, what=what)
        # The command reports other errors itself.
    return given


async def only(given: str, ids: AsyncIterable[str], *, what: str) -> str:
    """The only one of `ids` that is `given` or begins with it; `given` if none does."""
    found = {each async for each in ids if given and _is_meant(each, given)}
    if given in found or not found:
        return given
    if len(found) > 1:
        raise _ambiguous(given, found, what=what)
    return found.pop()


def _ambiguous(given: str, found: Collection[str], *, what: str) -> UsageError:
    some = ", ".join(sorted(found)[:_LISTED])
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    return UsageError(
        f"{given[:80]!r} is a prefix of {len(found)} {what}: {some}{more}; type more of it"
    )


def _is_meant(whole: str, given: str) -> bool:
    if whole.startswith(given):
        return True
    begun, made = _BEGUN.fullmatch(given), generated_part(whole)
    return (
        begun is not None
        and bool(made)
        and made.startswith(begun[1])
        and whole[len(made) :] == (begun[2] or "")
    )


async def _below_session(ekiden: Ekiden, given: str) -> str | None:
    """A whole id below a session's, such as ``ses_….h1``; `None` if there is no match."""
    begun = _BEGUN.fullmatch(given)
    if begun is None or not begun[2]:
        return None
    return f"{await session_id(ekiden.sessions, begun[1])}{begun[2]}"
