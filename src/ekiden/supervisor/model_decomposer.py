"""A request split into tasks by a model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.core.errors import ModelBehaviorError, UserError
from ekiden.core.items import Item
from ekiden.core.model import ModelRequest
from ekiden.core.plan import AgentTask, AskModel, Member, TaskDecomposition
from ekiden.supervisor.members import fallback_of
from ekiden.supervisor.plan_offer import OUTPUT, instructions, repair_items, request_item
from ekiden.supervisor.replies import NotJson, answer_text, json_in

_ID = re.compile(r"[A-Za-z0-9_.\-]{1,64}")
_TASK_KEYS = ("id", "agent", "description", "parameters", "depends_on")
_PLAN_KEYS = ("reasoning", "tasks")
_MAX_DESCRIPTION = 20_000
_MAX_REASONING = 2_000
_MAX_FAULTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDecomposer:
    """Asks the model for the tasks, with a JSON schema.

    A model that has no structured output may give the JSON as its text, alone or in one fence. An
    answer that is no plan is told what is wrong and asked once more; then it is a
    `ModelBehaviorError`. Wrong are: no JSON of the right form, no tasks or more than `max_tasks`,
    an empty description, an id that is there twice or not at all, and tasks that wait for each
    other in a circle. A task for an agent that does not exist is no fault: it goes to the
    fallback, and `notes` says so. A supervisor with a model has it anyway; by itself it is::

        plan = await ModelDecomposer(max_tasks=5).decompose(
            "The weather, and a hotel", members=members, fallback="general", ask=ask
        )
    """

    max_tasks: int = 20

    async def decompose(
        self,
        text: str,
        *,
        members: Sequence[Member],
        fallback: str | None,
        ask: AskModel | None,
    ) -> TaskDecomposition:
        """The model's plan; `UserError` where there is no model."""
        if ask is None:
            raise UserError("the plan is to be made by a model, and there is none")
        last = fallback_of(members, fallback)
        prompt = instructions(members, fallback=last, max_tasks=self.max_tasks)
        items: list[Item] = [request_item(text)]
        response = await ask(ModelRequest(instructions=prompt, input=items, output=OUTPUT))
        said, refusal = answer_text(response)
        found = self._read(said, refusal, members, last)
        if isinstance(found, TaskDecomposition):
            return found
        items = [*items, *repair_items(said, found)]
        response = await ask(ModelRequest(instructions=prompt, input=items, output=OUTPUT))
        found = self._read(*answer_text(response), members, last)
        if isinstance(found, TaskDecomposition):
            return found
        raise ModelBehaviorError(
            f"the model gave no usable plan, also when told what was wrong: {'; '.join(found)}"
        )

    def _read(
        self, said: str, refusal: str | None, members: Sequence[Member], fallback: str
    ) -> TaskDecomposition | list[str]:
        """The plan, or what is wrong with it."""
        if refusal is not None and not said:
            return [f"there is no plan, but a refusal: {refusal[:200]}"]
        try:
            data = json_in(said)
        except NotJson as exc:
            return [str(exc)]
        faults = _Faults()
        drafts = _drafts(data, self.max_tasks, faults)
        if faults.found:
            return faults.found
        names = {member.name for member in members}
        notes: list[str] = []
        tasks: list[AgentTask] = []
        try:
            for draft in drafts:
                if draft["agent"] not in names:
                    notes.append(
                        f"task {draft['task_id']}: there is no agent {draft['agent']!r:.80}; it "
                        f"goes to the fallback {fallback!r}"
                    )
                    draft = {**draft, "agent": fallback}
                tasks.append(AgentTask(**draft))
            return TaskDecomposition(
                tasks=tuple(tasks),
                reasoning=data.get("reasoning", "")[:_MAX_REASONING],
                notes=tuple(notes),
            )
        except UserError as exc:
            return [str(exc)]


class _Faults:
    """What is wrong with a plan, so much of it that a model can use."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, fault: str) -> None:
        if len(self.found) < _MAX_FAULTS:
            self.found.append(fault)

    def check_keys(self, where: str, data: Mapping[str, Any], known: Sequence[str]) -> None:
        for key in data:
            if key not in known:
                self.add(f"{where} has a key {key!r:.80}; the keys are {', '.join(known)}")


def _drafts(data: Any, max_tasks: int, faults: _Faults) -> list[dict[str, Any]]:
    """The tasks as the arguments of `AgentTask`; whatever is wrong is in `faults`."""
    if not isinstance(data, dict):
        faults.add("the answer must be a JSON object with the keys reasoning and tasks")
        return []
    faults.check_keys("the plan", data, _PLAN_KEYS)
    if not isinstance(data.get("reasoning", ""), str):
        faults.add("`reasoning` must be a text")
    tasks = data.get("tasks")
    if not isinstance(tasks, list) or not tasks:
        faults.add("`tasks` must be a list of at least one task")
        return []
    if len(tasks) > max_tasks:
        faults.add(f"there are {len(tasks)} tasks, at most {max_tasks} are taken")
        return []
    return [_draft(task, f"tasks[{place}]", faults) for place, task in enumerate(tasks)]


def _draft(task: Any, where: str, faults: _Faults) -> dict[str, Any]:
    if not isinstance(task, dict):
        faults.add(f"{where} must be an object with {', '.join(_TASK_KEYS)}")
        return {}
    faults.check_keys(where, task, _TASK_KEYS)
    task_id, agent, description = (task.get(key) for key in _TASK_KEYS[:3])
    if not isinstance(task_id, str) or not _ID.fullmatch(task_id):
        faults.add(f"{where}.id must be a short text of letters and digits, such as t1")
    if not isinstance(agent, str) or not agent.strip():
        faults.add(f"{where}.agent must be the name of an agent")
    if not isinstance(description, str) or not description.strip():
        faults.add(f"{where}.description must say what to do; it is empty")
    elif len(description) > _MAX_DESCRIPTION:
        faults.add(f"{where}.description is longer than {_MAX_DESCRIPTION:,} characters")
    return {
        "task_id": task_id,
        "agent": agent.strip() if isinstance(agent, str) else agent,
        "description": description.strip() if isinstance(description, str) else description,
        "parameters": _parameters(task.get("parameters"), where, faults),
        "depends_on": _needs(task.get("depends_on"), where, faults),
    }


def _parameters(said: Any, where: str, faults: _Faults) -> dict[str, Any]:
    """Of pairs of name and value, as the schema has it, or of an object."""
    if said is None:
        return {}
    if isinstance(said, dict):
        return said
    pairs = said if isinstance(said, list) else [said]
    found: dict[str, Any] = {}
    for pair in pairs:
        if (
            not isinstance(pair, dict)
            or set(pair) != {"name", "value"}
            or not isinstance(pair["name"], str)
            or not pair["name"]
        ):
            faults.add(f"{where}.parameters must be a list of objects with name and value")
            return {}
        if pair["name"] in found:
            faults.add(f"{where}.parameters has {pair['name']!r:.80} twice")
        found[pair["name"]] = pair["value"]
    return found


def _needs(said: Any, where: str, faults: _Faults) -> tuple[str, ...]:
    if said is None:
        return ()
    if not isinstance(said, list) or not all(isinstance(each, str) and each for each in said):
        faults.add(f"{where}.depends_on must be a list of ids of other tasks")
        return ()
    return tuple(dict.fromkeys(said))
