"""The shapes of an exported session's parts, which are untrusted.

Only what the runtime relies on is checked here; everything else in a part is left unchanged. The
components of a cursor have their own shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Required, TypeAlias

from annotated_types import Ge, Len, Lt
from pydantic import BeforeValidator
from typing_extensions import TypedDict

from ekiden.core.conversation.shapes import (
    Amount,
    Amounts,
    Count,
    FindingShape,
    Key,
    Name,
    Object,
    Received,
    Used,
    shape,
)
from ekiden.core.events import EventType
from ekiden.sessions.state import STATE


class ContentPart(TypedDict, total=False):
    """A part of what was said."""

    type: str | None
    text: str | None
    refusal: str | None


def _parts_of(value: Any) -> Any:
    return [] if isinstance(value, str) else value


Content: TypeAlias = Annotated[list[ContentPart] | None, BeforeValidator(_parts_of)]
"""Text, or a list of parts."""


class Said(TypedDict, total=False):
    """Any item."""

    type: str | None
    role: str | None
    content: Content


class Message(Said):
    """A message."""

    role: Name  # type: ignore[misc]


class ToolCallShape(Said, total=False):
    """A call of a tool."""

    call_id: Required[Name]
    name: Required[str]
    arguments: str | None


class Output(Said, total=False):
    """What a tool gave."""

    call_id: Required[Name]
    output: Content


State: Any = shape(
    "State",
    {
        **dict.fromkeys(("set", "base"), Object),
        **dict.fromkeys(("deleted", "user", "app"), list[str]),
    },
)
"""What became of variables."""

_TEXTS = (
    "id", "from", "to", "status", "model", "outcome", "published", "filter", "hash", "reason",
    "summary", "code", "phase", "task", "correlation", "tool", "call_id", "item", "kind", "role",
    "subject", "method", "type", "result", "behavior", "guardrail",
)  # fmt: skip
"""In details: what is text wherever it stands."""

Details: Any = shape(
    "Details",
    {
        **dict.fromkeys(_TEXTS, str | None),
        STATE: State,
        "usage": Used | None,
        "guardrails": list[FindingShape],
        "undoes": Annotated[list[int], Len(2, 2)],
        "keeps": list[int],
    },
)
"""What an event tells beside its items, whatever its type."""

Letter: Any = shape(
    "Letter", dict.fromkeys(("id", "to", "session", "subject", "from_agent"), str | None)
)
Handoff: Any = shape(
    "Handoff",
    {
        **dict.fromkeys(("id", "from", "to"), Required[Name]),
        **dict.fromkeys(("moves", "chain"), list[str]),
        "tools": list[str] | None,
        "budget": Amounts,
        "place": int,
        "received": Received,
        "by": Object,
    },
)
OF_TYPE: Final[Mapping[str, Any]] = {
    "handoff": Handoff,
    "guardrail": FindingShape,
    "message": shape("Letters", dict.fromkeys(("message", "asks", "tells"), Letter)),
    "task": shape("Tasks", {"tasks": list[Object]}),
    "route": shape("Route", {"agent": str | None}),
}
"""By the type of an event: what its details are, too."""
OF_END: Final[Mapping[str, Any]] = {
    "refused": shape("Refused", {"reason": Required[str]}),
    "waiting": shape("Waiting", {"reason": Required[str]}),
    "out_of_budget": shape(
        "Spent",
        {"limit": Required[str], **dict.fromkeys(("allowed", "used"), Required[Amount])},
    ),
    "failed": shape("Failed", {"code": Required[str]}),
}
"""By outcome: what the event of the end tells beside it."""
REWINDING: Final = shape("Rewound", {"rewound": Required[int], "undoes": Required[list[int]]})
"""What the event of a rewind tells."""


class StoredEvent(TypedDict, total=False):
    """An event."""

    event_type: Required[EventType]
    seq: Required[int]
    timestamp: Required[Annotated[float, Ge(0), Lt(1e11)]]
    agent_name: Key | None
    step: Key | None
    duration_ms: Annotated[float, Ge(0), Lt(1e14)] | None
    details: Details | None
    error: str | None


Outcome: TypeAlias = Literal[None, "", "done", "waiting", "refused", "failed", "out_of_budget"]


class Snapshot(TypedDict, total=False):
    """Where a session stood before."""

    cursor: Required[Object]
    agent: Required[Name]
    variables: Required[Object]
    outcome: Outcome


class Meta(TypedDict, total=False):
    """Facts that the session was created with."""

    ask_depth: Count


class Header(TypedDict, total=False):
    """The session itself."""

    session_id: Required[Name]
    agent: Required[Name]
    user_id: Name | None
    outcome: Outcome
    priority: Annotated[int, Ge(1), Lt(5)]
    meta: Required[Meta]
    variables: Required[Object]


class AnswerShape(TypedDict, total=False):
    """What an agent was told that asked another."""

    error: str | None
    code: str | None
    victim: str | None
    cycle: list[str] | None


class Answered(TypedDict):
    """What an agent answered that was asked something."""

    id: Name
    who: Name
    by: Name
    state: Name
    answer: AnswerShape | None


class StoredTask(TypedDict, total=False):
    """A task of a plan."""

    task_id: str | None
    agent: str | None
    description: str | None
    parameters: Object
    created_at: Amount
    depends_on: list[str]


class StoredPlan(TypedDict, total=False):
    """A plan."""

    tasks: Required[list[StoredTask]]
    reasoning: str
    notes: list[str]


class StoredResult(TypedDict, total=False):
    """What became of a task."""

    success: Required[bool]
    task_id: str | None
    agent: str | None
    error: str | None
