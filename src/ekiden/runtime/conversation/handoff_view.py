"""What the target of a handoff sees: the source's words and its view of the history."""

from __future__ import annotations

from typing import Any

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import Item, to_item, to_items
from ekiden.core.conversation.quotes import is_request
from ekiden.core.conversation.run_items import HandoffOutputItem, RunItem, RunItemBase
from ekiden.core.errors import ModelBehaviorError, UserError
from ekiden.core.events import Event
from ekiden.core.faults import fault_point
from ekiden.core.handoff import Handoff, HandoffInputData
from ekiden.core.values import dumps, loads
from ekiden.runtime.conversation.corrections import has_withheld, view_for_others
from ekiden.runtime.conversation.run_items import run_items
from ekiden.runtime.state.attempt import Attempt
from ekiden.runtime.state.calls import settled
from ekiden.runtime.state.state import RunState

_TEXT_LIMIT = 20_000
"""No single text that a model passes along may be longer."""
_WORDS = ("reason", "summary", "context")


def received(source: str, arguments: str) -> dict[str, Any]:
    """What the source passed along, as far as the target is told of it."""
    words: dict[str, Any] = {"from": source}
    if arguments in ("", "{}"):
        return words
    try:
        passed = loads(arguments)
        dumps(passed)
    except (ValueError, RecursionError) as exc:
        raise ModelBehaviorError("the arguments are not valid JSON") from exc
    if isinstance(passed, dict):
        for name in _WORDS:
            value = passed.get(name)
            if value:
                text = value if isinstance(value, str) else dumps(value)
                words[name] = text[:_TEXT_LIMIT]
    return words


def words_of(run: RunState, attempt: Attempt) -> dict[str, Any]:
    """What goes along; a person who was asked may have changed it meanwhile."""
    words = received(run.agent.name, attempt.arguments)
    if attempt.payload is not None:
        words["payload"] = attempt.payload
    if attempt.priority:
        words["priority"] = attempt.priority
    if attempt.metadata:
        words["metadata"] = dict(attempt.metadata)
    return words


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
    change = getattr(apply, "filter_words", None)
    if change is None:
        return words
    changed: dict[str, Any] = change({name: words[name] for name in _WORDS if name in words})
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
