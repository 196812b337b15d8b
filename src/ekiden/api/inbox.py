"""The inbox: questions to people, and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Protocol, TypeAlias

from ekiden.api.methods.called import Called, calls, lists
from ekiden.api.methods.endpoint import Param, endpoint, filter_by, identifier
from ekiden.api.methods.values import PERSON, Pages
from ekiden.api.state import ExpectedVersion
from ekiden.core.approvals import AlwaysScope, Limits
from ekiden.core.questions import InboxItem, InboxKind
from ekiden.core.values import Priority
from ekiden.inbox.inbox import BulkAnswer, StatusFilter

ItemId: TypeAlias = Annotated[str, identifier("The item's id.")]
By: TypeAlias = Annotated[
    str | None,
    Param(
        "The person who makes the change, if it is not the caller. This needs the scope `admin`.",
        min_length=1,
        max_length=200,
        pattern=PERSON,
    ),
]
Choice: TypeAlias = Annotated[
    str | None, Param("One of the item's options, ignoring case.", max_length=500)
]
AnswerText: TypeAlias = Annotated[str, Param("The text of the answer.", max_length=100_000)]
Arguments: TypeAlias = Annotated[
    str | Mapping[str, Any] | None,
    Param("Approve the tool call, but with these arguments: an object, or its JSON text."),
]
Always: TypeAlias = Annotated[
    bool,
    Param("In this session, do not ask again about calls of this tool by this agent in `scope`."),
]
Scope: TypeAlias = Annotated[
    AlwaysScope,
    Param(
        "For `always`: calls with the same arguments, calls within `limits`, or all calls of the "
        "session."
    ),
]
LimitsOfCalls: TypeAlias = Annotated[
    Limits | None,
    Param(
        'The limit of each argument: {"max": 5}, {"any_of": ["a", "b"]} or {"equal": "a"}. Other '
        "arguments must be the same as in this call."
    ),
]


class InboxApi(Protocol):
    """The inbox: items that wait for people."""

    @endpoint(
        "GET", "/inbox", scope="read", cursor=r"^(1/[5-8]|2)/[0-9]{17}/[A-Za-z0-9_\-.:@]{1,128}$"
    )
    def list(
        self,
        *,
        status: Annotated[
            StatusFilter,
            Param("Only items with this status. `closed` means every status except `open`."),
        ] = "open",
        role: Annotated[str | None, filter_by("Only items for this role.")] = None,
        assignee: Annotated[
            str | None,
            filter_by("Only items assigned to this person. An empty value means unassigned items."),
        ] = None,
        kind: Annotated[InboxKind | None, Param("Only items of this kind.")] = None,
        agent: Annotated[str | None, filter_by("Only items from this agent.")] = None,
        session: Annotated[str | None, filter_by("Only items of this session.")] = None,
        priority: Annotated[Priority | None, Param("Only items of this priority.")] = None,
        text: Annotated[
            str | None, filter_by("Only items that contain this text.", max_length=500)
        ] = None,
        snoozed: Annotated[bool, Param("Include snoozed items.")] = False,
    ) -> Pages[InboxItem]:
        """List inbox items, most urgent first. Items of equal urgency are listed newest first."""
        ...

    @endpoint("GET", "/inbox/{item_id}", scope="read", problems=(404,))
    async def get(self, item_id: ItemId) -> InboxItem:
        """Get all details of an inbox item. You can send its `ETag` with the answer."""
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
        text: AnswerText = "",
        arguments: Arguments = None,
        always: Always = False,
        scope: Scope = "call",
        limits: LimitsOfCalls = None,
        confirm_edit: Annotated[
            bool, Param("Do not ask for confirmation of changed arguments.")
        ] = False,
        by: By = None,
        expected_version: ExpectedVersion = None,
    ) -> InboxItem:
        """Answer an inbox item. Only the first answer counts. For a later answer, the status is
        409, and the response contains the first answer.

        With `If-Match`, the status is 412 if the item was escalated, assigned or snoozed since you
        read it. With `identical`, all open items with the same question get the answer, and the
        response is a summary.
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
        text: AnswerText = "",
        arguments: Arguments = None,
        always: Always = False,
        scope: Scope = "call",
        limits: LimitsOfCalls = None,
        by: By = None,
        expected_version: ExpectedVersion = None,
    ) -> BulkAnswer:
        """Give the same answer to all open items with the same question."""
        ...

    @endpoint("POST", "/inbox/{item_id}/assign", scope="answer", problems=(404, 409, 413))
    async def assign(
        self,
        item_id: ItemId,
        assignee: Annotated[
            str | None,
            Param(
                "The person's name; `null` removes the assignment.",
                min_length=1,
                max_length=200,
                pattern=PERSON,
            ),
        ],
        *,
        by: By = None,
    ) -> InboxItem:
        """Assign an inbox item to a person. Other people can still answer it."""
        ...

    @endpoint("POST", "/inbox/{item_id}/snooze", scope="answer", problems=(404, 409, 413))
    async def snooze(
        self,
        item_id: ItemId,
        *,
        for_s: Annotated[
            float | None, Param("Hide the item for this many seconds.", ge=1, le=1e9)
        ] = None,
        until_us: Annotated[
            int | None,
            Param("Hide the item until this time, in microseconds since 1970.", ge=0, le=10**17),
        ] = None,
        by: By = None,
    ) -> InboxItem:
        """Hide an inbox item for a while. The item stays open, and its deadline does not change.

        Give either `for_s` or `until_us`.
        """
        ...

    @endpoint("POST", "/inbox/{item_id}/cancel", scope="answer", problems=(404, 409, 413))
    async def cancel(
        self,
        item_id: ItemId,
        *,
        reason: Annotated[
            str,
            Param(
                "The reason for cancelling the item. The waiting session gets this text.",
                max_length=2000,
            ),
        ] = "",
        by: By = None,
    ) -> InboxItem:
        """Cancel an inbox item. The waiting session is notified that it gets no answer."""
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
