"""What is asked of sessions, as it is stored until somebody answers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias, cast

from ekiden.core.faults import fault_point
from ekiden.core.handoff_record import A_PROGRAM, Actor, HandoffFailure
from ekiden.core.handoff_terms import DEFAULT_TIMEOUT_S, HandoffPolicy
from ekiden.core.items import Item
from ekiden.core.jsonio import dumps
from ekiden.runtime.leases import REQUESTS
from ekiden.storage.base import Document, DocumentWrite, Store

RequestState: TypeAlias = Literal["open", "timed_out", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked for: a handoff, or that one be cancelled."""

    id: str
    to: str = ""
    source: str = ""
    """Who is to have the session when it is handed over; empty: anybody."""
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
    policy: HandoffPolicy | None = None
    timeout_s: float | None = None
    """`None`: as the way between the two agents says."""
    capabilities: tuple[str, ...] = ()
    by: Actor = A_PROGRAM
    asked_us: int = 0
    due_us: int | None = None
    """When it is too late, on the store's clock, which nobody sets; what is not left to others, or
    was by an earlier version, does not say."""
    state: RequestState = "open"
    withdrawn: str = ""
    """Why it was withdrawn."""

    @property
    def is_urgent(self) -> bool:
        """Whether the step under way is to be broken off for it."""
        return self.policy == "immediate" or self.cancel is not None

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
            "by": self.by.to_json(),
            "asked_us": self.asked_us,
            "due_us": self.due_us,
            "state": self.state,
            "withdrawn": self.withdrawn,
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


def document_of(session_id: str, asked: Asked, *, version: int | None = None) -> DocumentWrite:
    """The request as it is stored."""
    key = f"{session_id}/{asked.id}"
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
    """Withdraw or remove a request; `StaleDocument` if somebody has just seen to it."""
    fault_point("handoff.withdrawn.before_write")
    await store.write_documents([change])
    fault_point("handoff.withdrawn.after_write")
