"""Handing the conversation over, and giving it back when the target cannot take it."""

from __future__ import annotations

from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.errors import ModelBehaviorError, UserError
from ekiden.core.faults import fault_point
from ekiden.core.handoff import Handoff, HandoffInputData
from ekiden.core.items import Item, function_output, is_message, to_items
from ekiden.core.jsonio import dumps, loads
from ekiden.core.run_items import HandoffOutputItem
from ekiden.runtime.calls import both, settled
from ekiden.runtime.cursor import Cursor, PendingHandoff
from ekiden.runtime.finish import describe
from ekiden.runtime.run_items import run_items
from ekiden.runtime.state import RunState
from ekiden.sessions import history_length, visible_items

_TEXT_LIMIT = 20_000
"""No single text that a model passes along may be longer."""


async def transfer(
    run: RunState,
    handoff: Handoff[Any, Any],
    call: Item,
    *,
    requested: list[str] | None = None,
) -> bool:
    """Make the transfer one transaction and return True; or tell the model why not, and False.

    `UserError` if the handoff is set up wrongly.
    """
    source = run.agent
    try:
        received = _received(source.name, call["arguments"])
        target = await _target(run, handoff, call["arguments"])
        output = function_output(call["call_id"], handoff.get_transfer_message(target))
        filtered = await _filtered(run, handoff, call, output, target)
        await _tell_hooks(run, source, target)
    except UserError:
        raise
    except Exception as exc:
        _refuse(run, handoff, call, exc)
        return False
    _move(run, call, output, target, filtered, received, requested)
    fault_point("handoff.transferring.before_commit")
    await run.commit()
    fault_point("handoff.transferring.after_commit")
    run.memo = {}
    return True


async def give_back(run: RunState, exc: Exception) -> None:
    """Undo the transfer whose target failed before its first answer: the source goes on.

    The source sees its own call answered with the reason, and nothing of the target's.
    """
    pending = run.cursor.pending
    assert pending is not None
    run.discard()
    reason = describe(exc)
    undone = [pending.seq, run.next_seq - 1]
    run.agent = run.find_agent(pending.source)
    _step_back(run.cursor, pending)
    run.prompt_block = None
    run.memo = {}
    await _restore_view(run, pending)
    told = (
        f"Error: the handoff to {pending.target} failed ({reason}); you have the conversation again"
    )
    run.record(
        "handoff",
        items=(function_output(pending.call_id, told),),
        details={
            "id": pending.id,
            "from": pending.source,
            "to": pending.target,
            "status": "rolled_back",
            "undoes": undone,
        },
        error=reason,
    )
    fault_point("handoff.rollback.before_commit")
    await run.commit()
    fault_point("handoff.rollback.after_commit")


def _step_back(cursor: Cursor, pending: PendingHandoff) -> None:
    cursor.base, cursor.after = pending.base, pending.after
    cursor.received = pending.received
    cursor.pending = None
    cursor.chain.pop()
    # The failed attempt was a turn: what the target did under its keys must not pass for the
    # source's own.
    cursor.turn += 1
    cursor.phase = "think"
    cursor.started = True
    cursor.rollbacks += 1


async def _restore_view(run: RunState, pending: PendingHandoff) -> None:
    base: list[Item] = []
    if pending.base is not None:
        base = (await run.store.steps(run.session_id, prefix=pending.base))[pending.base]
    events = await run.store.events(run.session_id, with_items=True)
    kept = [event for event in events if event.seq < pending.seq]
    run.replace_view(visible_items(kept, base=base, after=pending.after))
    run.history_length = history_length(
        kept, base=base, after=pending.after, first=run.cursor.first
    )


async def _target(run: RunState, handoff: Handoff[Any, Any], arguments: str) -> Agent[Any]:
    if not handoff.has_callback and handoff.agent is not None:
        target: Any = handoff.agent
    else:
        fault_point("handoff.validating.before_callback")
        target = await handoff.on_invoke_handoff(run.context, arguments)
        fault_point("handoff.validating.after_callback")
    if not isinstance(target, Agent):
        raise UserError(
            f"the handoff {handoff.tool_name!r} gave {type(target).__name__}, not an agent"
        )
    return target


async def _filtered(
    run: RunState, handoff: Handoff[Any, Any], call: Item, output: Item, target: Agent[Any]
) -> list[Item] | None:
    """What the target is to see, if that is not simply everything."""
    apply = handoff.input_filter or run.config.handoff_input_filter
    if apply is None and handoff.include_context:
        return None
    history = run.visible[: run.history_length]
    if apply is None:
        return [*_last_request(run.visible), call, output]
    calls = run.cursor.calls
    produced = run.said_since(max(run.cursor.after, run.cursor.first))
    earlier = [event for event in produced if event.seq < calls]
    turn = [event for event in produced if event.seq >= calls]
    known = {call["call_id"]: (run.agent.name, target.name)}
    run.know(target)
    data = HandoffInputData(
        input_history=tuple(history),
        pre_handoff_items=tuple(run_items(earlier, run.find_agent)),
        new_items=(
            *run_items(turn, run.find_agent, transfers=known),
            HandoffOutputItem(run.agent, output, source_agent=run.agent, target_agent=target),
        ),
        run_context=run.context,
    )
    fault_point("handoff.filter.before_call")
    changed = await settled(apply(data))
    fault_point("handoff.filter.after_call")
    if not isinstance(changed, HandoffInputData):
        raise UserError(
            f"a handoff's input filter must return HandoffInputData, not {type(changed).__name__}"
        )
    return _flatten(changed)


def _last_request(items: list[Item]) -> list[Item]:
    """What the person said last."""
    for item in reversed(items):
        if is_message(item) and item.get("role") == "user":
            return [item]
    return []


def _flatten(data: HandoffInputData) -> list[Item]:
    shown = data.new_items if data.input_items is None else data.input_items
    produced = [*data.pre_handoff_items, *shown]
    return [*to_items(data.input_history), *(each.to_input_item() for each in produced)]


async def _tell_hooks(run: RunState, source: Agent[Any], target: Agent[Any]) -> None:
    hooks, own = run.hooks, source.hooks
    if hooks is not None or own is not None:
        await both(
            None if hooks is None else hooks.on_handoff(run.context, source, target),
            None if own is None else own.on_handoff(run.context, target, source),
        )


def _refuse(run: RunState, handoff: Handoff[Any, Any], call: Item, exc: Exception) -> None:
    problem = describe(exc)
    told = f"Error: the handoff to {handoff.agent_name} was not made: {problem}"
    run.record(
        "handoff",
        items=(function_output(call["call_id"], told),),
        details={"from": run.agent.name, "to": handoff.agent_name, "status": "failed"},
        error=problem,
    )


def _move(
    run: RunState,
    call: Item,
    output: Item,
    target: Agent[Any],
    filtered: list[Item] | None,
    received: dict[str, Any],
    requested: list[str] | None,
) -> None:
    """Change everything that a handoff changes, in memory; the caller commits it."""
    cursor, source = run.cursor, run.agent
    cursor.handoffs += 1
    details: dict[str, Any] = {
        "id": f"{run.session_id}.h{cursor.handoffs}",
        "from": source.name,
        "to": target.name,
        "status": "completed",
    }
    if "reason" in received:
        details["reason"] = received["reason"]
    if requested is not None:
        details["requested"] = requested
    seq = run.record("handoff", items=(output,), step=run.step_key("h"), details=details)
    cursor.pending = PendingHandoff(
        id=details["id"],
        source=source.name,
        target=target.name,
        call_id=call["call_id"],
        seq=seq,
        base=cursor.base,
        after=cursor.after,
        received=cursor.received,
    )
    cursor.chain.append(target.name)
    cursor.received = received
    cursor.turn += 1
    cursor.phase = "think"
    cursor.started = False
    cursor.mistakes = 0
    run.prompt_block = None
    run.know(target)
    run.agent = target
    if filtered is not None:
        key = f"{cursor.run}.{cursor.turn}.filter"
        run.remember(key, filtered)
        cursor.base, cursor.after = key, seq
        run.replace_view(list(filtered))
        run.history_length = len(filtered)


def _received(source: str, arguments: str) -> dict[str, Any]:
    """What the source passed along, as far as the target is told of it."""
    received: dict[str, Any] = {"from": source}
    if arguments in ("", "{}"):
        return received
    try:
        passed = loads(arguments)
        dumps(passed)
    except (ValueError, RecursionError) as exc:
        raise ModelBehaviorError("the arguments are not valid JSON") from exc
    if isinstance(passed, dict):
        for name in ("reason", "summary", "context"):
            value = passed.get(name)
            if value:
                text = value if isinstance(value, str) else dumps(value)
                received[name] = text[:_TEXT_LIMIT]
    return received
