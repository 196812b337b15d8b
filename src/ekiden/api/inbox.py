"""The inbox: questions to people, and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Protocol, TypeAlias

from ekiden.api.methods.called import Called, calls, lists
from ekiden.api.methods.endpoint import Told, endpoint
from ekiden.api.methods.values import PERSON, PLAIN, SESSION_ID, Pages
from ekiden.api.state import Seen
from ekiden.core.questions import InboxItem, InboxKind
from ekiden.core.values import Priority
from ekiden.inbox.inbox import BulkAnswer
from ekiden.inbox.query import StatusFilter

ItemId: TypeAlias = Annotated[
    str, Told("The item's id.", min_length=1, max_length=128, pattern=SESSION_ID)
]
By: TypeAlias = Annotated[
    str | None,
    Told(
        "The person who does it, if not the caller; needs the scope `admin`.",
        min_length=1,
        max_length=200,
        pattern=PERSON,
    ),
]
Choice: TypeAlias = Annotated[
    str | None, Told("One of the item's options; case does not matter.", max_length=500)
]
Words: TypeAlias = Annotated[str, Told("The answer as text.", max_length=100_000)]
Arguments: TypeAlias = Annotated[
    str | Mapping[str, Any] | None,
    Told("Run the tool with these arguments instead: an object, or its JSON text."),
]
Always: TypeAlias = Annotated[
    bool, Told("Do not ask again for this tool of this agent in this session.")
]


class InboxApi(Protocol):
    """Items that wait for people."""

    @endpoint(
        "GET",
        "/inbox",
        scope="read",
        cursor=r"^(1/[5-8]|2)/[0-9]{17}/[A-Za-z0-9_\-.:@]{1,128}$",
    )
    def list(
        self,
        *,
        status: Annotated[
            StatusFilter, Told("Filter by status; `closed` means everything except open.")
        ] = "open",
        role: Annotated[
            str | None, Told("Only items for this role.", max_length=200, pattern=PLAIN)
        ] = None,
        assignee: Annotated[
            str | None,
            Told(
                "Only items assigned to this person; empty: unassigned items.",
                max_length=200,
                pattern=PLAIN,
            ),
        ] = None,
        kind: Annotated[InboxKind | None, Told("Only items of this kind.")] = None,
        agent: Annotated[
            str | None, Told("Only items from this agent.", max_length=200, pattern=PLAIN)
        ] = None,
        session: Annotated[
            str | None,
            Told("Only items that this session waits for.", max_length=200, pattern=PLAIN),
        ] = None,
        priority: Annotated[Priority | None, Told("Only items of this priority.")] = None,
        text: Annotated[
            str | None, Told("Only items that contain this text.", max_length=500, pattern=PLAIN)
        ] = None,
        snoozed: Annotated[bool, Told("Include snoozed items.")] = False,
    ) -> Pages[InboxItem]:
        """List items that wait for people: most urgent first, then newest."""
        ...

    @endpoint("GET", "/inbox/{item_id}", scope="read", problems=(404,))
    async def get(self, item_id: ItemId) -> InboxItem:
        """Get everything about an item; its `ETag` can be sent with the answer."""
        ...

    @endpoint(
        "POST",
        "/inbox/{item_id}/answer",
        scope="answer",
        problems=(404, 409, 412, 413),
        body="NewAnswer",
    )
    async def answer(
        self,
        item_id: ItemId,
        choice: Choice = None,
        *,
        text: Words = "",
        arguments: Arguments = None,
        always: Always = False,
        confirm_edit: Annotated[bool, Told("Do not ask again about edited arguments.")] = False,
        by: By = None,
        expected_version: Seen = None,
    ) -> InboxItem:
        """Answer an item. Only the first answer counts; a later one gets 409, which names the
        first.

        With `If-Match` it is 412 if the item has changed: escalated, assigned or snoozed. With
        `identical` all identical items get the answer, and the response is a summary.
        """
        ...

    @endpoint(
        "POST",
        "/inbox/{item_id}/answer",
        scope="answer",
        problems=(404, 409, 412, 413),
        flag="identical",
    )
    async def answer_identical(
        self,
        item_id: ItemId,
        choice: Choice = None,
        *,
        text: Words = "",
        arguments: Arguments = None,
        always: Always = False,
        by: By = None,
        expected_version: Seen = None,
    ) -> BulkAnswer:
        """Give the same answer to all identical items."""
        ...

    @endpoint("POST", "/inbox/{item_id}/assign", scope="answer", problems=(404, 409, 413))
    async def assign(
        self,
        item_id: ItemId,
        assignee: Annotated[
            str | None,
            Told(
                "The person's name; `null` removes the assignment.",
                min_length=1,
                max_length=200,
                pattern=PERSON,
            ),
        ],
        *,
        by: By = None,
    ) -> InboxItem:
        """Assign an item to a person; other people may still answer it."""
        ...

    @endpoint("POST", "/inbox/{item_id}/snooze", scope="answer", problems=(404, 409, 413))
    async def snooze(
        self,
        item_id: ItemId,
        *,
        for_s: Annotated[float | None, Told("For this many seconds.", ge=1, le=1e9)] = None,
        until_us: Annotated[
            int | None, Told("Until this time, in microseconds since 1970.", ge=0, le=10**17)
        ] = None,
        by: By = None,
    ) -> InboxItem:
        """Hide an item for a time; it stays open, and its deadline stays.

        Give either `for_s` or `until_us`.
        """
        ...

    @endpoint("POST", "/inbox/{item_id}/cancel", scope="answer", problems=(404, 409, 413))
    async def cancel(
        self,
        item_id: ItemId,
        *,
        reason: Annotated[
            str, Told("The reason; the waiting session gets it.", max_length=2000)
        ] = "",
        by: By = None,
    ) -> InboxItem:
        """Cancel an item: the waiting session is informed that no answer will come."""
        ...


class CalledInbox(Called):
    """`InboxApi` for synchronous code."""

    list = lists(InboxApi.list)
    get = calls(InboxApi.get)
    answer = calls(InboxApi.answer)
    answer_identical = calls(InboxApi.answer_identical)
    assign = calls(InboxApi.assign)
    snooze = calls(InboxApi.snooze)
    cancel = calls(InboxApi.cancel)
