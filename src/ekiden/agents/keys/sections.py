"""The keys inside the sections of an agent file, and the definitions made from them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from ekiden.agents import yaml_nodes as nodes
from ekiden.agents.definition import (
    GuardrailDefinition,
    Place,
    ProblemReport,
    RemoteDefinition,
    SupervisorDefinition,
)
from ekiden.agents.keys.kinds import AnyMapping, function_fault, member_fault
from ekiden.agents.keys.objects import (
    BUDGET,
    NOT_PEOPLE,
    SECONDS,
    Entry,
    Field,
    FlagOr,
    ListOf,
    Names,
    Object,
    OnePlaced,
    Placed,
    budget_of,
    peer_of,
)
from ekiden.core.checks.addresses import address_fault, variable_fault
from ekiden.core.checks.kinds import Choice, Flag, Number, Text
from ekiden.core.profile import MemoryKind, MemoryScope
from ekiden.core.text.wording import MAX_NAME, pattern_fault

_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,99}", re.ASCII)
_LOCAL_KEYS = (
    "model", "tools", "tool_confirmation", "supervisor", "memory", "can_ask", "can_tell",
    "can_ask_people",
)  # fmt: skip
_A2A_DEFAULT = RemoteDefinition(card="")


def _header_fault(text: str) -> str | None:
    return None if _HEADER.fullmatch(text) else "write the name of a header, such as X-API-Key"


_CARD = Text(
    what="the address of an agent card, as a text",
    max_length=2_000,
    check=address_fault,
    code="bad_address",
    in_schema={"pattern": r"^\s*https?://[^\s/]"},
)

A2A = Entry(
    inside=Object(
        Field(
            name="card",
            kind=_CARD,
            text="Address of the agent card. If it has no path, Ekiden uses the well-known path. "
            "The scheme `http` is allowed only for addresses on this machine.",
            required=True,
            example="https://partner.example",
        ),
        Field(
            name="token_env",
            kind=Text(
                what="the name of an environment variable, as a text",
                check=variable_fault,
                code="bad_variable",
                in_schema={"pattern": r"^\s*[A-Za-z_][A-Za-z0-9_]{0,199}\s*$"},
            ),
            text="Environment variable with the token for the agent. The token is never stored.",
            example="PARTNER_TOKEN",
        ),
        Field(
            name="header",
            kind=Text(
                what="the name of a header, as a text",
                check=_header_fault,
                code="bad_header",
                in_schema={"pattern": r"^\s*[A-Za-z][A-Za-z0-9-]{0,99}\s*$"},
            ),
            text="HTTP header that carries the token. Default: `Authorization`, with `Bearer`.",
            example="X-API-Key",
        ),
        Field(
            name="timeout",
            kind=SECONDS,
            text="Timeout of a remote task in seconds, without waits for people.",
            default=_A2A_DEFAULT.timeout_s,
        ),
        wanted="a mapping with card, token_env, header, timeout",
    ),
    short="card",
    kind=_CARD,
)


def remote_definition(placed: Placed | None) -> RemoteDefinition | None:
    """The definition in the section `a2a`, or `None` if the agent is local."""
    if placed is None or "card" not in placed.value:
        return None
    values = dict(placed.value)
    if "timeout" in values:
        values["timeout_s"] = values.pop("timeout")
    return RemoteDefinition(**values, line=placed.line, column=placed.column)


def check_remote(
    root: nodes.Mapping, values: Mapping[str, Any], body: str, report: ProblemReport
) -> None:
    """Report keys that a remote agent cannot have."""
    if "a2a" not in values:
        return
    for key, _ in root.entries:
        name = re.sub("[A-Z]", lambda found: f"_{found.group().lower()}", key.text)
        if name in _LOCAL_KEYS:
            report.error(
                key,
                "not_with_a2a",
                f"`{key.text}` is for local agents, and this one is remote (`a2a`); leave one "
                "of them out",
            )
    if body.strip():
        report.warning(
            None,
            "unused_instructions",
            "a remote agent does not use instructions; leave them out, or write them into "
            "`description`",
        )


_FUNCTION = Text(check=function_fault, code="bad_function", max_length=500)

GUARDRAILS = Object(
    Field(
        name="output_schema",
        kind=AnyMapping("a JSON Schema as a mapping, such as {type: object}"),
        text="JSON Schema (2020-12) for every answer; `$ref` may only point into the schema "
        "itself.",
    ),
    Field(
        name="custom_validator",
        kind=_FUNCTION,
        text="Function, as `module:function`, that checks the answer after the schema and returns "
        "`(valid, error)`.",
        example="checks:polite",
    ),
    Field(
        name="on_failure",
        kind=Choice(("reject", "repair", "warn")),
        text="What a failed check does. `reject` ends the run. `repair` gives the error to the "
        "model, which tries again. `warn` records the error, and the run continues.",
        default="reject",
    ),
    Field(
        name="input_validator",
        kind=_FUNCTION,
        text="Function that checks the input (text or items) before the model call. Here "
        "`repair` acts like `reject`.",
        example="checks:no_homework",
    ),
    Field(
        name="handoff_validator",
        kind=_FUNCTION,
        text="Function that checks the `HandoffRequest` when the agent hands over.",
        example="checks:no_cards",
    ),
    Field(
        name="tool_input_validator",
        kind=_FUNCTION,
        text="Function that checks tool name and arguments before each tool call. Tools that "
        "other keys add, such as `ask_agent` and `remember`, are checked too.",
        example="checks:small_sums",
    ),
    Field(
        name="tool_output_validator",
        kind=_FUNCTION,
        text="Function that checks tool name and output before the model sees the output.",
        example="checks:no_keys",
    ),
    wanted="a mapping with output_schema, custom_validator, on_failure and others",
)


def guardrail_definition(node: nodes.Node, values: Mapping[str, Any]) -> GuardrailDefinition:
    """The definition in the section `guardrails`, from its node and its parsed values."""
    return GuardrailDefinition(**values, places=dict(_places(node)))


def _places(node: nodes.Node) -> Iterator[tuple[str, Place]]:
    """The place of each value, by JSON Pointer from `guardrails`; our keys are in snake_case."""
    if not isinstance(node, nodes.Mapping):
        return
    names = {key: each.name for each in GUARDRAILS.fields for key in (each.camel, each.name)}
    waiting = [(f"/{names.get(key.text, key.text)}", inner) for key, inner in node.entries]
    while waiting:
        path, inner = waiting.pop()
        yield path, (inner.line, inner.column)
        if isinstance(inner, nodes.Mapping):
            waiting += [(f"{path}/{_part(key.text)}", each) for key, each in inner.entries]
        elif isinstance(inner, nodes.Sequence):
            waiting += [(f"{path}/{at}", each) for at, each in enumerate(inner.items)]


def _part(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


MEMORY = Object(
    Field(name="enabled", kind=Flag(), text="Whether the agent has memory.", default=False),
    Field(
        name="type",
        kind=Choice(tuple(sorted(get_args(MemoryKind), reverse=True))),
        text="`key_value` searches by words, `vector` by words and meaning.",
        default="key_value",
    ),
    Field(
        name="backend",
        kind=Text(),
        text="External vector database, such as `pinecone`. Default: the session store.",
        example="pinecone",
    ),
    Field(
        name="scope",
        kind=Choice(get_args(MemoryScope)),
        text="Whether memories belong to one user or to the whole app.",
        default="user",
    ),
    Field(
        name="top_k",
        kind=Number(low=1, high=100, whole=True),
        text="Maximum number of search results. Default: the setting `memory.top_k`.",
        example=5,
    ),
    Field(
        name="threshold",
        kind=Number(low=0, high=1),
        text="Minimum similarity. Default: the setting `memory.similarity_threshold`.",
        example=0.3,
    ),
    wanted="a mapping with enabled, type, backend, scope, top_k, threshold",
)

_MAX_PATTERNS = 100
_WORDS = "a list of texts, such as [error, crash]"
_KEYWORD = Text(what="a word, as a text", max_length=200)
_PATTERN = Text(
    what="a regular expression, as a text",
    strip=False,
    max_length=1_000,
    check=pattern_fault,
    code="bad_pattern",
    in_schema={"format": "regex"},
)

TRIGGERS = Object(
    Field(
        name="keywords",
        kind=ListOf(item=_KEYWORD, wanted=_WORDS),
        text="Keywords, case-insensitive.",
        example=["error", "报错"],
    ),
    Field(
        name="patterns",
        kind=ListOf(item=_PATTERN, wanted=_WORDS, max_items=_MAX_PATTERNS),
        text="RE2 regular expressions, case-insensitive.",
        example=["order #[0-9]+"],
    ),
    Field(
        name="priority",
        kind=Number(low=0, high=100, whole=True),
        text="Weight of the agent's score in `rule` routing.",
        default=50,
    ),
    Field(
        name="examples",
        kind=ListOf(item=Text(), wanted="a list of texts, each on its own line after a -"),
        text="Sample requests, for `semantic` and `llm` routing.",
        example=["Why does my program stop?"],
    ),
    wanted="a mapping with keywords, patterns, priority, examples",
)

CAPABILITY = Object(
    Field(
        name="name",
        kind=Text(),
        text="Name of the capability: one word.",
        required=True,
        example="debugging",
    ),
    Field(name="description", kind=Text(), text="One sentence."),
    Field(name="proficiency", kind=Number(low=0, high=1), text="Skill level.", default=1.0),
    Field(
        name="tags",
        kind=ListOf(item=Text(), wanted=_WORDS),
        text="Search tags.",
        example=["python"],
    ),
    wanted="a mapping with name, description, proficiency, tags",
)

_MAX_TASKS = 1_000
_MAX_RETRIES = 100
_NAME = Text(
    what="the name of an agent, as a text",
    max_length=MAX_NAME,
    check=member_fault,
    code="bad_target",
    in_schema=NOT_PEOPLE,
)
_DEFAULT = SupervisorDefinition()


def _check_members(
    node: nodes.Mapping, values: Mapping[str, Any], at: str, report: ProblemReport
) -> None:
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
                in_schema=NOT_PEOPLE,
            ),
            text="Agents that receive tasks. Default: all agents except supervisors.",
            example=["weather", "travel"],
        ),
        Field(
            name="fallback",
            kind=OnePlaced(_NAME),
            text="Agent for tasks that no other agent can do. Default: the agent in the "
            "setting `default_agent` if that agent receives tasks, otherwise the last agent of "
            "`supervisor.agents`.",
            example="travel",
        ),
        Field(
            name="concurrency",
            kind=Number(low=1, high=_MAX_TASKS, whole=True),
            text="Maximum number of tasks at the same time.",
            default=_DEFAULT.concurrency,
        ),
        Field(
            name="timeout",
            kind=SECONDS,
            text="Seconds for each attempt of a task, without waits for people.",
            default=_DEFAULT.timeout_s,
        ),
        Field(
            name="retries",
            kind=Number(low=0, high=_MAX_RETRIES, whole=True),
            text="Retries of a failed task.",
            default=_DEFAULT.retries,
        ),
        Field(
            name="backoff",
            kind=Number(low=0, high=3_600),
            text="Seconds before the first retry; the delay doubles with each retry.",
            default=_DEFAULT.backoff_s,
        ),
        Field(
            name="max_tasks",
            kind=Number(low=1, high=_MAX_TASKS, whole=True),
            text="Maximum number of tasks; a larger plan is refused.",
            default=_DEFAULT.max_tasks,
        ),
        Field(name="budget", kind=BUDGET, text="Spending limit of each task."),
        wanted="true, false or a mapping with agents, fallback, concurrency and others",
        check=_check_members,
        rules=[{"not": {"required": ["agents"], "properties": {"agents": {"enum": [[], ""]}}}}],
    )
)


def supervisor_definition(
    section: bool | Mapping[str, Any] | None, *, line: int, column: int
) -> SupervisorDefinition | None:
    """The definition in the section `supervisor`, or `None` if the agent is not a supervisor."""
    if section is None or section is False:
        return None
    values: dict[str, Any] = {} if section is True else dict(section)
    for name, new in (("timeout", "timeout_s"), ("backoff", "backoff_s")):
        if name in values:
            values[new] = values.pop(name)
    if "agents" in values:
        values["agents"] = tuple(map(peer_of, values["agents"]))
    if "fallback" in values:
        values["fallback"] = peer_of(values["fallback"])
    values["budget"] = budget_of(values.get("budget"))
    return SupervisorDefinition(**values, line=line, column=column)
