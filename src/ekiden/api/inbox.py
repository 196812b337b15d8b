"""The inbox: questions to people, and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Protocol, TypeAlias

from ekiden.api.called import Called, calls, lists
from ekiden.api.endpoint import Told, endpoint
from ekiden.api.pages import Pages
from ekiden.api.state import Seen
from ekiden.api.texts import PERSON, PLAIN, SESSION_ID
from ekiden.core.conversation.messages import Priority
from ekiden.core.questions.inbox_item import InboxItem, InboxKind
from ekiden.inbox.inbox import BulkAnswer
from ekiden.inbox.query import StatusFilter

ItemId: TypeAlias = Annotated[
    str, Told("The item's id.", min_length=1, max_length=128, pattern=SESSION_ID)
]
By: TypeAlias = Annotated[
    str | None,
    Told(
        "Who does it, if it is not the caller; needs the scope `admin`.",
        min_length=1,
        max_length=200,
        pattern=PERSON,
    ),
]
Choice: TypeAlias = Annotated[
    str | None, Told("One of the item's options, in whatever case.", max_length=500)
]
Words: TypeAlias = Annotated[str, Told("In their words.", max_length=100_000)]
Arguments: TypeAlias = Annotated[
    str | Mapping[str, Any] | None,
    Told("Run the tool with these instead: an object, or its JSON text."),
]
Always: TypeAlias = Annotated[
    bool, Told("Do not ask this agent again for this tool, in this session.")
]


class Inbox(Protocol):
    """What waits for people."""

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
            str | None, Told("Only those for this role.", max_length=200, pattern=PLAIN)
        ] = None,
        assignee: Annotated[
            str | None,
            Told(
                "Only those of this person; empty: not assigned to anybody.",
                max_length=200,
                pattern=PLAIN,
            ),
        ] = None,
        kind: Annotated[InboxKind | None, Told("Only those of this kind.")] = None,
        agent: Annotated[
            str | None, Told("Only what this agent asks.", max_length=200, pattern=PLAIN)
        ] = None,
        session: Annotated[
            str | None,
            Told("Only those that this session waits for.", max_length=200, pattern=PLAIN),
        ] = None,
        priority: Annotated[Priority | None, Told("Only those of this priority.")] = None,
        text: Annotated[
            str | None, Told("Only those that contain this text.", max_length=500, pattern=PLAIN)
        ] = None,
        snoozed: Annotated[bool, Told("Also those that are snoozed.")] = False,
    ) -> Pages[InboxItem]:
        """List what waits for people: the most urgent first, then the newest."""
        ...

    @endpoint("GET", "/inbox/{item_id}", scope="read", problems=(404,))
    async def get(self, item_id: ItemId) -> InboxItem:
        """Everything about a question; its `ETag` can be given with the answer."""
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
        confirm_edit: Annotated[bool, Told("Edited arguments are meant as they are.")] = False,
        by: By = None,
        expected_version: Seen = None,
    ) -> InboxItem:
        """Answer a question, once: whoever comes second gets 409, which says who was first.

        With `If-Match` it is 412 if the item was changed since: escalated, assigned, snoozed. With
        `identical` the answer goes to all that ask the same, and what became of it is told in
        short.
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
        """Answer all that ask exactly the same, in the same way."""
        ...

    @endpoint("POST", "/inbox/{item_id}/assign", scope="answer", problems=(404, 409, 413))
    async def assign(
        self,
        item_id: ItemId,
        assignee: Annotated[
            str | None,
            Told(
                "The person's name; `null`: not assigned any more.",
                min_length=1,
                max_length=200,
                pattern=PERSON,
            ),
        ],
        *,
        by: By = None,
    ) -> InboxItem:
        """Assign a question to a person; others may still answer it."""
        ...

    @endpoint("POST", "/inbox/{item_id}/snooze", scope="answer", problems=(404, 409, 413))
    async def snooze(
        self,
        item_id: ItemId,
        *,
        for_s: Annotated[float | None, Told("So many seconds.", ge=1, le=1e9)] = None,
        until_us: Annotated[
            int | None, Told("Until then, in microseconds since 1970.", ge=0, le=10**17)
        ] = None,
        by: By = None,
    ) -> InboxItem:
        """Hide a question for a time; it is not answered, and its deadline stays.

        Give either `for_s` or `until_us`.
        """
        ...

    @endpoint("POST", "/inbox/{item_id}/cancel", scope="answer", problems=(404, 409, 413))
    async def cancel(
        self,
        item_id: ItemId,
        *,
        reason: Annotated[str, Told("Why; whoever waits is told.", max_length=2000)] = "",
        by: By = None,
    ) -> InboxItem:
        """Withdraw a question: whoever waits is told that nobody will answer."""
        ...


class CalledInbox(Called):
    """`Inbox`, called."""

    list = lists(Inbox.list)
    get = calls(Inbox.get)
    answer = calls(Inbox.answer)
    answer_identical = calls(Inbox.answer_identical)
    assign = calls(Inbox.assign)
    snooze = calls(Inbox.snooze)
    cancel = calls(Inbox.cancel)
