"""Handoffs that a person or a program asks for while somebody runs the session.

A request is a document, stored before anybody is woken. Whoever runs the session takes it up
between two steps, or at once, and removes it in the transaction that answers it: so it is done
once, whoever dies in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from ekiden.core.errors import HandoffRefused, StaleDocument, UnknownAgent
from ekiden.core.faults import fault_point
from ekiden.core.handoff import Handoff
from ekiden.core.handoff_record import A_PROGRAM, Actor
from ekiden.core.handoff_terms import HandoffPolicy
from ekiden.core.jsonio import dumps
from ekiden.handoff import BEST
from ekiden.handoff.validation import edge_between, not_found
from ekiden.runtime.attempt import Attempt
from ekiden.runtime.controller import carry_out, refuse, store_refusal
from ekiden.runtime.leases import REQUESTS
from ekiden.runtime.occupancy import check_available
from ekiden.runtime.rollback import give_back
from ekiden.runtime.state import RunState
from ekiden.storage.base import Document, DocumentWrite

RequestState: TypeAlias = Literal["open", "timed_out", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked for: a handoff, or that one be cancelled."""

    id: str
    to: str = ""
    cancel: str | None = None
    """The id of the handoff that is to be undone."""
    reason: str = ""
    summary: str = ""
    context: Any = None
    payload: Any = None
    policy: HandoffPolicy | None = None
    timeout_s: float | None = None
    capabilities: tuple[str, ...] = ()
    by: Actor = A_PROGRAM
    asked_us: int = 0
    state: RequestState = "open"

    @property
    def is_urgent(self) -> bool:
        """Whether the step under way is to be broken off for it."""
        return self.policy == "immediate" or self.cancel is not None

    def to_json(self) -> dict[str, Any]:
        """As it is stored."""
        return {
            "id": self.id,
            "to": self.to,
            "cancel": self.cancel,
            "reason": self.reason,
            "summary": self.summary,
            "context": self.context,
            "payload": self.payload,
            "policy": self.policy,
            "timeout_s": self.timeout_s,
            "capabilities": list(self.capabilities),
            "by": self.by.to_json(),
            "asked_us": self.asked_us,
            "state": self.state,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Asked:
        """The inverse of `to_json`."""
        fields = dict(data)
        fields["by"] = Actor(**fields["by"])
        fields["capabilities"] = tuple(fields["capabilities"])
        return cls(**fields)

    def words(self) -> str:
        """What goes along, as the JSON text of a transfer."""
        words = {"reason": self.reason, "summary": self.summary, "context": self.context}
        return dumps({name: value for name, value in words.items() if value})


async def serve_requests(run: RunState) -> bool:
    """Do what was asked of this session meanwhile, oldest first; True if the agent changed."""
    run.wanted = None
    documents = await run.store.list_documents(REQUESTS, prefix=f"{run.session_id}/")
    before, view = run.agent, (list(run.visible), run.history_length)
    for document in sorted(documents, key=lambda each: int(each.body["asked_us"])):
        asked = Asked.from_json(document.body)
        run.write(DocumentWrite(
            collection=REQUESTS, key=document.key, body=None, expected_version=document.version
        ))  # fmt: skip
        try:
            await _serve(run, asked)
        except StaleDocument:
            # It was withdrawn or timed out just now: look again at what it says.
            run.discard()
            run.replace_view(view[0])
            run.history_length = view[1]
            run.want(at_once=False)
            break
    return run.agent is not before


async def _serve(run: RunState, asked: Asked) -> None:
    fault_point("handoff.request.before_serve")
    if asked.cancel is not None:
        await _cancel(run, asked)
        return
    if asked.state != "open" or _is_late(run, asked):
        _withdraw(run, asked)
        fault_point("handoff.withdrawn.before_commit")
        await run.commit()
        fault_point("handoff.withdrawn.after_commit")
        return
    try:
        attempt = await attempt_for(run, asked)
    except HandoffRefused as exc:
        refused_attempt(run, asked, exc)
        await store_refusal(run)
        return
    if not await carry_out(run, attempt):
        await store_refusal(run)


async def attempt_for(run: RunState, asked: Asked) -> Attempt:
    """What the controller is to try; `HandoffRefused` if there is no such agent or no way."""
    if asked.to != BEST:
        try:
            target = run.find_agent(asked.to)
        except UnknownAgent:
            raise not_found(asked.to, [agent.name for agent in run.team]) from None
        await check_available(run, target)
    return Attempt(
        edge=edge_between(run.agent, asked.to),
        arguments=asked.words(),
        by=asked.by,
        policy=asked.policy,
        timeout_s=asked.timeout_s,
        request=asked.id,
        began_us=asked.asked_us,
        payload=asked.payload,
        capabilities=asked.capabilities,
    )


def refused_attempt(run: RunState, asked: Asked, exc: HandoffRefused) -> None:
    """Put on record that what was asked for is not possible; the caller commits it."""
    attempt = _unconnected(asked)
    attempt.begin(run)
    refuse(run, attempt, exc)


def _unconnected(asked: Asked) -> Attempt:
    """An attempt along a way that does not exist, only to be refused."""

    async def nowhere(context: Any, arguments: str) -> Any:
        raise AssertionError("a handoff that was refused is not made")

    edge: Handoff[Any, Any] = Handoff(
        tool_name="none",
        tool_description="",
        input_json_schema={},
        on_invoke_handoff=nowhere,
        agent_name=asked.to,
    )
    return Attempt(
        edge=edge,
        arguments=asked.words(),
        payload=asked.payload,
        by=asked.by,
        request=asked.id,
        began_us=asked.asked_us,
    )


def _is_late(run: RunState, asked: Asked) -> bool:
    if asked.timeout_s is None:
        return False
    return run.config.clock.now_us() - asked.asked_us > asked.timeout_s * 1e6


def _withdraw(run: RunState, asked: Asked) -> None:
    """The source did not finish in time, or nobody wants it any more: nothing is handed over."""
    attempt = _unconnected(asked)
    attempt.begin(run)
    attempt.life.move("transferring")
    attempt.life.move("rolled_back")
    details = attempt.details(run.agent.name, asked.to)
    is_cancelled = asked.state == "cancelled"
    details["code"] = "CANCELLED" if is_cancelled else "TIMEOUT"
    why = (
        "it was cancelled before it was made"
        if is_cancelled
        else f"{run.agent.name!r} did not finish what it was doing within {asked.timeout_s:g} s"
    )
    run.record("handoff", details=details, error=why)


async def _cancel(run: RunState, asked: Asked) -> None:
    pending = run.cursor.pending
    if pending is None or pending.id != asked.cancel:
        await run.commit()
        return
    writes = run.writes()
    why = asked.reason or f"{asked.by.name or asked.by.kind} cancelled it"
    await give_back(run, HandoffRefused("CANCELLED", why), writes=writes)


def document_of(session_id: str, asked: Asked, *, version: int | None = None) -> DocumentWrite:
    """The request as it is stored."""
    key = f"{session_id}/{asked.id}"
    return DocumentWrite(
        collection=REQUESTS, key=key, body=asked.to_json(), expected_version=version
    )


def asked_in(document: Document) -> Asked:
    """The request that a document holds."""
    return Asked.from_json(cast(Mapping[str, Any], document.body))
