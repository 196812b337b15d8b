"""The lifecycle of a handoff as a table, its checks, and stored handoff requests."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, fields
from typing import Any, Final, Literal, TypeAlias, cast

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import Item
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import HandoffError, HandoffRefused, SessionNotFound, StaleDocument
from ekiden.core.faults import fault_point
from ekiden.core.handoffs import (
    A_PROGRAM,
    DEFAULT_TIMEOUT_S,
    Actor,
    Handoff,
    HandoffFailure,
    PolicyName,
    StatusName,
)
from ekiden.core.text.wording import suggestion
from ekiden.core.values import dumps
from ekiden.handoff.offers import default_handoff
from ekiden.storage.base import Document, DocumentWrite, Store

MOVES: Final[Mapping[StatusName | None, frozenset[StatusName]]] = {
    None: frozenset({"initiated"}),
    "initiated": frozenset({"validating", "failed"}),
    "validating": frozenset({"transferring", "failed"}),
    "transferring": frozenset({"completed", "rolled_back"}),
    "completed": frozenset(),
    "failed": frozenset(),
    "rolled_back": frozenset(),
}
"""The statuses that may follow each status. `failed` means that nothing was changed. After
`transferring`, the handoff ends as `completed`, or all its changes are undone (`rolled_back`)."""

FINAL: Final[frozenset[StatusName]] = frozenset(
    {status for status, following in MOVES.items() if status is not None and not following}
)


class IllegalMove(HandoffError):
    """A handoff changed its status in an impossible way. This is a bug in Ekiden, not in a team."""

    code = "handoff.illegal_move"


class Lifecycle:
    """The status of one handoff, and its status changes that are not stored yet."""

    __slots__ = ("fresh", "status")

    def __init__(self, status: StatusName | None = None) -> None:
        self.status = status
        self.fresh: list[StatusName] = []

    def move(self, status: StatusName) -> None:
        """Change the status. Raises `IllegalMove` if the table `MOVES` does not allow the
        change."""
        if status not in MOVES[self.status]:
            raise IllegalMove(f"a handoff cannot change from {self.status} to {status}")
        self.status = status
        self.fresh.append(status)


def move_details(
    handoff_id: str, source: str, target: str, before: StatusName, status: StatusName
) -> dict[str, Any]:
    """The details of the event with which a handoff moves from status `before` to `status`."""
    life = Lifecycle(before)
    life.move(status)
    return {
        "id": handoff_id,
        "from": source,
        "to": target,
        "status": status,
        "moves": list(life.fresh),
    }


def is_legal(path: list[StatusName]) -> bool:
    """Whether the table `MOVES` allows these statuses in this order, from the start of a
    handoff."""
    before: StatusName | None = None
    for status in path:
        if status not in MOVES[before]:
            return False
        before = status
    return True


_SHOWN_CHAIN = 12


def not_found(name: str, known: Collection[str]) -> HandoffRefused:
    """The error for a handoff to an agent that does not exist."""
    listed = ", ".join(sorted(known)[:20]) or "none"
    return HandoffRefused(
        "AGENT_NOT_FOUND",
        f"no agent is called {name[:200]!r}; the team has: {listed}{suggestion(name, known)}",
    )


def unavailable(target: str, why: str) -> HandoffRefused:
    """The error for a handoff to an agent that is not available."""
    return HandoffRefused(
        "AGENT_UNAVAILABLE",
        f"agent {target!r} is not available ({why}); go on without it, choose another agent, "
        "or try again later",
    )


def edge_between(source: Agent[Any], target: str) -> Handoff[Any, Any]:
    """The declared handoff from `source` to `target`. If there are several, a handoff that a model
    may call is preferred. Raises `HandoffRefused` if there is none."""
    edges = [
        each if isinstance(each, Handoff) else default_handoff(each) for each in source.handoffs
    ]
    leading = [edge for edge in edges if edge.agent_name == target]
    for edge in (*(each for each in leading if each.terms.when != "auto"), *leading):
        return edge
    allowed = ", ".join(edge.agent_name for edge in edges) or "none"
    raise HandoffRefused(
        "PERMISSION_DENIED",
        f"agent {source.name!r} may not hand to {target!r}; allowed: {allowed}; add it to the "
        f"`handoffs` of {source.name!r} to allow it",
    )


def check_depth(depth: int, most: int | None) -> None:
    """Raise `HandoffRefused` if the task has reached the maximum number of handoffs."""
    if most is not None and depth >= most:
        raise HandoffRefused(
            "MAX_DEPTH_EXCEEDED",
            f"the task was handed off {depth} times, which is the maximum "
            f"(Limits.depth={most}); finish it yourself, or tell the person what is missing: "
            "their next message starts a new chain",
        )


def check_cycle(target: str, chain: Sequence[str], *, may_return: bool, is_changed: bool) -> None:
    """Raise `HandoffRefused` if the target had the task before and may not get the task again."""
    if target not in chain:
        return
    shown = " → ".join(chain[-_SHOWN_CHAIN:])
    if not may_return:
        raise HandoffRefused(
            "CIRCULAR_HANDOFF",
            f"{target!r} had the task already ({shown}), and this handoff does not say "
            "`allow_return`; finish it yourself, or hand it to an agent that did not have it",
        )
    if not is_changed:
        raise HandoffRefused(
            "CIRCULAR_HANDOFF",
            f"nothing changed since {target!r} had the task ({shown}); do something new first, "
            "or pass a `summary` or `context` that it does not have yet",
        )


def check_capabilities(target: Agent[Any], required: Sequence[str]) -> None:
    """Raise `HandoffRefused` if the target lacks a required capability."""
    if not required:
        return
    from ekiden.capabilities import missing_capabilities

    missing = missing_capabilities(required, target.capabilities)
    if missing:
        has = ", ".join(each.name for each in target.capabilities) or "none"
        raise HandoffRefused(
            "CAPABILITY_MISSING",
            f"agent {target.name!r} lacks {', '.join(missing)} (it has: {has}); "
            "choose an agent that has it: `ekiden agents match` finds one",
        )


REQUESTS: Final = "handoff.requests"
"""The collection of requests; keys are ``<session>/<request>``."""
TRIED: Final = "hw"
"""The key of undecided handoffs in a session's cursor."""
_MOST_PAGES: Final = 10
"""The maximum number of pages that are searched for dead requests."""


@dataclass(frozen=True, slots=True)
class TriedHandoff:
    """A recorded handoff that is not decided yet, for example because it waits for approval."""

    step: str
    id: str
    source: str
    target: str

    def to_json(self) -> list[str]:
        """Return the values of the fields as a list."""
        return [self.step, self.id, self.source, self.target]

    def is_asked_of(self, session_id: str) -> bool:
        """Whether the handoff was made from a stored request for this session."""
        return self.id.startswith(f"{session_id}.hrq_")


def tried_in(cursor: Mapping[str, Any]) -> tuple[TriedHandoff, ...]:
    """The undecided handoffs in a stored cursor."""
    return tuple(TriedHandoff(*each) for each in cursor.get(TRIED, ()))


RequestState: TypeAlias = Literal["open", "timed_out", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request to make a handoff, or to cancel a handoff."""

    id: str
    """The session's id, a dot and a name. If the request is stored, this is also the id of the
    handoff."""
    to: str = ""
    source: str = ""
    """The agent that must have the session. If empty, any agent may have it."""
    cancel: str | None = None
    """The id of the handoff to cancel; `None` for a request to make a handoff."""
    reason: str = ""
    summary: str = ""
    context: Any = None
    payload: Any = None
    priority: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Metadata that the requester passed."""
    items: tuple[Item, ...] = ()
    """Items to append to the conversation."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """Variables to set in the session."""
    chain: tuple[str, ...] = ()
    """Agents that had the task before, according to the requester."""
    policy: PolicyName | None = None
    timeout_s: float | None = None
    """`None` means the timeout of the handoff between the two agents."""
    capabilities: tuple[str, ...] = ()
    condition: str = ""
    """A condition in addition to the condition of the handoff between the two agents."""
    by: Actor = A_PROGRAM
    asked_us: int = 0
    due_us: int | None = None
    """The time of expiry on the store's clock, in microseconds. Users cannot set this field. `None`
    for requests that are not stored, or that an earlier version stored."""
    state: RequestState = "open"
    withdrawn: str = ""
    """The reason why the request was withdrawn."""
    withdrawn_us: int = 0

    @property
    def is_urgent(self) -> bool:
        """Whether the request interrupts the current step."""
        return self.policy == "immediate" or self.cancel is not None

    @property
    def own_id(self) -> str:
        """The id of the handoff, which the requester knows. If the request is not stored, this is
        empty, and the handoff gets a numbered id."""
        return self.id if self.due_us is not None else ""

    @property
    def wait_s(self) -> float:
        """The time, in seconds, in which the source must finish its current step."""
        return DEFAULT_TIMEOUT_S if self.timeout_s is None else self.timeout_s

    @property
    def why_cancelled(self) -> str:
        """The reason that is recorded for a cancelled handoff."""
        return self.reason or f"{self.by.name or self.by.kind} cancelled it"

    def why_withdrawn(self, source: str) -> HandoffFailure:
        """The failure to record for a request that was withdrawn or timed out."""
        if self.state == "cancelled":
            why = f": {self.withdrawn}" if self.withdrawn else ""
            message = f"it was cancelled before it was made{why}"
            return HandoffFailure(code="CANCELLED", message=message)
        late = f"{source!r} did not finish what it was doing within {self.wait_s:g} s"
        return HandoffFailure(code="TIMEOUT", message=late)

    def to_json(self) -> dict[str, Any]:
        """Return all fields by name, as they are stored."""
        data: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        for name in ("metadata", "variables"):
            data[name] = dict(data[name])
        for name in _LISTS:
            data[name] = list(data[name])
        return {**data, "by": self.by.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Asked:
        """Create the request from the result of `to_json`. Unknown fields are ignored."""
        known = {each.name: data[each.name] for each in fields(cls) if each.name in data}
        known["by"] = Actor(**known["by"])
        for name in _LISTS:
            known[name] = tuple(known.get(name, ()))
        return cls(**known)

    def arguments(self) -> str:
        """Reason, summary and context as JSON text, in the form of a transfer tool's arguments."""
        data = {"reason": self.reason, "summary": self.summary, "context": self.context}
        return dumps({name: value for name, value in data.items() if value})


_LISTS: Final = ("items", "chain", "capabilities")


async def requests_of(store: Store, session_id: str) -> list[Document]:
    """The requests of the session, oldest first."""
    found: list[Document] = []
    after = ""
    while page := await store.list_documents(REQUESTS, prefix=f"{session_id}/", after=after):
        # The prefix also finds sessions whose ids begin with this id and a slash.
        found += (each for each in page if session_of(each) == session_id)
        after = page[-1].key
    return sorted(found, key=lambda each: int(each.body["asked_us"]))


def request_key(session_id: str, request_id: str) -> str:
    """The key of the request's document."""
    return f"{session_id}/{request_id.rpartition('.')[2]}"


def document_of(session_id: str, asked: Asked, *, version: int | None = None) -> DocumentWrite:
    """The write that stores the request."""
    key = request_key(session_id, asked.id)
    return DocumentWrite(
        collection=REQUESTS, key=key, body=asked.to_json(), expected_version=version
    )


def removal_of(document: Document) -> DocumentWrite:
    """The write that removes the request. The write fails if the request has changed."""
    return DocumentWrite(
        collection=REQUESTS, key=document.key, body=None, expected_version=document.version
    )


def asked_in(document: Document) -> Asked:
    """Read the request from a document."""
    return Asked.from_json(cast(Mapping[str, Any], document.body))


def session_of(document: Document) -> str:
    """The id of the session that the request is for."""
    return document.key.rpartition("/")[0]


async def change_request(store: Store, change: DocumentWrite) -> None:
    """Withdraw or remove a request. Raises `StaleDocument` if another process changed the request
    first."""
    fault_point("handoff.withdrawn.before_write")
    await store.write_documents([change])
    fault_point("handoff.withdrawn.after_write")


async def find_request(store: Store, request_id: str) -> Document | None:
    """The stored request with this id; `None` if it does not exist or was served."""
    after = ""
    while documents := await store.list_documents(REQUESTS, after=after):
        for document in documents:
            if asked_in(document).id == request_id:
                return document
        after = documents[-1].key
    return None


async def sweep_requests(store: Store, *, now_us: int) -> None:
    """Remove expired requests of deleted sessions.

    Every process that stores a request does this, so there are never many.
    """
    after = ""
    for _ in range(_MOST_PAGES):
        documents = await store.list_documents(REQUESTS, after=after)
        if not documents:
            return
        for document in documents:
            if await _is_dead(store, document, now_us):
                try:
                    await change_request(store, removal_of(document))
                except StaleDocument:  # another process has just handled it
                    continue
        after = documents[-1].key


async def _is_dead(store: Store, document: Document, now_us: int) -> bool:
    asked = asked_in(document)
    if now_us - asked.asked_us <= asked.wait_s * 1e6:
        return False
    try:
        await store.get(session_of(document))
    except SessionNotFound:
        return True
    return False
