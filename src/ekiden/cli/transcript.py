"""Events, routing decisions and plans as lines for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ekiden.cli.output import Whole, as_text, print_pairs, print_table, say
from ekiden.core.conversation.model import Item, is_message, refusal_of, text_of
from ekiden.core.documents import to_json
from ekiden.core.events import Event
from ekiden.core.values import dumps, loads

if TYPE_CHECKING:
    from ekiden.api.agents import RouteAnalysis, RouteStage
    from ekiden.api.plans import PlannedTask, PlanPreview

_LABELS = {"rule": "rule-match", "sticky": "kept"}
_CERTAIN = frozenset({"named", "sticky", "default"})
"""Methods that do not estimate, so that a confidence means nothing."""
_CAUSES = {"gave_up": "the previous agent gave up", "switched": "the subject changed"}
_LONGEST_OUTPUT = 600
"""Characters of a tool's output that are shown."""
_LONGEST_REASON = 300


def route_line(details: Mapping[str, Any]) -> str:
    """A decision as a line, from `RouteDecision.to_json` or the details of `route` events.

    For example ``rule-match → debugger, 90 %``, ``named → billing``, ``kept → orders`` or ``no
    match: no keyword was found``. Missing fields are left out.
    """
    agent, method = details.get("agent"), str(details.get("method") or "route")
    if not agent:
        reason = details.get("reason")
        return f"no match: {reason}" if reason else "no match"
    line = f"{_LABELS.get(method, method)} → {agent}"
    confidence = details.get("confidence")
    if method not in _CERTAIN and isinstance(confidence, int | float):
        line = f"{line}, {confidence:.0f} %"
    cause = _CAUSES.get(str(details.get("cause")))
    return f"{line} ({cause})" if cause else line


def is_news(details: Mapping[str, Any]) -> bool:
    """Whether a decision is worth showing: not if the agent stays the same."""
    return details.get("method") != "sticky"


class TranscriptLine(NamedTuple):
    """A message or an action: by whom, and what."""

    who: str
    what: str


def transcript(events: Sequence[Event]) -> list[TranscriptLine]:
    """The conversation, with calls, handoffs and failures where they happened."""
    from ekiden.sessions import current_events, is_rewind, said

    spoken = {event.seq for event in said(events)}
    transfers = _transfer_calls(events)
    tools = _tool_names(events)
    lines: list[TranscriptLine] = []
    for event in current_events(events):
        if is_rewind(event):
            lines.append(
                TranscriptLine(
                    "rewind", f"rewound to after event {(event.details or {})['rewound']}"
                )
            )
        elif event.type == "handoff":
            if _is_news(event):
                lines.append(_handoff(event))
        elif event.type == "route" and is_news(event.details or {}):
            lines.append(TranscriptLine("route", route_line(event.details or {})))
        elif event.type == "guardrail":
            lines.append(TranscriptLine("guardrail", event.error or _warning(event)))
        elif event.seq in spoken:
            lines.extend(_said(event, transfers, tools))
        elif event.type == "agent_error":
            lines.append(TranscriptLine("!", event.error or "failed"))
    return lines


def _warning(event: Event) -> str:
    details = event.details or {}
    return f"{details.get('guardrail')} ({details.get('result')})"


def _transfer_calls(events: Iterable[Event]) -> set[str]:
    return {
        item["call_id"]
        for event in events
        if event.type == "handoff"
        for item in event.items
        if "call_id" in item
    }


def _is_news(event: Event) -> bool:
    """Whether the handoff was made, failed, or was rolled back."""
    from ekiden.sessions import is_transfer

    status = (event.details or {}).get("status")
    return is_transfer(event) or status in ("failed", "rolled_back")


def _handoff(event: Event) -> TranscriptLine:
    details = event.details or {}
    route = f"{details.get('from')} → {details.get('to')}"
    status = details.get("status")
    if status in ("failed", "rolled_back"):
        route = f"{route} ({status})"
    return TranscriptLine("handoff", f"{route}: {why}" if (why := _why(event, details)) else route)


def _why(event: Event, details: dict[str, Any]) -> str:
    return event.error or details.get("reason") or ""


def _tool_names(events: Iterable[Event]) -> dict[str, str]:
    return {
        item["call_id"]: str(item.get("name"))
        for event in events
        for item in event.items
        if item.get("type") == "function_call" and "call_id" in item
    }


def _said(event: Event, transfers: set[str], tools: Mapping[str, str]) -> Iterable[TranscriptLine]:
    speaker = event.agent or "agent"
    for item in event.items:
        if item.get("call_id") in transfers:
            continue
        line = _line(item, speaker, tools)
        if line is not None:
            yield line


def _line(item: Item, speaker: str, tools: Mapping[str, str]) -> TranscriptLine | None:
    kind = item.get("type")
    if is_message(item):
        who = speaker if item.get("role") == "assistant" else str(item.get("role"))
        return TranscriptLine(who, refusal_of(item) or text_of(item))
    if kind == "function_call":
        return TranscriptLine(speaker, f"{item.get('name')}({_arguments(item.get('arguments'))})")
    if kind == "function_call_output":
        tool = tools.get(item.get("call_id", ""), "tool")
        return TranscriptLine(tool, shorten(as_text(item.get("output"))))
    return None


def _arguments(text: Any) -> str:
    try:
        values = loads(text or "{}")
    except (TypeError, ValueError):
        return str(text)
    if not isinstance(values, dict):
        return str(text)
    return ", ".join(f"{name}={dumps(value)}" for name, value in values.items())


def shorten(text: str, longest: int = _LONGEST_OUTPUT) -> str:
    """`text`, or its beginning with how much was left out."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]}… ({len(text) - longest} more characters)"


def task_line(event: Event) -> str | None:
    """The line when a task of a plan, or the plan itself, starts or ends."""
    details = event.details or {}
    agent = details.get("agent")
    match details.get("phase"):
        case "decomposed":
            agents = ", ".join(str(task.get("agent")) for task in details.get("tasks", ()))
            return f"▸ plan: {agents}"
        case "started" if "attempt" in details:
            return f"▸ {agent}  attempt {details['attempt']}"
        case "started":
            return f"▸ {agent}"
        case "finished" if details.get("success"):
            return f"✓ {agent}  {duration(event.duration_us or 0)}"
        case "finished":
            return f"✗ {agent}  failed: {short(event.error)}"
    return None


def duration(microseconds: int) -> str:
    """A duration, for people."""
    if microseconds < 1_000_000:
        return f"{microseconds / 1e3:.0f} ms"
    return f"{microseconds / 1e6:.1f} s"


def short(value: object) -> str:
    """A reason or an error on one line, cut."""
    return shorten(" ".join(str(value).split()), _LONGEST_REASON)


# Plans as trees, and the full analysis of a routing decision.

_MAX_CHARS = 200


def plan_lines(plan: PlanPreview) -> Iterator[str]:
    """The tasks of the request, how it was split, and notes about changes."""
    tasks = plan.tasks
    count = f"{len(tasks)} tasks" if len(tasks) > 1 else "1 task"
    yield f"{_method(plan)} → {count}, {_supervisor(plan)}"
    if plan.reasoning:
        yield f"because: {_flat(plan.reasoning)}"
    yield ""
    yield from _tree(plan.tasks)
    if plan.notes:
        yield ""
        yield from (f"note: {_flat(note)}" for note in plan.notes)


def _method(plan: PlanPreview) -> str:
    if plan.method == "model":
        return f"by the model {plan.model}"
    return "by rules" if plan.method == "rules" else "by the supervisor's own decomposer"


def _supervisor(plan: PlanPreview) -> str:
    if plan.supervisor is not None:
        return f"supervisor {plan.supervisor}"
    return "no supervisor, all agents considered"


def _tree(tasks: Sequence[PlannedTask]) -> Iterator[str]:
    """A task is listed below the last task it waits for, and names the others."""
    places = {task.task_id: place for place, task in enumerate(tasks)}
    below: dict[str | None, list[PlannedTask]] = {}
    for task in tasks:
        last = max(task.depends_on, key=places.__getitem__, default=None)
        below.setdefault(last, []).append(task)
    todo = [(task, "", task is below[None][-1]) for task in reversed(below[None])]
    while todo:
        task, indent, is_last = todo.pop()
        yield f"{indent}{'└─' if is_last else '├─'} {_task(task, places)}"
        deeper = f"{indent}{'   ' if is_last else '│  '}"
        children = below.get(task.task_id, [])
        todo += [(each, deeper, each is children[-1]) for each in reversed(children)]


def _task(task: PlannedTask, places: dict[str, int]) -> str:
    needed = sorted(task.depends_on, key=places.__getitem__)
    after = f" (after {', '.join(needed)})" if needed else ""
    parameters = f" {_flat(dumps(dict(task.parameters)))}" if task.parameters else ""
    return f"{task.task_id} {task.agent}: {_flat(task.description)}{parameters}{after}"


def _flat(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_CHARS else f"{line[: _MAX_CHARS - 1]}…"


_FEW = 20

SCORE_HEADERS = ("agent", "stage", "score", "confidence", "matched")


def print_route(route: RouteAnalysis) -> None:
    """The full analysis."""
    say(route_line(to_json(route)))
    say()
    print_pairs(reason_pairs(route))
    rows = score_rows(route, everybody=True)
    if rows:
        say()
        print_table(SCORE_HEADERS, rows, wide=False)
    if route.fallback is not None:
        say()
        say(route.fallback)


def reason_pairs(route: RouteAnalysis) -> list[tuple[str, str]]:
    """The matches and each stage's verdict, as labels with texts.

    A reason that the line or a stage already shows is not repeated.
    """
    is_shown = route.agent is None or any(each.reason == route.reason for each in route.stages)
    pairs = [("because", route.reason)] if route.reason and not is_shown else []
    if route.matched_keywords:
        pairs.append(("keywords", ", ".join(route.matched_keywords)))
    if route.matched_patterns:
        pairs.append(("patterns", ", ".join(route.matched_patterns)))
    pairs += [(f"stage {stage.method}", _verdict(stage)) for stage in route.stages]
    pairs.append(("took", f"{route.elapsed_ms:.1f} ms, strategy {route.strategy}"))
    return pairs


def _verdict(stage: RouteStage) -> str:
    choice = f"{stage.agent}, {stage.confidence} %" if stage.agent else "no agent"
    return f"{choice}{' (decides)' if stage.sure else ''}: {stage.reason}"


def score_rows(route: RouteAnalysis, *, everybody: bool = False) -> list[tuple[str, ...]]:
    """The score of each agent at each stage, best first; the columns are `SCORE_HEADERS`.

    With `everybody`, agents that no stage mentions follow without scores, unless there are many.
    """
    staged = [score for stage in route.stages for score in stage.candidates]
    scores = staged or [each for each in route.candidates if each.method != "none"]
    rows: list[tuple[str, ...]] = [
        (
            Whole(score.agent),
            str(score.method),
            f"{score.score:.3g}",
            f"{score.confidence} %",
            ", ".join(
                (
                    *(score.matched_keywords or ()),
                    *(f"/{each}/" for each in score.matched_patterns or ()),
                )
            ),
        )
        for score in scores
    ]
    if not everybody or len(route.candidates) > _FEW:
        return rows
    rest = sorted({each.agent for each in route.candidates} - {score.agent for score in scores})
    return rows + [(Whole(name), "", "0", "0 %", "") for name in rest]
