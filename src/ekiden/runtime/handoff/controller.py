"""The controller: every handoff goes through `carry_out`."""

from __future__ import annotations

import contextlib
from dataclasses import field
from hashlib import blake2b
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import Item, function_output
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import HandoffRefused, ModelBehaviorError, UserError
from ekiden.core.faults import fault_point
from ekiden.core.guardrails import GuardrailError
from ekiden.core.handoffs import HandoffTerms, RefusalCode
from ekiden.core.values import dumps
from ekiden.handoff.requests import check_cycle, check_depth
from ekiden.handoff.selection import paired
from ekiden.runtime.conversation import filtered, filtered_data, has_withheld, view_for_others
from ekiden.runtime.handoff.acceptance import (
    StateBefore,
    check_acceptance,
    check_available,
    find_target,
    invoke_edge,
    record_additions,
    with_additions,
)
from ekiden.runtime.handoff.rollback import undo_staged
from ekiden.runtime.outcome import describe, is_bug, log_error, warn
from ekiden.runtime.questions.cancel_question import withdraw_questions
from ekiden.runtime.state.attempt import NO_ADDITIONS, Attempt, announce, give_up_tried, received
from ekiden.runtime.state.budget import narrowed
from ekiden.runtime.state.calls import both, settled
from ekiden.runtime.state.cursor import ConversationView
from ekiden.runtime.state.cursor_handoffs import USER, PendingHandoff
from ekiden.runtime.state.findings import record_failures, tell_findings
from ekiden.runtime.state.state import RunState
from ekiden.runtime.tools.offer import enabled_tools
from ekiden.runtime.tools.unfinished_calls import ClosedCall, broken_off, close_calls, with_outputs


async def carry_out(run: RunState, attempt: Attempt) -> bool:
    """Make the handoff in one transaction and return True, or record the refusal and return False.

    After a refusal, the source keeps the conversation, and a model that called the handoff gets the
    reason. If the handoff is configured wrongly, the refusal is stored, and `UserError` is raised.
    If a guardrail ends the run, the refusal is stored, and `GuardrailError` is raised.
    """
    if not await transfer(run, attempt):
        return False
    fault_point("handoff.transferring.before_commit")
    if run.status == "ready":
        await run.commit()
    else:
        await run.commit(status="ready", outcome="")
    fault_point("handoff.transferring.after_commit")
    # The step is over: its stored results must not be reused in the next step.
    run.memo = {}
    return True


async def transfer(run: RunState, attempt: Attempt) -> bool:
    """Like `carry_out`, but the caller commits the transfer or the refusal."""
    attempt.begin(run)
    attempt.validate()
    # The request must be on record while a person may take days to approve it. A quick handoff
    # needs no commit of its own: its record is stored with the transfer.
    if attempt.life.fresh and attempt.is_asked_here and _may_take_long(run, attempt):
        announce(run, attempt, attempt.passed_data(run.agent.name))
        await run.commit()
    # A plain handoff runs no user code, so a refusal has nothing to undo.
    before = None if attempt.is_plain else StateBefore.of(run)
    run.staged = []
    try:
        if before is None or attempt.additions is NO_ADDITIONS:
            terms = await _agreed(run, attempt)
        else:
            with with_additions(run, attempt, before):
                terms = await _agreed(run, attempt)
    except UserError as exc:
        if before is not None:
            await _take_back(run, attempt, before, exc)
        raise
    except Exception as exc:
        if before is not None:
            await _take_back(run, attempt, before, exc)
        if is_bug(exc):
            log_error(run, f"handoff of {run.agent.name!r} to {attempt.target_name!r}", exc)
        refuse(run, attempt, exc)
        # The guardrail ends the run. The refusal is stored first, because ending the run discards
        # what is only recorded.
        if isinstance(exc, GuardrailError) and attempt.by.kind in ("model", "trigger"):
            await run.commit()
            raise
        return False
    finally:
        staged, run.staged = run.staged, None
    if run.cursor.handoffs.tried:
        run.cursor.handoffs.drop_tried(attempt.id)
        give_up_tried(run)
    if terms.open_calls:
        close_calls(run, terms.open_calls)
    if run.cursor.questions.open:
        await withdraw_questions(run)
    # A rollback removes everything from this event on, including the additions.
    first = run.next_seq
    if attempt.additions is not NO_ADDITIONS:
        record_additions(run, attempt)
    pending = _move(run, attempt, terms)
    if before is None:
        return True
    pending.seq = first
    if run.cursor.handoffs.chain[: pending.depth] != before.chain:
        pending.mark(chain=before.chain)
    pending.compensations = staged
    run.keep_variables(pending, before.variables)
    for each in attempt.writes:
        run.write(each)
    return True


@dataclass(slots=True, kw_only=True, eq=False)
class _Agreed:
    """A handoff that passed all checks, before anything is changed."""

    target: Agent[Any]
    data: dict[str, Any]
    """The passed data, after callback and filter."""
    output: Item | None
    """The output of the model's call."""
    view: list[Item] | None
    tools: list[str] | None
    open_calls: list[ClosedCall]
    notes: list[str]
    """Problems in the result of the input filter."""
    budget: dict[str, float] = field(default_factory=dict)


async def _agreed(run: RunState, attempt: Attempt) -> _Agreed:
    """Run all checks and callbacks. Raises `HandoffRefused`, or the exception of user code."""
    source, edge, given = run.agent, attempt.edge, attempt.arguments
    data = attempt.passed_data(run.agent.name)
    known: Any = edge.agent
    target = known if isinstance(known, Agent) else await find_target(run, attempt)
    await _validate(run, attempt, target, data)
    if edge.has_callback and edge.agent is not None:
        chosen = await invoke_edge(run, attempt)
        # The callback may choose another target, which then has to pass the same checks.
        if chosen is not target:
            target = chosen
            await _validate(run, attempt, target, data)
    # A person or the callback may have changed the arguments.
    if attempt.arguments is not given:
        data = attempt.passed_data(run.agent.name)
    output = None
    if attempt.call is not None:
        message = edge.get_transfer_message(target)
        output = function_output(attempt.call["call_id"], message)
    view = None
    if edge.input_filter is not None or run.config.handoff_input_filter or not edge.include_context:
        view = await filtered(run, edge, attempt.call, output, target)
        data = filtered_data(run, edge, data)
    if source.handoff_guardrails or run.config.handoff_guardrails:
        from ekiden.runtime.guardrails.input import examine_handoff

        await examine_handoff(run, attempt, target, data, view)
    if run.hooks is not None or source.hooks is not None:
        await _call_hooks(run, source, target)
    open_calls = [] if attempt.call is not None else await broken_off(run)
    notes: list[str] = []
    if view is not None:
        # Models reject a call without its output, and an output without its call.
        view, notes = paired(with_outputs(view, open_calls) if open_calls else view)
    if attempt.prepare is not None:
        await attempt.prepare(target, data)
    return _Agreed(
        target=target,
        data=data,
        output=output,
        view=view,
        tools=await enabled_tools(run) if edge.terms.restrict_tools else None,
        open_calls=open_calls,
        notes=notes,
    )


async def _take_back(run: RunState, attempt: Attempt, before: StateBefore, exc: Exception) -> None:
    """After a refusal: undo the changes of callbacks to the session."""
    before.restore(run)
    if run.staged:
        await undo_staged(run, attempt.id, run.staged, describe(exc))


def refuse(run: RunState, attempt: Attempt, exc: Exception) -> None:
    """Record that the handoff was not made. The caller commits the record."""
    attempt.failure = exc
    problem = describe(exc)
    record_failures(run, attempt.findings)
    attempt.life.move("failed")
    run.cursor.handoffs.drop_tried(attempt.id)
    details = attempt.details(attempt.source or run.agent.name, attempt.target_name)
    details["code"] = _refusal_code(exc)
    if isinstance(exc, HandoffRefused):
        details.update(exc.details)
    if attempt.call is None:
        with contextlib.suppress(ModelBehaviorError):
            details.update(attempt.recorded_data(attempt.passed_data(run.agent.name)))
    answer: tuple[Item, ...] = ()
    if attempt.call is not None:
        message = f"Error: the handoff to {attempt.target_name} was not made: {problem}"
        answer = attempt.answered(function_output(attempt.call["call_id"], message))
    run.record("handoff", items=answer, details=details, error=problem)
    if attempt.place is not None:
        run.cursor.triggers = run.cursor.triggers.with_fired(attempt.place)
    for each in attempt.writes:
        run.write(each)


async def store_refusal(run: RunState, *, release: bool = False) -> None:
    """Commit a refusal that is not part of a model's turn."""
    fault_point("handoff.refused.before_commit")
    await run.commit(release=release)
    fault_point("handoff.refused.after_commit")


def _may_take_long(run: RunState, attempt: Attempt) -> bool:
    """Whether user code or a person is asked before the handoff is made."""
    edge, source, config = attempt.edge, run.agent, run.config
    target: Any = edge.agent
    return (
        not isinstance(target, Agent)
        or target.accepts is not None
        or edge.terms.confirm is not None
        or edge.has_callback
        or callable(edge.is_enabled)
        or bool(edge.input_filter or config.handoff_input_filter)
        or bool(source.handoff_guardrails or config.handoff_guardrails)
        or bool(run.hooks or source.hooks)
    )


def _refusal_code(exc: Exception) -> RefusalCode:
    if isinstance(exc, HandoffRefused):
        code: RefusalCode = exc.refusal
        return code
    if isinstance(exc, GuardrailError):
        return "GUARDRAIL"
    return "INVALID_INPUT" if isinstance(exc, ModelBehaviorError) else "SOURCE_FAILED"


async def _validate(
    run: RunState, attempt: Attempt, target: Agent[Any], data: dict[str, Any]
) -> None:
    cursor, terms = run.cursor, attempt.edge.terms
    if target.available is not True or target.max_sessions is not None:
        await check_available(run, target)
    # A model is offered only enabled handoffs, so its calls need no second check.
    if attempt.call is None and attempt.edge.is_enabled is not True:
        await _check_enabled(run, attempt)
    check_depth(cursor.handoffs.depth, run.config.limits.depth)
    # Every chain begins with `user`: a first handoff to an agent of this name is not a return.
    if target.name in cursor.handoffs.chain and (
        target.name != USER or USER in cursor.handoffs.chain[1:]
    ):
        allowed = "always" if run.config.returns == "always" else terms.allow_return
        check_cycle(
            target.name,
            cursor.handoffs.chain,
            may_return=bool(allowed),
            is_changed=allowed == "always" or _is_changed(run, target.name, data),
        )
    if attempt.needs_acceptance(target):
        await check_acceptance(run, attempt, target, data)


async def _check_enabled(run: RunState, attempt: Attempt) -> None:
    """Refuse a disabled handoff also for triggers, people and programs."""
    enabled = attempt.edge.is_enabled
    if callable(enabled):
        enabled = bool(await settled(enabled(run.context, run.agent)))
    if not enabled:
        raise HandoffRefused(
            "PERMISSION_DENIED",
            f"the handoff of {run.agent.name!r} to {attempt.target_name!r} is switched off "
            "(`is_enabled`)",
        )


def _is_changed(run: RunState, target: str, data: dict[str, Any]) -> bool:
    """Whether there is new work or data since the target last had the task."""
    cursor = run.cursor
    if cursor.handoffs.work > cursor.handoffs.left.get(target, 0):
        return True
    passed = passed_digest(run.agent.name, target, data)
    return passed is not None and passed not in cursor.handoffs.passed


def passed_digest(source: str, target: str, data: dict[str, Any]) -> str | None:
    """A digest of the passed summary and context; `None` if neither was passed."""
    passed = {name: data[name] for name in ("summary", "context") if name in data}
    if not passed:
        return None
    text = dumps([source, target, passed]).encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=8).hexdigest()


async def _call_hooks(run: RunState, source: Agent[Any], target: Agent[Any]) -> None:
    hooks, own = run.hooks, source.hooks
    fault_point("handoff.hooks.before_call")
    await both(
        None if hooks is None else hooks.on_handoff(run.context, source, target),
        None if own is None else own.on_handoff(run.context, target, source),
    )
    fault_point("handoff.hooks.after_call")


def _move(run: RunState, attempt: Attempt, agreed: _Agreed) -> PendingHandoff:
    """Make all changes of a handoff in memory; the caller commits them."""
    cursor, source, terms = run.cursor, run.agent, attempt.edge.terms
    target, view = agreed.target, agreed.view
    run.begin()
    attempt.life.move("transferring")
    details = attempt.details(source.name, target.name)
    details.update(attempt.recorded_data(agreed.data))
    key = run.step_key("filter")
    if view is not None:
        details["filter"] = key
    details.update(_details_for_replay(run, attempt, agreed))
    if attempt.additions.chain:
        details["chain"] = list(cursor.handoffs.chain)
    if attempt.findings or cursor.guardrails.found:
        record_failures(run, attempt.findings)
        details = tell_findings(run, details, attempt.findings)
    seq = run.record(
        "handoff",
        items=() if agreed.output is None else attempt.answered(agreed.output),
        step=run.step_key("h"),
        details=details,
    )
    for note in agreed.notes:
        warn(run, f"input filter of the handoff to {target.name!r}", note)
    if attempt.place is not None:
        cursor.triggers = cursor.triggers.with_fired(attempt.place)
    now_s = run.spent_s()
    pending = _pending(run, attempt, target, seq, now_s)
    run.open_handoff(pending)
    is_plain = attempt.is_plain and not cursor.guardrails.repairs
    # Without a filter the target sees the conversation, except for items that a guardrail
    # withheld.
    if view is None and not is_plain and has_withheld(run):
        run.replace_view(view_for_others(run))
    _transfer_to_target(run, terms, agreed, now_s)
    if view is not None:
        run.remember(key, view)
        cursor.view = ConversationView(key, seq)
        run.replace_view(list(view))
        run.history_length = len(view)
    return pending


def _details_for_replay(run: RunState, attempt: Attempt, agreed: _Agreed) -> dict[str, Any]:
    """The values that a fork or rewind to this event needs and that otherwise only the cursor
    has."""
    details: dict[str, Any] = {}
    if agreed.tools is not None:
        details["tools"] = agreed.tools
    if attempt.edge.terms.budget is not None:
        agreed.budget = narrowed(run, attempt.edge.terms.budget)
        details["budget"] = dict(agreed.budget)
    call = attempt.call
    is_plain = call is None or (agreed.view is None and attempt.arguments == call["arguments"])
    if call is not None and not is_plain:
        from_call = received(run.agent.name, call["arguments"])
        if agreed.data != from_call:
            details["received"] = agreed.data
    return details


def _transfer_to_target(run: RunState, terms: HandoffTerms, agreed: _Agreed, now_s: float) -> None:
    """Make the target the active agent, with its tools and limits."""
    source, target = run.agent.name, agreed.target
    passed = None
    if target.name in run.cursor.handoffs.chain:
        passed = passed_digest(source, target.name, agreed.data)
    run.cursor.transfer(
        source,
        target.name,
        received=agreed.data,
        tools=agreed.tools,
        budget=None if terms.budget is None else agreed.budget,
        passed=passed,
        since_s=now_s,
    )
    if run.trigger_notes:
        run.trigger_notes = {}
    run.offer.prompt_block = None
    run.know(target)
    run.agent = target


def _pending(
    run: RunState, attempt: Attempt, target: Agent[Any], seq: int, now_s: float
) -> PendingHandoff:
    terms = attempt.edge.terms
    call_id = None if attempt.call is None else attempt.call["call_id"]
    pending = run.cursor.way_back(attempt.id, run.agent.name, target.name, call_id=call_id, seq=seq)
    if attempt.begins_run:
        pending.mark(begins_run=True)
    pending.due_s = round(now_s + (attempt.timeout_s or terms.timeout_s), 3)
    pending.until_result = terms.completes == "result"
    return pending
