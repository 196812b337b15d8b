"""Questions to people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict, Unpack

from ekiden.client.modes import M, Resource, answers, given, lists
from ekiden.client.paths import part
from ekiden.client.streams import Listing
from ekiden.core.inbox_item import InboxItem, InboxKind


class InboxFilter(TypedDict, total=False):
    """Which questions; what is not given, or `None`, does not restrict."""

    status: Literal["open", "answered", "expired", "cancelled", "closed", "any"] | None
    """Only open ones, if nothing is said."""
    role: str | None
    assignee: str | None
    """Of this person; empty: of nobody."""
    kind: InboxKind | None
    agent: str | None
    session: str | None
    priority: Literal["low", "normal", "high", "urgent"] | None
    text: str | None
    snoozed: bool | None
    """Also those that are hidden for a time."""


class Inbox(Resource[M]):
    """What waits for people. `by` names who decides, if it is not the caller itself; that needs a
    key with the scope ``admin``."""

    @lists
    def list(self, **filters: Unpack[InboxFilter]) -> Listing[InboxItem]:
        """The questions: the most urgent first, then the newest."""
        return Listing(path="/inbox", params=given(**filters), parse=item_of)

    @answers
    async def get(self, item_id: str) -> InboxItem:
        """One question; `InboxItemNotFound`."""
        return item_of(await self._wire.ask("GET", _place(item_id)))

    @answers
    async def answer(
        self,
        item_id: str,
        choice: str | None = None,
        *,
        text: str = "",
        arguments: str | Mapping[str, Any] | None = None,
        always: bool = False,
        confirm_edit: bool = False,
        seen: InboxItem | None = None,
        by: str | None = None,
    ) -> InboxItem:
        """Answer a question, once: `InboxItemClosed` for whoever comes second.

        With `seen` the answer holds only for the question as it was then: `PreconditionFailed` if
        somebody changed it since. Other `arguments` than those asked about have to be meant:
        `confirm_edit`.
        """
        body = given(choice=choice, arguments=arguments, by=by)
        body = {**body, "text": text, "always": always, "confirm_edit": confirm_edit}
        headers = {} if seen is None else {"If-Match": f'"{seen.status}-{seen.version}"'}
        path = f"{_place(item_id)}/answer"
        return item_of(await self._wire.ask("POST", path, body=body, headers=headers))

    @answers
    async def answer_identical(
        self,
        item_id: str,
        choice: str | None = None,
        *,
        text: str = "",
        arguments: str | Mapping[str, Any] | None = None,
        always: bool = False,
        by: str | None = None,
    ) -> Mapping[str, Any]:
        """Answer all that ask exactly the same; ``answered`` has their ids, ``closed`` counts those
        that somebody else closed meanwhile."""
        body = given(choice=choice, arguments=arguments, by=by)
        body = {**body, "text": text, "always": always, "identical": True}
        told: Mapping[str, Any] = await self._wire.ask(
            "POST", f"{_place(item_id)}/answer", body=body
        )
        return told

    @answers
    async def assign(
        self, item_id: str, assignee: str | None, *, by: str | None = None
    ) -> InboxItem:
        """Say whose a question is; `None`: nobody's."""
        body = {"assignee": assignee, **given(by=by)}
        return item_of(await self._wire.ask("POST", f"{_place(item_id)}/assign", body=body))

    @answers
    async def snooze(self, item_id: str, *, for_s: float, by: str | None = None) -> InboxItem:
        """Hide a question for a time; its deadline stays."""
        body = given(for_s=for_s, by=by)
        return item_of(await self._wire.ask("POST", f"{_place(item_id)}/snooze", body=body))

    @answers
    async def cancel(self, item_id: str, *, reason: str = "", by: str | None = None) -> InboxItem:
        """Withdraw a question: whoever waits is told that nobody will answer."""
        body = given(reason=reason, by=by)
        return item_of(await self._wire.ask("POST", f"{_place(item_id)}/cancel", body=body))


def item_of(raw: Mapping[str, Any]) -> InboxItem:
    """A question as the server tells it."""
    return InboxItem.from_json(raw, version=raw.get("version", 0))


def _place(item_id: str) -> str:
    return f"/inbox/{part(item_id)}"
