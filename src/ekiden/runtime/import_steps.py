"""What an imported session remembers of its steps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ekiden.core.plan import AgentResult, TaskDecomposition
from ekiden.core.session_errors import SessionImportInvalid
from ekiden.runtime.exporting import is_shared_step
from ekiden.runtime.import_events import check_items
from ekiden.runtime.import_shapes import (
    Amount,
    Answered,
    Count,
    Finding,
    Object,
    StoredPlan,
    StoredResult,
    check,
    read_by,
)
from ekiden.runtime.snapshot import KEPT

_LONGEST = 500
_KEY = re.compile(r"[0-9]+\.[0-9]+\.(.+)", re.ASCII | re.DOTALL)
_OF_PEOPLE = re.compile(r"(?:ask\.|[ipx][0-9]).*", re.ASCII | re.DOTALL)
"""Also that a call was begun: what became of it can only be known under the key that it had."""
_TOOL = re.compile(r"t[0-9]+", re.ASCII)
_PLAN = re.compile(r"s([0-9]*)\.([0-9]+)\.(began|try|pause|result)(?:\.[0-9]+)?", re.ASCII)
_MODEL_OF_PLAN = re.compile(r"s\.(?:plan|answer)[0-9]*\.m[0-9]+", re.ASCII)


def read_steps(data: Any) -> dict[str, Any]:
    """The steps that may be gone on with; `SessionImportInvalid`, with the place.

    What people decided is left out, whether it was of the turn under way or of one that the session
    may be taken back to: a document cannot answer for them, so they are asked again.
    """
    steps = {}
    for key, value in check(Object, data, "resume.steps").items():
        if not 0 < len(key) <= _LONGEST:
            raise SessionImportInvalid("resume.steps", f"{key[:40]!r} is not a key")
        if not (is_of_people(key, value) or is_shared_step(key) or key.startswith(KEPT)):
            steps[key] = value
    for key, value in steps.items():
        _check(key, value, f"resume.steps.{key}", steps)
    return steps


def _kind(key: str) -> str:
    """The key without the numbers of its run and its turn; empty for another's key."""
    found = _KEY.fullmatch(key)
    return found[1] if found else ""


def is_of_people(key: str, value: Any) -> bool:
    """Whether the step is what people decided: about a call, a handoff, a question or a case."""
    kind = _kind(key)
    if _OF_PEOPLE.fullmatch(kind):
        return True
    return ".q" in kind and value is not True and not _is_answer_of_agent(value)


def _is_answer_of_agent(value: Any) -> bool:
    try:
        _check_answer(value, "")
    except SessionImportInvalid:
        return False
    return True


def _check_answer(value: Any, place: str) -> None:
    """What an agent answered that was asked something."""
    stored = check(Answered, value, place)
    if not stored["id"].startswith("msg_"):
        raise SessionImportInvalid(place, "it is not the answer of an agent")
    given = stored["answer"]
    if given is not None and (
        "choice" in given or not ("payload" in given or isinstance(given.get("error"), str))
    ):
        raise SessionImportInvalid(f"{place}.answer", "it is not the answer of an agent")


def _check(key: str, value: Any, place: str, steps: Mapping[str, Any]) -> None:
    kind = _kind(key)
    if kind == "filter" or kind.startswith("filter.") or _MODEL_OF_PLAN.fullmatch(kind):
        check_items(value, place)
    elif _TOOL.fullmatch(kind):
        _check_tool(value, place)
    elif kind == "s.plan":
        _check_plan(value, place)
    elif (found := _PLAN.fullmatch(kind)) is not None:
        _check_task(key, found[3], value, place, steps)


def _check_tool(value: Any, place: str) -> None:
    """What a tool gave: output, error, microseconds, and what guardrails decided."""
    if not isinstance(value, list) or len(value) < 3:
        raise SessionImportInvalid(place, "it is not the result of a tool")
    output, error, duration_us, *checks = value
    if not isinstance(output, str):
        check_items([{"type": "function_call_output", "call_id": "x", "output": output}], place)
    check(str | None, error, f"{place}[1]")
    check(Amount, duration_us, f"{place}[2]")
    check(list[Finding], checks, place)


def _check_plan(value: Any, place: str) -> None:
    check(StoredPlan, value, place)
    read_by(TaskDecomposition.from_json, value, place)


def _check_task(key: str, part: str, value: Any, place: str, steps: Mapping[str, Any]) -> None:
    """What is stored of a task of a plan."""
    if part == "began":
        check(Count, value, place)
    elif part == "try":
        _check_answer(value, place)
    elif part == "result":
        if not isinstance(value, list) or len(value) != 3:
            raise SessionImportInvalid(place, "it is not the result of a task")
        number, result, attempt = value
        check(Count, number, place)
        check(StoredResult, result, f"{place}[1]")
        data = number if result["success"] else None
        read_by(AgentResult.from_json, {**result, "data": data}, place)
        tried = f"{key.removesuffix('.result')}.try.{attempt}"
        if check(Count, attempt, f"{place}[2]") and result["success"] and tried not in steps:
            raise SessionImportInvalid(f"{place}[2]", "there is no such attempt")
