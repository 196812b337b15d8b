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
from ekiden.core.handoffs.handoff import Handoff, HandoffInputData
from ekiden.handoff import default_handoff
from ekiden.runtime.state.attempt import MODEL_WORDS
from ekiden.runtime.state.calls import settled
from ekiden.runtime.state.state import RunState
from ekiden.sessions import is_transfer

if TYPE_CHECKING:
    from ekiden.conditions import Evaluation
    from ekiden.core.guardrails import Violation

_CORRECTION = "Your last answer was not let through. Answer again, in full, without what is wrong:"
_ROLLED_BACK = (
    "[Notice of the system, not of the person] The handoff to {target} was made without a call of "
    "yours and rolled back: {reason}. You have the conversation again; go on with it."
)
UNDONE = "undone"
"""In the message that begins a run: handoffs whose rollback ended the run before."""
_LISTED = 50
"""So many violations a model is told of."""


def correction(violations: Sequence[Violation]) -> Item:
    """The order to answer again, with everything that is wrong.

    It has the role of the user: what providers make of other roles in the middle of a conversation
    differs too much.
    """
    lines = [f"- {each}" for each in violations[:_LISTED]]
    if len(violations) > _LISTED:
        lines.append(f"- and {len(violations) - _LISTED} more")
    return user_message("\n".join([_CORRECTION, *lines]))


def rollback_notices(run: RunState) -> list[Item]:
    """What the active agent is told of its handoffs that were rolled back since its last answer,
    and that no call of its own is answered with: triggers, people and programs made them.

    It is no part of the conversation, which is as it was before the handoff.
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
                notices.append(_notice(undone_told(event)))
        elif event.type == "message" and UNDONE in details:
            run.may_be_rolled_back = True
            notices += map(_notice, reversed(details[UNDONE]))
    notices.reverse()
    return notices


def undone_told(event: Event) -> list[str]:
    """Whom a handoff that was rolled back led to, and what its source is told of it."""
    details = event.details or {}
    left_over = details.get("not_compensated")
    more = f". {not_undone(left_over)}" if left_over else ""
    return [details["to"], f"{event.error}{more}"]


def not_undone(left_over: Sequence[str]) -> str:
    """What the source is told of effects that stay."""
    return f"Not undone, and left to people: {', '.join(left_over)}"


def _notice(told: Sequence[str]) -> Item:
    target, reason = told
    return user_message(_ROLLED_BACK.format(target=target, reason=quote(reason)))


def view_for_others(run: RunState) -> list[Item]:
    """The active agent's view, without what guardrails withhold from others: drafts of answers,
    corrections, and the contents of refused handoffs."""
    produced = run.said_since(max(run.cursor.view.after, run.cursor.progress.first))
    return [
        *run.visible[: run.history_length],
        *(item for event in produced for item in event.items),
        *run.brought,
    ]


def has_withheld(run: RunState) -> bool:
    """Whether `view_for_others` may differ from what the active agent sees."""
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
"""What there is beside the session's variables, and under ``run.``."""


def facts_of(run: RunState) -> dict[str, Any]:
    """The session's variables, and the run's own facts under their names and under ``run.``.

    A variable hides a fact of the same name, never what stands under ``run.``.
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
    """`HandoffRefused` unless the condition holds now."""
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
    """How a condition came out, for events: without values where these may be sensitive."""
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
            sure = event.details.get("confidence")
            if isinstance(sure, int | float):
                return sure / 100
    return None


def run_items(
    events: Iterable[Event],
    find_agent: Callable[[str], Agent[Any]],
    *,
    transfers: Mapping[str, tuple[str, str]] | None = None,
) -> list[RunItem]:
    """What was said, item by item, with the agent that said it.

    `transfers` names further call ids that are handoffs, with source and target, beside those that
    the events tell of. What guardrails had a model say again counts as never said.
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
    """Call id → source and target of every handoff that the events record as made."""
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
    """What the target is to see, if that is not simply everything."""
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


def filtered_words(
    run: RunState, handoff: Handoff[Any, Any], words: dict[str, Any]
) -> dict[str, Any]:
    """The source's own words as the filter leaves them: what it covers, it covers there, too."""
    apply: Any = handoff.input_filter or run.config.handoff_input_filter
    change = getattr(apply, "filter_texts", None)
    if change is None:
        return words
    changed: dict[str, Any] = change({name: words[name] for name in MODEL_WORDS if name in words})
    return {**words, **changed}


def _input_data(
    run: RunState, call: Item | None, output: Item | None, target: Agent[Any]
) -> HandoffInputData:
    calls = run.cursor.progress.calls
    produced = run.said_since(max(run.cursor.view.after, run.cursor.progress.first))
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
        pre_handoff_items=(*run_items(earlier, run.find_agent), *_brought(run)),
        new_items=tuple(made),
        run_context=run.context,
    )


def _brought(run: RunState) -> list[RunItem]:
    """What the handoff adds to the conversation, as if the run had recorded it."""
    event = Event(
        session_id=run.session_id,
        seq=run.next_seq,
        type="message",
        at_us=0,
        agent=run.agent.name,
        items=run.brought,
    )
    return run_items([event], run.find_agent)


def _last_request(items: list[Item]) -> list[Item]:
    """The person's last message."""
    for item in reversed(items):
        if is_request(item):
            return [item]
    return []


def _flatten(data: HandoffInputData) -> list[Item]:
    shown = data.new_items if data.input_items is None else data.input_items
    produced = [*data.pre_handoff_items, *shown]
    return [*to_items(data.input_history), *map(_plain, produced)]


def _plain(each: Any) -> Item:
    """A run item, or a plain one that a filter put in its place, as the target is given it."""
    return each.to_input_item() if isinstance(each, RunItemBase) else to_item(each)
