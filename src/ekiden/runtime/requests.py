"""Handoffs that a person or a program asks for while somebody runs the session.

A request is a document, stored before anybody is woken. Whoever runs the session takes it up
between two steps, or at once, and removes it in the transaction that answers it: so it is done
once, whoever dies in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.errors import (
    HandoffRefused,
    SessionError,
    StaleDocument,
    StoreUnavailable,
    UnknownAgent,
    UserError,
)
from ekiden.core.faults import fault_point
from ekiden.core.handoff import Handoff
from ekiden.core.items import Item
from ekiden.handoff import BEST
from ekiden.handoff.request_documents import Asked, asked_in, removal_of, requests_of
from ekiden.handoff.validation import (
    check_capabilities,
    check_cycle,
    check_depth,
    edge_between,
    not_found,
    unavailable,
)
from ekiden.runtime.attempt import NOTHING_BROUGHT, Attempt, Brings
from ekiden.runtime.brought import joined_chain
from ekiden.runtime.controller import carry_out, refuse, store_refusal
from ekiden.runtime.handed import received
from ekiden.runtime.occupancy import check_available
from ekiden.runtime.parked import Parked
from ekiden.runtime.rollback import finish_rollback, give_back
from ekiden.runtime.state import RunState
from ekiden.runtime.tried import settle_tried
from ekiden.storage.base import Document, DocumentWrite, SessionRow

_NOBODY_TO_ASK = (
    "it has to be confirmed by a person, and no run of the session is at work that could wait for "
    "them: send it a message, so that its agent hands it over and they are asked, or let a person "
    "hand it over (`ekiden handoff start`)"
)


async def serve_requests(run: RunState) -> bool:
    """Do what was asked of this session meanwhile, oldest first.

    True if the run does not go on as it was: another agent has the session, or the run is over.
    """
    before = run.agent
    await settle_rollback(run)
    while run.outcome is None:
        run.wanted = None
        documents = await requests_of(run.store, run.session_id)
        if not documents:
            break
        for document in documents:
            try:
                await _serve(run, document)
            except StaleDocument:
                # It was withdrawn or timed out just now: look again at what it says.
                break
            if run.outcome is not None:
                break
    return run.agent is not before or run.outcome is not None


async def _serve(run: RunState, document: Document) -> None:
    fault_point("handoff.request.before_serve")
    asked, taken = asked_in(document), [removal_of(document)]
    if asked.state != "open" or (asked.cancel is None and await _is_late(run, asked)):
        await store_withdrawal(run, asked, taken)
    elif asked.cancel is None:
        with _as_before_if_stale(run):
            await make(run, asked, taken)
    elif not await undo(run, asked, taken):
        await store_withdrawal(run, asked, taken)


async def record_withdrawn(run: RunState) -> None:
    """The run is over: put on record what nobody wants of the session any more.

    What is still wanted is done by whoever waits for it, now that the session is free.
    """
    for document in await requests_of(run.store, run.session_id):
        asked = asked_in(document)
        if asked.state != "open" or (asked.cancel is None and await _is_late(run, asked)):
            with suppress(StaleDocument):
                await store_withdrawal(run, asked, [removal_of(document)])


async def settle_rollback(run: RunState) -> None:
    """Finish the rollback that somebody began: only then it is clear who has the session."""
    while run.outcome is None and run.is_undoing:
        await finish_rollback(run)


async def make(
    run: RunState,
    asked: Asked,
    taken: Sequence[DocumentWrite],
    *,
    release: bool = False,
    may_wait: bool = True,
) -> bool:
    """Hand over as it was asked for; False if that is refused, which is then stored.

    Without `may_wait` there is no run that could wait for a person who has to confirm it: what
    nobody can say yes to now is refused. The document of the request is gone with either: `taken`
    is part of its transaction. What goes wrong in code of the team is a refusal, too: a request
    that nobody can serve would be tried again for ever.
    """
    standing = _Standing.of(run)
    problem: Exception | None = None
    begun = asked.own_id
    try:
        attempt = await attempt_for(run, asked)
    except (SessionError, StoreUnavailable):
        raise
    except Exception as exc:
        problem = exc
    else:
        attempt.writes = taken
        attempt.begins_run = run.before is not None
        try:
            if await carry_out(run, attempt):
                return True
        except UserError as exc:
            problem, begun = exc, attempt.id
        except Parked:
            if may_wait:
                raise
            begun = attempt.id
            problem = HandoffRefused("NOT_APPROVED", _NOBODY_TO_ASK)
    if problem is not None:
        standing.restore(run)
        attempt = replace(_unconnected(asked), id=begun, writes=taken)
        attempt.begin(run)
        attempt.validate()
        refuse(run, attempt, problem)
    await store_refusal(run, release=release)
    return False


async def undo(run: RunState, asked: Asked, taken: Sequence[DocumentWrite]) -> bool:
    """Undo the open handoff that is to be cancelled, and before it those that followed it.

    False if it is not open. `taken` is part of the transaction that begins to undo it.
    """
    if all(each.id != asked.cancel for each in run.cursor.open):
        return False
    while run.outcome is None and (pending := run.cursor.pending) is not None:
        if pending.id == asked.cancel:
            with _as_before_if_stale(run):
                await give_back(run, HandoffRefused("CANCELLED", asked.why_cancelled), writes=taken)
            break
        why = f"the handoff to {pending.source!r} before it was cancelled: {asked.why_cancelled}"
        await give_back(run, HandoffRefused("CANCELLED", why))
    return True


async def store_withdrawal(
    run: RunState, asked: Asked, taken: Sequence[DocumentWrite], *, release: bool = False
) -> None:
    """The source did not finish in time, or nobody wants it any more: that is put on record.

    Of a cancellation that comes to nothing, nothing is.
    """
    with _as_before_if_stale(run):
        if asked.cancel is None:
            _withdraw(run, asked)
        for each in taken:
            run.write(each)
        fault_point("handoff.withdrawn.before_commit")
        await run.commit(release=release)
        fault_point("handoff.withdrawn.after_commit")


def is_hopeless(run: RunState, asked: Asked) -> bool:
    """Whether it would be refused whatever anybody who is asked says.

    For such a request nobody is interrupted: it is refused at the end of the step.
    """
    if asked.cancel is not None:
        return all(each.id != asked.cancel for each in run.cursor.open)
    try:
        _check_quickly(run, asked)
    except HandoffRefused:
        return True
    return False


def _check_quickly(run: RunState, asked: Asked) -> None:
    """`HandoffRefused` for what is clear without asking anybody."""
    cursor = run.cursor
    _check_source(run, asked)
    edge = edge_between(run.agent, asked.to)
    chain = joined_chain(asked.chain, cursor.chain) if asked.chain else cursor.chain
    check_depth(len(chain) - 2, run.config.limits.depth)
    if asked.to == BEST:
        return
    target = _target(run, asked)
    if target.available is False:
        raise unavailable(target.name, "it is switched off")
    may_return = bool(edge.terms.allow_return) or run.config.returns == "always"
    check_cycle(target.name, chain, may_return=may_return, is_changed=True)
    check_capabilities(target, (*edge.terms.capabilities, *asked.capabilities))


def _check_source(run: RunState, asked: Asked) -> None:
    if asked.source and asked.source not in run.team:
        raise not_found(asked.source, [agent.name for agent in run.team])
    if asked.source and run.agent.name != asked.source:
        raise HandoffRefused(
            "PERMISSION_DENIED",
            f"the task is not with {asked.source!r} but with {run.agent.name!r}: only who has it "
            "can hand it over",
        )


def _target(run: RunState, asked: Asked) -> Agent[Any]:
    try:
        return run.find_agent(asked.to)
    except UnknownAgent:
        raise not_found(asked.to, [agent.name for agent in run.team]) from None


async def attempt_for(run: RunState, asked: Asked) -> Attempt:
    """What the controller is to try; `HandoffRefused` if there is no such agent or no way."""
    _check_source(run, asked)
    if asked.to != BEST:
        await check_available(run, _target(run, asked))
    return Attempt(
        edge=edge_between(run.agent, asked.to),
        arguments=asked.words(),
        by=asked.by,
        policy=asked.policy,
        timeout_s=asked.timeout_s,
        request=asked.id,
        id=asked.own_id,
        began_us=asked.asked_us,
        payload=asked.payload,
        priority=asked.priority,
        metadata=asked.metadata,
        brings=_brings(asked),
        capabilities=asked.capabilities,
    )


def _brings(asked: Asked) -> Brings:
    if not (asked.items or asked.variables or asked.chain):
        return NOTHING_BROUGHT
    return Brings(items=asked.items, variables=asked.variables, chain=asked.chain)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """How a run stands before somebody tries to hand it over."""

    visible: list[Item]
    history_length: int
    before: SessionRow | None

    @classmethod
    def of(cls, run: RunState) -> _Standing:
        return cls(visible=list(run.visible), history_length=run.history_length, before=run.before)

    def restore(self, run: RunState) -> None:
        """As if nobody had tried."""
        run.discard()
        run.replace_view(list(self.visible))
        run.history_length = self.history_length
        run.before = self.before


@contextmanager
def _as_before_if_stale(run: RunState) -> Iterator[None]:
    """If the request changed while the body served it, the run stands as it did before."""
    standing = _Standing.of(run)
    try:
        yield
    except StaleDocument:
        standing.restore(run)
        raise


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
        priority=asked.priority,
        metadata=asked.metadata,
        source=asked.source,
        by=asked.by,
        policy=asked.policy,
        request=asked.id,
        id=asked.own_id,
        began_us=asked.asked_us,
    )


async def _is_late(run: RunState, asked: Asked) -> bool:
    if asked.due_us is not None:
        return await run.store.now_us() > asked.due_us
    return run.config.clock.now_us() - asked.asked_us > asked.wait_s * 1e6


def _withdraw(run: RunState, asked: Asked) -> None:
    attempt = _unconnected(asked)
    attempt.begin(run)
    attempt.life.move("failed")
    settle_tried(run, attempt.id)
    why = asked.why_withdrawn(run.agent.name)
    words = received(run.agent.name, asked.words())
    source = asked.source or run.agent.name
    details = {**words, **attempt.details(source, asked.to), "code": why.code}
    run.record("handoff", details=details, error=why.message)
