"""The conversation as agents, targets of handoffs and conditions see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import (
    Item,
    is_message,
    text_of,
    to_item,
    to_items,
    user_message,
)
from ekiden.core.conversation.quotes import is_request, quote
from ekiden.core.conversation.run_items import (
    HandoffCallItem,
    HandoffOutputItem,
    MessageOutputItem,
    ReasoningItem,
    RunItem,
    RunItemBase,
    ToolCallItem,
    ToolCallOutputItem,
)
from ekiden.core.errors import HandoffRefused, UserError
from ekiden.core.events import Event
from ekiden.core.faults import fault_point
from ekiden.core.handoffs import Handoff, HandoffInputData
from ekiden.handoff import default_handoff
from ekiden.runtime.state.attempt import PASSED_BY_MODELS
from ekiden.runtime.state.calls import settled
from ekiden.runtime.state.state import RunState
from ekiden.sessions import is_transfer

if TYPE_CHECKING:
    from ekiden.conditions import Evaluation
    from ekiden.core.guardrails import Violation

_CORRECTION = "Your last answer was rejected. Answer again, in full, without what is wrong:"
_ROLLED_BACK = (
    "[Notice of the system, not of the person] The handoff to {target} was made without a call of "
    "yours and rolled back: {reason}. You have the conversation again; go on with it."
)
UNDONE = "undone"
"""The key, in the message that begins a run, of the handoffs whose rollback ended the earlier
run."""
_LISTED = 50
"""The maximum number of violations in a correction."""


def correction(violations: Sequence[Violation]) -> Item:
    """The message that asks the model to answer again, with all violations.

    The message has the role `user`, because providers differ in how they treat other roles in the
    middle of a conversation.
    """
    lines = [f"- {each}" for each in violations[:_LISTED]]
    if len(violations) > _LISTED:
        lines.append(f"- and {len(violations) - _LISTED} more")
    return user_message("\n".join([_CORRECTION, *lines]))


def rollback_notices(run: RunState) -> list[Item]:
    """Notices for the active agent about its handoffs that were rolled back since its last answer.

    There are notices only for handoffs of triggers, people and programs. If the model itself
    requested the handoff, it gets the reason as the call's output. The notices are not part of the
    conversation, because a rollback restores the conversation from before the handoff.
    """
    notices: list[Item] = []
    undone_from = run.next_seq
    run.may_be_rolled_back = False
    for event in reversed(run.events):
        if event.type == "llm_call" and event.seq < undone_from:
            break
        details = event.details
        if not details or event.seq >= undone_from:
            continue
        if event.type == "handoff" and "undoes" in details:
            undone_from = details["undoes"][0]
            run.may_be_rolled_back = True
            if details["from"] == run.agent.name and not event.items:
                notices.append(_notice(rollback_summary(event)))
        elif event.type == "message" and UNDONE in details:
            run.may_be_rolled_back = True
            notices += map(_notice, reversed(details[UNDONE]))
    notices.reverse()
    return notices


def rollback_summary(event: Event) -> list[str]:
    """The target of a rolled-back handoff, and the reason that the source is told."""
    details = event.details or {}
    left_over = details.get("not_compensated")
    more = f". {not_undone(left_over)}" if left_over else ""
    return [details["to"], f"{event.error}{more}"]


def not_undone(left_over: Sequence[str]) -> str:
    """The sentence for the source about effects that could not be undone."""
    return f"Not undone, and left to people: {', '.join(left_over)}"


def _notice(summary: Sequence[str]) -> Item:
    target, reason = summary
    return user_message(_ROLLED_BACK.format(target=target, reason=quote(reason)))


def view_for_others(run: RunState) -> list[Item]:
    """The active agent's view, without items that only this agent may see: rejected drafts of
    answers, corrections, and the contents of refused handoffs."""
    produced = run.items_since(max(run.cursor.view.after, run.cursor.progress.first))
    return [
        *run.visible[: run.history_length],
        *(item for event in produced for item in event.items),
        *run.added_items,
    ]


def has_withheld(run: RunState) -> bool:
    """Whether `view_for_others` may differ from the active agent's view."""
    return bool(
        run.cursor.guardrails.repairs
        or run.agent.handoff_guardrails
        or run.config.handoff_guardrails
    )


FACTS: Mapping[str, str] = {
    "agent": "the agent that has the conversation",
    "agent_seconds": "seconds of work since it has it",
    "chain": "who had the task, beginning with `user`",
    "confidence": "how sure routing was, 0 to 1; missing if nothing was routed",
    "depth": "handoffs of the task since the last message to it",
    "error_count": "errors of the run",
    "handoffs": "handoffs of the session, refused ones included",
    "requests": "model calls of the run",
    "seconds": "seconds of work of the run",
    "session": "the session's id",
    "text": "what the person said last",
    "tokens": "tokens of the run",
    "turn": "turns of the run",
}
"""The facts of a run for conditions, with their descriptions."""


def facts_of(run: RunState) -> dict[str, Any]:
    """The facts for conditions, by name: the session's variables, and the facts of the run.

    A variable hides a fact of the run with the same name. With the prefix ``run.``, all facts of
    the run are available.
    """
    cursor = run.cursor
    own: dict[str, Any] = {
        "agent": run.agent.name,
        "agent_seconds": run.spent_s() - cursor.handoffs.since_s,
        "chain": list(cursor.handoffs.chain),
        "depth": cursor.handoffs.depth,
        "error_count": cursor.progress.errors,
        "handoffs": cursor.handoffs.count,
        "requests": cursor.budget.usage.requests,
        "seconds": run.spent_s(),
        "session": run.session_id,
        "text": _last_text(run),
        "tokens": cursor.budget.usage.tokens,
        "turn": cursor.progress.turn,
    }
    confidence = _confidence(run)
    if confidence is not None:
        own["confidence"] = confidence
    return {**own, **run.context.variables, "run": own}


def check_condition(run: RunState, text: str) -> None:
    """Raise `HandoffRefused` if the condition does not hold now."""
    from ekiden.conditions import compile_condition

    evaluation = compile_condition(text).evaluate(
        facts_of(run), now=run.config.clock.now_us() / 1e6
    )
    if not evaluation.value:
        raise HandoffRefused(
            "CONDITIONS_NOT_MET",
            f"its condition does not hold: {evaluation.explain()}",
            details={"evaluation": shown_evaluation(run, evaluation)},
        )


def shown_evaluation(run: RunState, evaluation: Evaluation) -> dict[str, Any]:
    """The evaluation of a condition for an event, without values if these may be sensitive."""
    if run.config.trace_include_sensitive_data:
        return evaluation.to_json()
    return {"text": evaluation.text, "value": evaluation.value, "missing": [*evaluation.missing]}


def _last_text(run: RunState) -> str:
    for item in reversed(view_for_others(run) if run.cursor.guardrails.repairs else run.visible):
        if is_request(item):
            return text_of(item)
    return ""


def _confidence(run: RunState) -> float | None:
    for event in reversed(run.events):
        if event.type == "route" and event.details:
            percent = event.details.get("confidence")
            if isinstance(percent, int | float):
                return percent / 100
    return None


def run_items(
    events: Iterable[Event],
    find_agent: Callable[[str], Agent[Any]],
    *,
    transfers: Mapping[str, tuple[str, str]] | None = None,
) -> list[RunItem]:
    """The items of the events, each with its agent, without rejected drafts of answers.

    `transfers` has the source and the target of further handoffs, by call id.
    """
    events = list(events)
    moves = {**transfers_in(events), **(transfers or {})}
    return [
        _run_item(item, find_agent(event.agent or ""), moves, find_agent)
        for event in events
        if event.type != "guardrail"
        for item in event.items
    ]


def transfers_in(events: Iterable[Event]) -> dict[str, tuple[str, str]]:
    """The source and target of every handoff that was made, by the id of its call."""
    moves: dict[str, tuple[str, str]] = {}
    for event in events:
        details = event.details or {}
        if is_transfer(event):
            for item in event.items:
                moves[item["call_id"]] = (details["from"], details["to"])
    return moves


def transfer_names(agent: Agent[Any]) -> set[str]:
    """The names of the agent's transfer tools, enabled or not."""
    return {
        default_handoff(edge).tool_name if isinstance(edge, Agent) else edge.tool_name
        for edge in agent.handoffs
    }


def _run_item(
    item: Item,
    agent: Agent[Any],
    moves: Mapping[str, tuple[str, str]],
    find_agent: Callable[[str], Agent[Any]],
) -> RunItem:
    kind = item.get("type")
    move = moves.get(str(item.get("call_id")))
    if kind == "function_call":
        is_transfer = move is not None or item.get("name") in transfer_names(agent)
        return HandoffCallItem(agent, item) if is_transfer else ToolCallItem(agent, item)
    if kind == "function_call_output":
        if move is None:
            return ToolCallOutputItem(agent, item, output=item.get("output"))
        source, target = (find_agent(name) for name in move)
        return HandoffOutputItem(agent, item, source_agent=source, target_agent=target)
    if kind == "reasoning":
        return ReasoningItem(agent, item)
    if is_message(item):
        return MessageOutputItem(agent, item)
    return ToolCallItem(agent, item)


async def filtered(
    run: RunState,
    handoff: Handoff[Any, Any],
    call: Item | None,
    output: Item | None,
    target: Agent[Any],
) -> list[Item] | None:
    """The target's view after the handoff's input filter; `None` if the target sees everything."""
    apply = handoff.input_filter or run.config.handoff_input_filter
    if apply is None and handoff.include_context:
        return None
    if apply is None:
        own = [] if call is None or output is None else [call, output]
        seen = view_for_others(run) if has_withheld(run) else run.visible
        return [*_last_request(seen), *own]
    data = _input_data(run, call, output, target)
    fault_point("handoff.filter.before_call")
    changed = await settled(apply(data))
    fault_point("handoff.filter.after_call")
    if not isinstance(changed, HandoffInputData):
        raise UserError(
            f"a handoff's input filter must return HandoffInputData, not {type(changed).__name__}"
        )
    return _flatten(changed)


def filtered_data(
    run: RunState, handoff: Handoff[Any, Any], data: dict[str, Any]
) -> dict[str, Any]:
    """The passed data after the input filter. A filter that redacts the conversation also redacts
    the texts of the source."""
    apply: Any = handoff.input_filter or run.config.handoff_input_filter
    change = getattr(apply, "filter_texts", None)
    if change is None:
        return data
    changed: dict[str, Any] = change(
        {name: data[name] for name in PASSED_BY_MODELS if name in data}
    )
    return {**data, **changed}


def _input_data(
    run: RunState, call: Item | None, output: Item | None, target: Agent[Any]
) -> HandoffInputData:
    calls = run.cursor.progress.calls
    produced = run.items_since(max(run.cursor.view.after, run.cursor.progress.first))
    if call is None or output is None:
        earlier, turn = produced, []
        known: dict[str, tuple[str, str]] = {}
    else:
        earlier = [event for event in produced if event.seq < calls]
        turn = [event for event in produced if event.seq >= calls]
        known = {call["call_id"]: (run.agent.name, target.name)}
    run.know(target)
    made = run_items(turn, run.find_agent, transfers=known)
    if output is not None:
        made.append(
            HandoffOutputItem(run.agent, output, source_agent=run.agent, target_agent=target)
        )
    return HandoffInputData(
        input_history=tuple(run.visible[: run.history_length]),
        pre_handoff_items=(*run_items(earlier, run.find_agent), *_added_run_items(run)),
        new_items=tuple(made),
        run_context=run.context,
    )


def _added_run_items(run: RunState) -> list[RunItem]:
    """The items that the handoff adds, as if the run had recorded them."""
    event = Event(
        session_id=run.session_id,
        seq=run.next_seq,
        type="message",
        at_us=0,
        agent=run.agent.name,
        items=run.added_items,
    )
    return run_items([event], run.find_agent)


def _last_request(items: list[Item]) -> list[Item]:
    """The last message of a person, in a list; empty if there is none."""
    for item in reversed(items):
        if is_request(item):
            return [item]
    return []


def _flatten(data: HandoffInputData) -> list[Item]:
    shown = data.new_items if data.input_items is None else data.input_items
    produced = [*data.pre_handoff_items, *shown]
    return [*to_items(data.input_history), *map(_plain, produced)]


def _plain(each: Any) -> Item:
    """The item for the target; filters may return run items or plain items."""
    return each.to_input_item() if isinstance(each, RunItemBase) else to_item(each)
