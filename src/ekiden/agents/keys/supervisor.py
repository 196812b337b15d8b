"""Every key of `supervisor`, and what it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from unicodedata import normalize

from ekiden.agents.checks import MAX_NAME, Report, member_fault
from ekiden.agents.definition import Peer, SupervisorDefinition
from ekiden.agents.keys.objects import (
    BUDGET,
    SECONDS,
    Field,
    FlagOr,
    Names,
    Object,
    OnePlaced,
    Placed,
)
from ekiden.agents.yaml import nodes
from ekiden.core.checks.kinds import Number, Text
from ekiden.core.handoff_terms import Budget

_MAX_TASKS = 1_000
_MAX_RETRIES = 100
_NOT_PEOPLE = {"not": {"pattern": r"(?:^|,)\s*person:"}}
_NAME = Text(
    what="the name of an agent, as a text",
    max_length=MAX_NAME,
    check=member_fault,
    code="bad_target",
    in_schema=_NOT_PEOPLE,
)
_DEFAULT = SupervisorDefinition()


def _check_members(node: nodes.Mapping, values: Mapping[str, Any], at: str, report: Report) -> None:
    """Report an empty list; a list of invalid names was reported before."""
    for key, listed in node.entries:
        if isinstance(listed, nodes.Sequence):
            is_empty = not listed.items
        else:
            is_empty = isinstance(listed, nodes.Scalar) and not (listed.plain or listed.text)
        if key.text == "agents" and is_empty:
            report.error(
                listed,
                "no_members",
                f"`{at}.agents` is empty; name agents, or leave it out for all of them",
            )


SUPERVISOR = FlagOr(
    inside=Object(
        Field(
            name="agents",
            kind=Names(
                name=_NAME,
                wanted="a list of agents, such as [weather, travel]",
                in_schema=_NOT_PEOPLE,
            ),
            text="Who gets tasks; without it, all agents of the project that are no supervisors.",
            example=["weather", "travel"],
        ),
        Field(
            name="fallback",
            kind=OnePlaced(_NAME),
            text="The member that gets tasks that no other can do; by default the setting "
            "default_agent, if it is a member, else the last member.",
            example="travel",
        ),
        Field(
            name="concurrency",
            kind=Number(low=1, high=_MAX_TASKS, whole=True),
            text="How many tasks are done at the same time, at most.",
            default=_DEFAULT.concurrency,
        ),
        Field(
            name="timeout",
            kind=SECONDS,
            text="Seconds for each attempt of a task; waiting for people does not count.",
            default=_DEFAULT.timeout_s,
        ),
        Field(
            name="retries",
            kind=Number(low=0, high=_MAX_RETRIES, whole=True),
            text="How often a task that failed is tried again.",
            default=_DEFAULT.retries,
        ),
        Field(
            name="backoff",
            kind=Number(low=0, high=3_600),
            text="Seconds before the first of these; each further one waits twice as long.",
            default=_DEFAULT.backoff_s,
        ),
        Field(
            name="max_tasks",
            kind=Number(low=1, high=_MAX_TASKS, whole=True),
            text="A plan with more tasks is refused.",
            default=_DEFAULT.max_tasks,
        ),
        Field(name="budget", kind=BUDGET, text="The most that each task may spend."),
        wanted="a mapping with agents, fallback, concurrency and others",
        check=_check_members,
        rules=[{"not": {"required": ["agents"], "properties": {"agents": {"enum": [[], ""]}}}}],
    ),
    wanted="true, false or a mapping with agents, fallback, concurrency and others",
)


def supervisor_definition(
    said: bool | Mapping[str, Any] | None, *, line: int, column: int
) -> SupervisorDefinition | None:
    """What `supervisor` says; `None` if the agent is none."""
    if said is None or said is False:
        return None
    values: dict[str, Any] = {} if said is True else dict(said)
    for name, new in (("timeout", "timeout_s"), ("backoff", "backoff_s")):
        if name in values:
            values[new] = values.pop(name)
    if "agents" in values:
        values["agents"] = tuple(map(_peer, values["agents"]))
    if "fallback" in values:
        values["fallback"] = _peer(values["fallback"])
    values["budget"] = Budget(**values["budget"]) if values.get("budget") else None
    return SupervisorDefinition(**values, line=line, column=column)


def _peer(placed: Placed) -> Peer:
    name, line, column = placed
    return Peer(name=normalize("NFC", name), line=line, column=column)
