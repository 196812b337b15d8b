"""A plan for people: a tree, each task below the one it waits for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ekiden.core.values import dumps
from ekiden.project.plan_preview import PlannedTask, PlanPreview

_MAX_CHARS = 200


def plan_lines(plan: PlanPreview) -> Iterator[str]:
    """The tasks of the request, who split it, and changes on the way."""
    tasks = plan.tasks
    count = f"{len(tasks)} tasks" if len(tasks) > 1 else "1 task"
    yield f"{_method(plan)} → {count}, {_whose(plan)}"
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


def _whose(plan: PlanPreview) -> str:
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
