"""Checks handoff requests of people and programs, and serves them while the session runs.

A request is a document, which is stored before any process is woken. The process that runs the
session serves the request between two steps, or at once. It removes the document in the transaction
that answers the request. So each request is served exactly once, even if a process dies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.current_agent import acting_agent
from ekiden.core.errors import (
    HandoffRefused,
    SessionError,
    StaleDocument,
    StoreUnavailable,
    UnknownAgent,
    UserError,
)
from ekiden.core.faults import fault_point
from ekiden.core.handoffs import Actor
from ekiden.core.values import NOT_IN_NAMES, check_line, dumps, loads
from ekiden.handoff import BEST
from ekiden.handoff.requests import (
    Asked,
    asked_in,
    check_capabilities,
    check_cycle,
    check_depth,
    edge_between,
    not_found,
    removal_of,
    requests_of,
    unavailable,
)
from ekiden.runtime.conversation import check_condition
from ekiden.runtime.handoff.acceptance import check_available, joined_chain
from ekiden.runtime.handoff.controller import carry_out, refuse, store_refusal
from ekiden.runtime.handoff.rollback import finish_rollback, give_back
from ekiden.runtime.outcome import (
    RunSnapshot,
    as_before_if_stale,
    attempt_on,
    is_late,
    store_withdrawal,
)
from ekiden.runtime.questions.questions import Suspended
from ekiden.runtime.state.attempt import NO_ADDITIONS, Additions, Attempt
from ekiden.runtime.state.state import RunState
from ekiden.storage.base import Document, DocumentWrite

_NO_RUN_TO_WAIT = (
    "it needs human approval, and no run of the session is active that could wait for it: "
    "send it a message, so that its agent hands it over and asks, or let a person hand it "
    "over (`ekiden handoff start`)"
)


async def serve_requests(run: RunState) -> bool:
    """Serve all stored requests for this session, oldest first.

    Returns whether the run changed: another agent has the session, or the run is over.
    """
    before = run.agent
    await settle_rollback(run)
    while run.outcome is None:
        # Cleared before the read, so that a request after the read interrupts the next step.
        run.interruption.clear()
        documents = await requests_of(run.store, run.session_id)
        if not documents:
            break
        for document in documents:
            try:
                await _serve(run, document)
            except StaleDocument:
                # The request was withdrawn or timed out meanwhile: read it again.
                break
            if run.outcome is not None:
                break
    return run.agent is not before or run.outcome is not None


async def _serve(run: RunState, document: Document) -> None:
    fault_point("handoff.request.before_serve")
    asked, taken = asked_in(document), [removal_of(document)]
    if asked.state != "open" or await is_late(run, asked):
        await store_withdrawal(run, asked, taken)
    elif asked.cancel is None:
        with as_before_if_stale(run):
            await make(run, asked, taken)
    elif not await undo(run, asked, taken):
        await store_withdrawal(run, asked, taken)


async def settle_rollback(run: RunState) -> None:
    """Finish a rollback in progress, because it changes which agent has the session."""
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
    """Make the requested handoff and return True, or store the refusal and return False.

    Without `may_wait`, no run can wait for a person's approval, so a handoff that needs approval is
    refused. In each case the transaction includes `taken`, which removes the document of the
    request. An error in user code is also a refusal. Otherwise the request would be retried for
    ever.
    """
    before = RunSnapshot.of(run)
    problem: Exception | None = None
    handoff_id = asked.own_id
    try:
        attempt = await attempt_for(run, asked)
    except (SessionError, StoreUnavailable):
        raise  # The request stays stored, and the next process that runs the session serves it.
    except Exception as exc:
        problem = exc
    else:
        attempt.writes = taken
        attempt.begins_run = run.before is not None
        try:
            if await carry_out(run, attempt):
                return True
        except UserError as exc:
            problem, handoff_id = exc, attempt.id
        except Suspended:
            if may_wait:
                raise
            handoff_id = attempt.id
            problem = HandoffRefused("NOT_APPROVED", _NO_RUN_TO_WAIT)
    if problem is not None:
        # Earlier checks may have recorded events and changed variables.
        before.restore(run)
        attempt = replace(attempt_on(asked), id=handoff_id, writes=taken)
        attempt.begin(run)
        attempt.validate()
        refuse(run, attempt, problem)
    await store_refusal(run, release=release)
    return False


async def undo(run: RunState, asked: Asked, taken: Sequence[DocumentWrite]) -> bool:
    """Roll back the open handoff that the request cancels. Later handoffs are rolled back first.

    Returns False if the handoff is not open. `taken` is part of the transaction that begins the
    rollback.
    """
    if all(each.id != asked.cancel for each in run.cursor.handoffs.open):
        return False
    while run.outcome is None and (pending := run.cursor.handoffs.pending) is not None:
        if pending.id == asked.cancel:
            with as_before_if_stale(run):
                await give_back(run, HandoffRefused("CANCELLED", asked.why_cancelled), writes=taken)
            break
        why = f"the handoff to {pending.source!r} before it was cancelled: {asked.why_cancelled}"
        await give_back(run, HandoffRefused("CANCELLED", why))
    return True


async def attempt_for(run: RunState, asked: Asked) -> Attempt:
    """The attempt for the controller. Raises `HandoffRefused` if the source has no handoff to the
    target, or the target is not available."""
    _check_source(run, asked)
    if asked.to != BEST:
        await check_available(run, _target_of(run, asked))
    return replace(
        attempt_on(asked, edge_between(run.agent, asked.to)),
        timeout_s=asked.timeout_s,
        additions=_additions(asked),
        capabilities=asked.capabilities,
        condition=asked.condition,
    )


def _additions(asked: Asked) -> Additions:
    if not (asked.items or asked.variables or asked.chain):
        return NO_ADDITIONS
    return Additions(items=asked.items, variables=asked.variables, chain=asked.chain)


def _check_source(run: RunState, asked: Asked) -> None:
    if asked.source and asked.source not in run.team:
        raise not_found(asked.source, [agent.name for agent in run.team])
    if asked.source and run.agent.name != asked.source:
        raise HandoffRefused(
            "PERMISSION_DENIED",
            f"the active agent is {run.agent.name!r}, not {asked.source!r}: only the active agent "
            "can hand over",
        )


def _target_of(run: RunState, asked: Asked) -> Agent[Any]:
    try:
        return run.find_agent(asked.to)
    except UnknownAgent:
        raise not_found(asked.to, [agent.name for agent in run.team]) from None


def is_hopeless(run: RunState, asked: Asked) -> bool:
    """Whether the request would be refused even if people and target accept the handoff.

    Such a request does not interrupt the step. It is refused after the step.
    """
    if asked.cancel is not None:
        return all(each.id != asked.cancel for each in run.cursor.handoffs.open)
    try:
        _check_quickly(run, asked)
    except HandoffRefused:
        return True
    return False


def _check_quickly(run: RunState, asked: Asked) -> None:
    """Raise `HandoffRefused` if a check fails that needs no person and no user code."""
    cursor = run.cursor
    _check_source(run, asked)
    edge = edge_between(run.agent, asked.to)
    chain = (
        joined_chain(asked.chain, cursor.handoffs.chain) if asked.chain else cursor.handoffs.chain
    )
    check_depth(len(chain) - 2, run.config.limits.depth)
    if asked.to == BEST:
        return
    target = _target_of(run, asked)
    if target.available is False:
        raise unavailable(target.name, "it is switched off")
    may_return = bool(edge.terms.allow_return) or run.config.returns == "always"
    check_cycle(target.name, chain, may_return=may_return, is_changed=True)
    check_capabilities(target, (*edge.terms.capabilities, *asked.capabilities))
    # Variables that the request sets may make the condition true.
    if asked.condition and not asked.variables:
        check_condition(run, asked.condition)


_LONGEST_S = 1e9
_LONGEST_NAME = 200
_LARGEST = 2**53 - 1
_NOT_OWN = frozenset({"timestamp", "handoff_chain", "chain_depth", "correlation_id"})
_POLICIES = ("immediate", "graceful", "conditional")


# The arguments of a request: each function returns the checked value or raises `UserError`.


def agent_name(what: str, given: Any) -> str:
    """The name of an agent, given by name or as an object."""
    if isinstance(given, Agent):
        return given.name
    if isinstance(given, str):
        return check_line(given, what=f"`{what}`", longest=_LONGEST_NAME)
    raise UserError(f"`{what}` must be an agent or its name, not {_shown(given)}")


def plain_text(what: str, given: Any) -> str:
    """Return the text unchanged. Raises `UserError` for any other value."""
    if not isinstance(given, str):
        raise UserError(f"`{what}` must be text, not {_shown(given)}")
    return given


def plain_json(what: str, given: Any) -> Any:
    """A copy of the value, which was written as JSON and read again."""
    try:
        return loads(dumps(given))
    except (TypeError, ValueError, RecursionError) as exc:
        raise UserError(
            f"`{what}` must be JSON: give dicts, lists, text, finite numbers, booleans or "
            f"None ({exc})"
        ) from exc


def whole_number(what: str, given: Any) -> int:
    """A whole number that every store and client represents exactly."""
    if not isinstance(given, int) or isinstance(given, bool) or abs(given) > _LARGEST:
        raise UserError(
            f"`{what}` must be a whole number from -{_LARGEST} to {_LARGEST}, not {given!r:.40}"
        )
    return given


def own_metadata(given: Any) -> dict[str, Any]:
    """A copy of the caller's own `metadata`, without the names that the runtime sets."""
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise UserError(f"`metadata` must be a mapping, not {_shown(given)}")
    own = {name: value for name, value in given.items() if name not in _NOT_OWN}
    return dict(plain_json("metadata", own))


def earlier_chain(given: Any) -> tuple[str, ...]:
    """The agents that had the task before, from `metadata`."""
    chain = given.get("handoff_chain") or ()
    is_list = isinstance(chain, Sequence) and not isinstance(chain, str | bytes)
    if not is_list or not all(map(_is_line, chain)):
        raise UserError(
            '`metadata["handoff_chain"]` has the names of agents, as in ["user", "triage"], '
            f"it is not {chain!r:.40}"
        )
    return tuple(chain)


def _is_line(name: object) -> bool:
    return isinstance(name, str) and bool(name) and NOT_IN_NAMES.search(name) is None


def seconds(what: str, given: Any) -> float | None:
    """A time in seconds, or `None`."""
    if given is None:
        return None
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if not is_number or not 0 < given <= _LONGEST_S:
        raise UserError(
            f"`{what}` must be a number of seconds above 0 and at most {_LONGEST_S:g}, "
            f"not {given!r:.40}"
        )
    return float(given)


def one_policy(given: Any) -> Any:
    """The policy. `None` means the policy of the handoff between the two agents."""
    if given is not None and given not in _POLICIES:
        raise UserError(
            f"`policy` must be one of {', '.join(_POLICIES)}, or None; not {given!r:.40}"
        )
    return given


def capability_names(given: Any) -> tuple[str, ...]:
    """The capabilities that the target must have."""
    is_list = isinstance(given, Sequence) and not isinstance(given, str | bytes)
    if not is_list or not all(isinstance(each, str) and each.strip() for each in given):
        raise UserError(f'`capabilities` must be names, as in ("python", "sql"), not {given!r:.40}')
    return tuple(given)


def checked_condition(given: Any) -> str:
    """The condition of a handoff. Raises `ConditionError`."""
    if given:
        from ekiden.conditions import compile_condition

        compile_condition(given)
    return given or ""


def actor(given: Any) -> Actor:
    """The requester. A call within an agent's run counts as a program, even if it claims to be a
    person. Otherwise agents could skip approvals."""
    if not isinstance(given, Actor):
        raise UserError(
            f'`by` must be an Actor, as in Actor(kind="person", name="ada"), not {_shown(given)}'
        )
    if given.kind == "person" and (agent := acting_agent()) is not None:
        return Actor(kind="program", name=agent)
    return given


def _shown(given: Any) -> str:
    return "None" if given is None else type(given).__name__
