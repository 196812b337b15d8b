"""Plans as trees, and the full routing analysis of a request, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ekiden.cli.output import say
from ekiden.cli.tables import Whole, print_pairs, print_table
from ekiden.cli.transcript import route_line
from ekiden.core.documents import to_json
from ekiden.core.values import dumps

if TYPE_CHECKING:
    from ekiden.api.agents import RouteAnalysis, RouteStage
    from ekiden.project.plan_preview import PlannedTask, PlanPreview

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
    return "no supervisor: among all agents that requests can be routed to"


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
        yield f"{indent}{'└─' if is_last else '├─'} {_line(task, places)}"
        deeper = f"{indent}{'   ' if is_last else '│  '}"
        children = below.get(task.task_id, [])
        todo += [(each, deeper, each is children[-1]) for each in reversed(children)]


def _line(task: PlannedTask, places: dict[str, int]) -> str:
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
    pairs += [(f"stage {stage.method}", _said(stage)) for stage in route.stages]
    pairs.append(("took", f"{route.elapsed_ms:.1f} ms, strategy {route.strategy}"))
    return pairs


def _said(stage: RouteStage) -> str:
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
