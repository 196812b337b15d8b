"""The controller: every handoff, whoever wants it, goes through `carry_out`."""

from __future__ import annotations

import contextlib
from hashlib import blake2b
from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.errors import HandoffRefused, ModelBehaviorError, UserError
from ekiden.core.faults import fault_point
from ekiden.core.handoff_record import RefusalCode
from ekiden.core.items import Item, function_output
from ekiden.core.jsonio import dumps
from ekiden.handoff.validation import check_cycle, check_depth
from ekiden.runtime.attempt import Attempt
from ekiden.runtime.calls import both
from ekiden.runtime.closing import broken_off, close_calls, with_outputs
from ekiden.runtime.cursor import PendingHandoff
from ekiden.runtime.finish import describe
from ekiden.runtime.handed import filtered, filtered_words, received
from ekiden.runtime.occupancy import check_available
from ekiden.runtime.scrutiny import needs_scrutiny, scrutinise
from ekiden.runtime.spending import narrowed
from ekiden.runtime.state import RunState
from ekiden.runtime.targets import find_target, invoke_edge


async def carry_out(run: RunState, attempt: Attempt) -> bool:
    """Make the transfer one transaction and return True; or record why not, and False.

    Refused, nothing is touched: the source keeps the conversation, and a model that asked for the
    handoff is told the reason. `UserError` if the handoff is set up wrongly.
    """
    source = run.agent
    attempt.begin(run)
    try:
        words = received(source.name, attempt.arguments)
        target = await find_target(run, attempt)
        await _validate(run, attempt, target, words)
        if attempt.edge.has_callback and attempt.edge.agent is not None:
            chosen = await invoke_edge(run, attempt)
            if chosen is not target:
                target = chosen
                await _validate(run, attempt, target, words)
        output = None
        if attempt.call is not None:
            told = attempt.edge.get_transfer_message(target)
            output = function_output(attempt.call["call_id"], told)
        view = await filtered(run, attempt.edge, attempt.call, output, target)
        words = filtered_words(run, attempt.edge, words)
        await _tell_hooks(run, source, target)
        open_calls = [] if attempt.call is not None else await broken_off(run)
    except UserError:
        raise
    except Exception as exc:
        refuse(run, attempt, exc)
        return False
    if open_calls:
        close_calls(run, open_calls)
        view = None if view is None else with_outputs(view, open_calls)
    _move(run, attempt, target, output, view, words)
    fault_point("handoff.transferring.before_commit")
    if run.status == "ready":
        await run.commit()
    else:
        await run.commit(status="ready", outcome="")
    fault_point("handoff.transferring.after_commit")
    run.memo = {}
    return True


def refuse(run: RunState, attempt: Attempt, exc: Exception) -> None:
    """Record that the handoff was not made; the caller commits it."""
    problem = describe(exc)
    attempt.life.move("failed")
    details = attempt.details(run.agent.name, attempt.target_name)
    details["code"] = _refusal(exc)
    if isinstance(exc, HandoffRefused):
        details.update(exc.details)
    if attempt.call is None:
        with contextlib.suppress(ModelBehaviorError):
            details.update(_told(attempt, received(run.agent.name, attempt.arguments)))
    answer: tuple[Item, ...] = ()
    if attempt.call is not None:
        told = f"Error: the handoff to {attempt.target_name} was not made: {problem}"
        answer = (function_output(attempt.call["call_id"], told),)
    run.record("handoff", items=answer, details=details, error=problem)


async def store_refusal(run: RunState, *, release: bool = False) -> None:
    """Commit a refusal that is not part of a model's turn."""
    fault_point("handoff.refused.before_commit")
    await run.commit(release=release)
    fault_point("handoff.refused.after_commit")


def _told(attempt: Attempt, words: dict[str, Any]) -> dict[str, Any]:
    """What of the source's words the event tells: all, where no call of a model has them."""
    names = ("reason",) if attempt.call is not None else ("reason", "summary", "context")
    return {name: words[name] for name in names if name in words}


def _refusal(exc: Exception) -> RefusalCode:
    if isinstance(exc, HandoffRefused):
        code: RefusalCode = exc.refusal
        return code
    return "INVALID_INPUT" if isinstance(exc, ModelBehaviorError) else "SOURCE_FAILED"


async def _validate(
    run: RunState, attempt: Attempt, target: Agent[Any], words: dict[str, Any]
) -> None:
    cursor, terms = run.cursor, attempt.edge.terms
    if target.available is not True or target.max_sessions is not None:
        await check_available(run, target)
    check_depth(cursor.depth, run.config.limits.depth)
    if target.name in cursor.chain:
        allowed = "always" if run.config.returns == "always" else terms.allow_return
        check_cycle(
            target.name,
            cursor.chain,
            may_return=bool(allowed),
            is_changed=allowed == "always" or _is_changed(run, target.name, words),
        )
    if needs_scrutiny(attempt, target):
        await scrutinise(run, attempt, target, words)


def _is_changed(run: RunState, target: str, words: dict[str, Any]) -> bool:
    """Whether the target would find anything that it did not have when it let the task go."""
    cursor = run.cursor
    if cursor.work > cursor.left.get(target, 0):
        return True
    passed = _passed(run.agent.name, target, words)
    return passed is not None and passed not in cursor.passed


def _passed(source: str, target: str, words: dict[str, Any]) -> str | None:
    """A digest of what is passed along; `None` if that is nothing."""
    passed = {name: words[name] for name in ("summary", "context") if name in words}
    if not passed:
        return None
    text = dumps([source, target, passed]).encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=8).hexdigest()


async def _tell_hooks(run: RunState, source: Agent[Any], target: Agent[Any]) -> None:
    hooks, own = run.hooks, source.hooks
    if hooks is not None or own is not None:
        fault_point("handoff.hooks.before_call")
        await both(
            None if hooks is None else hooks.on_handoff(run.context, source, target),
            None if own is None else own.on_handoff(run.context, target, source),
        )
        fault_point("handoff.hooks.after_call")


def _move(
    run: RunState,
    attempt: Attempt,
    target: Agent[Any],
    output: Item | None,
    view: list[Item] | None,
    words: dict[str, Any],
) -> None:
    """Change everything that a handoff changes, in memory; the caller commits it."""
    cursor, source, terms = run.cursor, run.agent, attempt.edge.terms
    run.begin()
    attempt.life.move("transferring")
    details = attempt.details(source.name, target.name)
    details.update(_told(attempt, words))
    key = f"{cursor.run}.{cursor.turn + 1}.filter"
    if view is not None:
        details["filter"] = key
    seq = run.record(
        "handoff",
        items=() if output is None else (output,),
        step=run.step_key("h"),
        details=details,
    )
    now_s = run.spent_s()
    run.open_handoff(_pending(run, attempt, target, seq, now_s))
    if cursor.work:
        cursor.left[source.name] = cursor.work
    if target.name in cursor.chain and (passed := _passed(source.name, target.name, words)):
        cursor.passed.append(passed)
    cursor.chain.append(target.name)
    cursor.received = words
    if terms.restrict_tools:
        cursor.tools = run.tool_names()
    if terms.budget is not None:
        cursor.budget = narrowed(run, terms.budget)
    run.forget_signs()
    cursor.since_s = round(now_s, 3)
    cursor.turn += 1
    cursor.phase = "think"
    cursor.started = False
    cursor.mistakes = 0
    run.prompt_block = None
    run.know(target)
    run.agent = target
    if view is not None:
        run.remember(key, view)
        cursor.base, cursor.after = key, seq
        run.replace_view(list(view))
        run.history_length = len(view)


_SIGNS = ("fired", "published", "slips")


def _pending(
    run: RunState, attempt: Attempt, target: Agent[Any], seq: int, now_s: float
) -> PendingHandoff:
    cursor, terms = run.cursor, attempt.edge.terms
    saved: dict[str, Any] = {}
    if cursor.tools is not None:
        saved["tools"] = cursor.tools
    if cursor.budget:
        saved["budget"] = cursor.budget
    for name in _SIGNS:
        if signs := getattr(cursor, name):
            saved[name] = signs
    if cursor.work:
        saved["work"] = cursor.work
        if cursor.left:
            saved["left"] = dict(cursor.left)
    if cursor.passed:
        saved["passed"] = list(cursor.passed)
    if attempt.begins_run:
        saved["begins_run"] = True
    return PendingHandoff(
        id=attempt.id,
        source=run.agent.name,
        target=target.name,
        call_id=None if attempt.call is None else attempt.call["call_id"],
        seq=seq,
        base=cursor.base,
        after=cursor.after,
        received=cursor.received,
        depth=len(cursor.chain),
        due_s=round(now_s + (attempt.timeout_s or terms.timeout_s), 3),
        since_s=cursor.since_s,
        until_result=terms.completes == "result",
        saved=saved,
    )
