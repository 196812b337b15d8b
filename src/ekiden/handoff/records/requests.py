"""Requests to sessions, stored until the process that runs them answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, Final, Literal, TypeAlias, cast

from ekiden.core.conversation.model import Item
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import SessionNotFound, StaleDocument
from ekiden.core.faults import fault_point
from ekiden.core.handoffs.handoff import DEFAULT_TIMEOUT_S, PolicyName
from ekiden.core.handoffs.request import A_PROGRAM, Actor, HandoffFailure
from ekiden.core.values import dumps
from ekiden.storage.base import Document, DocumentWrite, Store

REQUESTS: Final = "handoff.requests"
"""The collection of what is asked of sessions; keys are ``<session>/<request>``."""
TRIED: Final = "hw"
"""Where a session's cursor tells which handoffs are on record and not decided."""
_MOST_PAGES: Final = 10
"""How many pages of requests are looked through for dead ones."""


@dataclass(frozen=True, slots=True)
class TriedHandoff:
    """A recorded handoff that is undecided: a person is asked about it."""

    step: str
    id: str
    source: str
    target: str

    def to_json(self) -> list[str]:
        """As a list, short."""
        return [self.step, self.id, self.source, self.target]

    def is_asked_of(self, session_id: str) -> bool:
        """Whether a document requests it from the session, and stays until it is served."""
        return self.id.startswith(f"{session_id}.hrq_")


def tried_in(cursor: Mapping[str, Any]) -> tuple[TriedHandoff, ...]:
    """The handoffs of a stored cursor that are on record and not decided."""
    return tuple(TriedHandoff(*each) for each in cursor.get(TRIED, ()))


RequestState: TypeAlias = Literal["open", "timed_out", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked for: a handoff, or that one be cancelled."""

    id: str
    """The session's id, a dot and a name: also that of the handoff, if it is left to others."""
    to: str = ""
    source: str = ""
    """The agent that must have the session when it is handed over; empty: any agent."""
    cancel: str | None = None
    """The id of the handoff that is to be undone."""
    reason: str = ""
    summary: str = ""
    context: Any = None
    payload: Any = None
    priority: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The caller's own."""
    items: tuple[Item, ...] = ()
    """To be appended to the conversation."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """To be set."""
    chain: tuple[str, ...] = ()
    """Who had the task, as the caller knows it."""
    policy: PolicyName | None = None
    timeout_s: float | None = None
    """`None`: as the way between the two agents says."""
    capabilities: tuple[str, ...] = ()
    condition: str = ""
    """What must hold, beside what the way between the two agents requires."""
    by: Actor = A_PROGRAM
    asked_us: int = 0
    due_us: int | None = None
    """When it expires, on the store's clock, which no user sets; not given for requests that are
    not left to others, or were stored by an earlier version."""
    state: RequestState = "open"
    withdrawn: str = ""
    """Why it was withdrawn."""
    withdrawn_us: int = 0

    @property
    def is_urgent(self) -> bool:
        """Whether the step under way is to be broken off for it."""
        return self.policy == "immediate" or self.cancel is not None

    @property
    def own_id(self) -> str:
        """The id of the handoff, known to the requester; empty if the request is not left to
        others: then the handoff gets a number."""
        return self.id if self.due_us is not None else ""

    @property
    def wait_s(self) -> float:
        """How long it is waited that the source finishes what it is doing."""
        return DEFAULT_TIMEOUT_S if self.timeout_s is None else self.timeout_s

    @property
    def why_cancelled(self) -> str:
        """What is put on record of a handoff that is cancelled."""
        return self.reason or f"{self.by.name or self.by.kind} cancelled it"

    def why_withdrawn(self, source: str) -> HandoffFailure:
        """What is told of a request that is not open any more, or late."""
        if self.state == "cancelled":
            why = f": {self.withdrawn}" if self.withdrawn else ""
            told = f"it was cancelled before it was made{why}"
            return HandoffFailure(code="CANCELLED", message=told)
        late = f"{source!r} did not finish what it was doing within {self.wait_s:g} s"
        return HandoffFailure(code="TIMEOUT", message=late)

    def to_json(self) -> dict[str, Any]:
        """As it is stored."""
        return {
            "id": self.id,
            "to": self.to,
            "source": self.source,
            "cancel": self.cancel,
            "reason": self.reason,
            "summary": self.summary,
            "context": self.context,
            "payload": self.payload,
            "priority": self.priority,
            "metadata": dict(self.metadata),
            "items": list(self.items),
            "variables": dict(self.variables),
            "chain": list(self.chain),
            "policy": self.policy,
            "timeout_s": self.timeout_s,
            "capabilities": list(self.capabilities),
            "condition": self.condition,
            "by": self.by.to_json(),
            "asked_us": self.asked_us,
            "due_us": self.due_us,
            "state": self.state,
            "withdrawn": self.withdrawn,
            "withdrawn_us": self.withdrawn_us,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Asked:
        """The inverse of `to_json`; what another version stored besides is left out."""
        known = {each.name: data[each.name] for each in fields(cls) if each.name in data}
        known["by"] = Actor(**known["by"])
        for name in ("capabilities", "items", "chain"):
            known[name] = tuple(known.get(name, ()))
        return cls(**known)

    def words(self) -> str:
        """What goes along, as the JSON text of a transfer."""
        words = {"reason": self.reason, "summary": self.summary, "context": self.context}
        return dumps({name: value for name, value in words.items() if value})


async def requests_of(store: Store, session_id: str) -> list[Document]:
    """What is asked of the session, oldest first."""
    found: list[Document] = []
    after = ""
    while page := await store.list_documents(REQUESTS, prefix=f"{session_id}/", after=after):
        # Of the sessions whose ids begin with this one and a slash, none is meant.
        found += (each for each in page if session_of(each) == session_id)
        after = page[-1].key
    return sorted(found, key=lambda each: int(each.body["asked_us"]))


def request_key(session_id: str, request_id: str) -> str:
    """The key of the document of a request."""
    return f"{session_id}/{request_id.rpartition('.')[2]}"


def document_of(session_id: str, asked: Asked, *, version: int | None = None) -> DocumentWrite:
    """The request as it is stored."""
    key = request_key(session_id, asked.id)
    return DocumentWrite(
        collection=REQUESTS, key=key, body=asked.to_json(), expected_version=version
    )


def removal_of(document: Document) -> DocumentWrite:
    """The request is answered, unless it changed meanwhile."""
    return DocumentWrite(
        collection=REQUESTS, key=document.key, body=None, expected_version=document.version
    )


def asked_in(document: Document) -> Asked:
    """The request that a document holds."""
    return Asked.from_json(cast(Mapping[str, Any], document.body))


def session_of(document: Document) -> str:
    """The session of which it is asked."""
    return document.key.rpartition("/")[0]


async def change_request(store: Store, change: DocumentWrite) -> None:
    """Withdraw or remove a request; `StaleDocument` if it was just served."""
    fault_point("handoff.withdrawn.before_write")
    await store.write_documents([change])
    fault_point("handoff.withdrawn.after_write")


async def find_request(store: Store, request_id: str) -> Document | None:
    """The request with this id, if it is unanswered."""
    after = ""
    while documents := await store.list_documents(REQUESTS, after=after):
        for document in documents:
            if asked_in(document).id == request_id:
                return document
        after = documents[-1].key
    return None


async def sweep_requests(store: Store, *, now_us: int) -> None:
    """Remove requests of sessions that are gone, once their time is over.

    The author of a request does this, so there are never many.
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
                except StaleDocument:  # somebody has just seen to it
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
