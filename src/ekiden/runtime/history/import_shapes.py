"""The shapes of an exported session's parts, which pydantic checks: anybody may have written it.

Only what the runtime relies on is said here; whatever else a part has is left as it is. The keys of
a cursor are those of `Cursor.to_json`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Final, Literal, Required, TypeAlias, TypeVar

from annotated_types import Ge, Len, Lt
from pydantic import AfterValidator, BeforeValidator, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from ekiden.core.errors import EkidenError
from ekiden.core.errors.sessions import SessionImportInvalid
from ekiden.core.events import EventType
from ekiden.core.usage import Usage
from ekiden.handoff.request_documents import TRIED
from ekiden.sessions.state import STATE

T = TypeVar("T")

_MOST = 2**53
_LONGEST = 500


def _at_most(value: str) -> str:
    # pydantic's own limit refuses half characters, which names may have.
    if len(value) > _LONGEST:
        raise ValueError(f"it has more than {_LONGEST} characters")
    return value


def _some(value: str) -> str:
    if not value:
        raise ValueError("it is empty")
    return _at_most(value)


Name: TypeAlias = Annotated[str, AfterValidator(_some)]
Key: TypeAlias = Annotated[str, AfterValidator(_at_most)]
Count: TypeAlias = Annotated[int, Ge(0), Lt(_MOST)]
Amount: TypeAlias = Annotated[float, Ge(0), Lt(_MOST)]
"""Something that was spent or may be: finite, and not negative."""
Amounts: TypeAlias = dict[str, Amount]
Object: TypeAlias = dict[str, Any]


def _shape(name: str, fields: Mapping[str, Any]) -> Any:
    """An object that may have these fields, whose names are no names of Python or many alike."""
    return TypedDict(name, dict(fields), total=False)  # type: ignore[operator]


def _is_usage(value: Object) -> Object:
    try:
        Usage.from_json(value)
    except TypeError as exc:
        raise ValueError("it is not what models use") from exc
    return value


Used: TypeAlias = Annotated[Amounts, AfterValidator(_is_usage)]
"""What models used: counts, and a cost."""


class Part(TypedDict, total=False):
    """A part of what was said."""

    type: str | None
    text: str | None
    refusal: str | None


def _parts_of(value: Any) -> Any:
    return [] if isinstance(value, str) else value


Content: TypeAlias = Annotated[list[Part] | None, BeforeValidator(_parts_of)]
"""Text, or a list of parts."""


class Said(TypedDict, total=False):
    """Any item."""

    type: str | None
    role: str | None
    content: Content


class Message(Said):
    """What somebody said."""

    role: Name  # type: ignore[misc]


class Call(Said, total=False):
    """A call of a tool."""

    call_id: Required[Name]
    name: Required[str]
    arguments: str | None


class Output(Said, total=False):
    """What a tool gave."""

    call_id: Required[Name]
    output: Content


class Violation(TypedDict):
    """What does not fit a schema."""

    message: str
    path: str


class Finding(TypedDict, total=False):
    """What one guardrail found, or what one of a tool decided."""

    type: Required[Name]
    guardrail: Required[Name]
    behavior: Required[Name]
    result: str | None
    message: str | None
    violations: list[Violation]


State: Any = _shape(
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

Details: Any = _shape(
    "Details",
    {
        **dict.fromkeys(_TEXTS, str | None),
        STATE: State,
        "usage": Used | None,
        "guardrails": list[Finding],
        "undoes": Annotated[list[int], Len(2, 2)],
        "keeps": list[int],
    },
)
"""What an event tells beside its items, whatever its type."""

Letter: Any = _shape(
    "Letter", dict.fromkeys(("id", "to", "session", "subject", "from_agent"), str | None)
)
Received: Any = _shape(
    "Received", {"from": Required[Name], "reason": str | None, "summary": str | None}
)
"""What an agent was handed."""
Handoff: Any = _shape(
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
    "guardrail": Finding,
    "message": _shape("Letters", dict.fromkeys(("message", "asks", "tells"), Letter)),
    "task": _shape("Tasks", {"tasks": list[Object]}),
    "route": _shape("Route", {"agent": str | None}),
}
"""By the type of an event: what its details are, too."""
OF_END: Final[Mapping[str, Any]] = {
    "refused": _shape("Refused", {"reason": Required[str]}),
    "waiting": _shape("Waiting", {"reason": Required[str]}),
    "out_of_budget": _shape(
        "Spent",
        {"limit": Required[str], **dict.fromkeys(("allowed", "used"), Required[Amount])},
    ),
    "failed": _shape("Failed", {"code": Required[str]}),
}
"""By outcome: what the event of the end tells beside it."""
REWINDING: Final = _shape("Rewound", {"rewound": Required[int], "undoes": Required[list[int]]})
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


class Route(TypedDict, total=False):
    """Why the router was asked."""

    cause: Required[Name]
    options: Object | None


StoredCursor: Any = _shape(
    "StoredCursor",
    {
        **dict.fromkeys(("r", "t", "f", "c", "a", "m", "rb", "h", "e", "w", "hn", "gc"), Count),
        **dict.fromkeys(("ch", "pu", "sl", "pa"), list[str]),
        **dict.fromkeys(("si", "sp"), Amount),
        **dict.fromkeys(("u", "ou"), Used),
        **dict.fromkeys(("lf", "gr"), dict[str, Count]),
        "bu": Amounts,
        "ba": dict[str, Annotated[list[Amount], Len(3, 3)]],
        "b": str | None,
        "to": list[str] | None,
        TRIED: list[list[str]],
        "fi": list[Count],
        "hd": str,
        "gf": list[Finding],
        "rc": Received | None,
        "ro": Route | None,
    },
)
"""Where a session stands: counts and what was spent, names, and what was handed over."""

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


class Answer(TypedDict, total=False):
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
    answer: Answer | None


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


_WORDS: Final[Mapping[str, str]] = {
    "missing": "it is missing",
    "string_type": "it is not a text",
    "dict_type": "it is no object",
    "list_type": "it is not a list",
    "int_type": "it is not a whole number",
    "float_type": "it is not a number",
    "finite_number": "it is not a finite number",
}
"""By pydantic's kind of an error."""


def check(kind: Any, value: Any, place: str) -> Any:
    """The value, if it is of this shape; `SessionImportInvalid` with the place, if not."""
    try:
        _adapter(kind).validate_python(value, strict=True)
    except ValidationError as exc:
        found = exc.errors(include_url=False, include_input=False)[0]
        at = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in found["loc"])
        told = found["msg"].removeprefix("Value error, ")
        words = _WORDS.get(found["type"]) or f"{told[:1].lower()}{told[1:200]}"
        raise SessionImportInvalid(f"{place}{at}".lstrip("."), words) from exc
    return value


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def read_by(reader: Callable[[Any], T], value: Any, place: str) -> T:
    """What `reader` makes of the value."""
    try:
        return reader(value)
    except (EkidenError, KeyError, TypeError, ValueError, AttributeError) as exc:
        raise SessionImportInvalid(place, f"it cannot be read ({type(exc).__name__})") from exc
