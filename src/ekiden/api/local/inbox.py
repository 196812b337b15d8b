"""The inbox of a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ekiden.api import inbox as api
from ekiden.api.local.context import LocalContext, LocalPart
from ekiden.api.methods.values import Page, Pages
from ekiden.core.approvals import AlwaysScope, Limits
from ekiden.core.errors import UserError
from ekiden.core.errors.messages import InboxAnswerInvalid
from ekiden.core.errors.server import PreconditionFailed
from ekiden.core.questions import InboxItem, InboxKind
from ekiden.core.values import PRIORITIES, Priority, dumps
from ekiden.inbox.inbox import BulkAnswer, Inbox, InboxQuery, StatusFilter


class LocalInbox(LocalPart, api.InboxApi):
    """`InboxApi` on a store in this process."""

    def __init__(self, context: LocalContext) -> None:
        super().__init__(context)
        self._inbox = Inbox(context.store, settings=context.settings.inbox)

    def list(
        self,
        *,
        status: StatusFilter = "open",
        role: str | None = None,
        assignee: str | None = None,
        kind: InboxKind | None = None,
        agent: str | None = None,
        session: str | None = None,
        priority: Priority | None = None,
        text: str | None = None,
        snoozed: bool = False,
    ) -> Pages[InboxItem]:
        query = InboxQuery(
            status=status,
            role=role,
            assignee=assignee,
            kind=kind,
            agent=agent,
            session_id=session,
            priority=None if priority is None else PRIORITIES[priority],
            text=text,
            snoozed=snoozed,
        )

        async def fetch(limit: int, cursor: str | None) -> Page[InboxItem]:
            found = await self._inbox.list(query, limit=limit, cursor=cursor)
            return Page(items=found.items, next_cursor=found.next_cursor)

        return Pages(fetch)

    async def get(self, item_id: str) -> InboxItem:
        return await self._inbox.get(item_id)

    async def answer(
        self,
        item_id: str,
        choice: str | None = None,
        *,
        text: str = "",
        arguments: str | Mapping[str, Any] | None = None,
        always: bool = False,
        scope: AlwaysScope = "call",
        limits: Limits | None = None,
        confirm_edit: bool = False,
        by: str | None = None,
        expected_version: int | Sequence[int] | None = None,
    ) -> InboxItem:
        who = self._context.person(by)
        seen = await self._seen(item_id, expected_version)
        try:
            return await self._inbox.answer(
                item_id,
                choice=choice,
                text=text,
                arguments=_json_text(arguments),
                always=always,
                scope=scope,
                limits=limits,
                confirm_edit=confirm_edit,
                seen_version=seen,
                by=who,
                via=self._context.via,
            )
        except InboxAnswerInvalid:
            await self._seen(item_id, expected_version)
            raise

    async def answer_identical(
        self,
        item_id: str,
        choice: str | None = None,
        *,
        text: str = "",
        arguments: str | Mapping[str, Any] | None = None,
        always: bool = False,
        scope: AlwaysScope = "call",
        limits: Limits | None = None,
        by: str | None = None,
        expected_version: int | Sequence[int] | None = None,
    ) -> BulkAnswer:
        who = self._context.person(by)
        await self._seen(item_id, expected_version)
        return await self._inbox.answer_identical(
            item_id,
            choice=choice,
            text=text,
            arguments=_json_text(arguments),
            always=always,
            scope=scope,
            limits=limits,
            by=who,
            via=self._context.via,
        )

    async def assign(
        self, item_id: str, assignee: str | None, *, by: str | None = None
    ) -> InboxItem:
        who = self._context.person(by)
        return await self._inbox.assign(item_id, assignee, by=who, via=self._context.via)

    async def snooze(
        self,
        item_id: str,
        *,
        for_s: float | None = None,
        until_us: int | None = None,
        by: str | None = None,
    ) -> InboxItem:
        who = self._context.person(by)
        return await self._inbox.snooze(
            item_id, for_s=for_s, until_us=until_us, by=who, via=self._context.via
        )

    async def cancel(self, item_id: str, *, reason: str = "", by: str | None = None) -> InboxItem:
        who = self._context.person(by)
        return await self._inbox.cancel(item_id, reason=reason, by=who, via=self._context.via)

    async def _seen(self, item_id: str, expected: int | Sequence[int] | None) -> int | None:
        """The version that the caller read; `PreconditionFailed` if the item has changed since.

        Returns `None` for a closed item, so that the caller gets the error with the first answer.
        """
        if expected is None:
            return None
        item = await self._inbox.get(item_id)
        if item.status != "open":
            return None
        if item.version not in ([expected] if isinstance(expected, int) else expected):
            raise PreconditionFailed(
                f"inbox item {item_id} has changed since you read it: read it again, then answer"
            )
        return item.version


def _json_text(arguments: str | Mapping[str, Any] | None) -> str | None:
    if isinstance(arguments, str | None):
        return arguments
    try:
        return dumps(arguments)
    except (TypeError, ValueError, RecursionError) as exc:
        raise UserError(f"`arguments` must be JSON: {exc!s:.200}") from exc
