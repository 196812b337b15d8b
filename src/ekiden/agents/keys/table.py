"""The table of all keys of an agent file. The reader, the JSON Schema and the documentation use
this table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any
from unicodedata import normalize

from ekiden.agents import yaml_nodes as nodes
from ekiden.agents.definition import (
    AgentDefinition,
    GuardrailDefinition,
    MemoryDefinition,
    Place,
    ProblemReport,
    shown,
)
from ekiden.agents.keys.handoffs import HANDOFFS, handoff_definition
from ekiden.agents.keys.kinds import model_fault, model_of, peer_fault, role_fault
from ekiden.agents.keys.objects import (
    BUDGET,
    CONFIRMATION,
    MODEL_SETTINGS,
    NOT_PEOPLE,
    TOOLS,
    Entry,
    Field,
    FlagOr,
    ListOf,
    Names,
    NamesOr,
    Object,
    Placed,
    budget_of,
    confirmation_of,
    peer_of,
)
from ekiden.agents.keys.sections import (
    A2A,
    CAPABILITY,
    GUARDRAILS,
    MEMORY,
    SUPERVISOR,
    TRIGGERS,
    check_remote,
    guardrail_definition,
    remote_definition,
    supervisor_definition,
)
from ekiden.core.checks.kinds import Choice, Flag, Number, Text
from ekiden.core.conversation.model import ModelSettings
from ekiden.core.profile import LABEL, LABEL_RULE, Capability, Scope, Triggers, is_label
from ekiden.core.questions import DEFAULT_ROLE
from ekiden.core.text.wording import (
    INHERIT,
    MAX_NAME,
    MODEL_NAME,
    RESERVED,
    matches_everything,
    name_fault,
)

_MAX_SESSIONS = 1_000_000

_NAME = Text(
    what="a name of letters, digits, - and _, as a text",
    max_length=MAX_NAME,
    check=name_fault,
    code="bad_name",
    in_schema={
        "pattern": r"^[^\s!-/:-@\[-`{-~][^\s!-,./:-@\[-^`{-~]*$",
        "not": {"enum": sorted(RESERVED)},
    },
)
_PEERS = Names(
    name=Text(
        what="the name of an agent, as a text",
        max_length=MAX_NAME,
        check=peer_fault,
        code="bad_target",
        in_schema=NOT_PEOPLE,
    ),
    wanted="a list of agents, such as [billing, orders]",
    in_schema=NOT_PEOPLE,
)
_LABELS = Names(
    name=Text(
        what="a label, as a text",
        check=lambda text: None if is_label(text) else LABEL_RULE,
        code="bad_name",
        in_schema={"pattern": rf"^\s*{LABEL}\s*$"},
    ),
    wanted="a list of labels, such as [gpu]",
    in_schema={"pattern": rf"^(\s*({LABEL})?\s*,)*\s*({LABEL})?\s*$"},
)
_ROLES = Names(
    name=Text(
        what="a role, as a text",
        max_length=MAX_NAME,
        check=role_fault,
        code="bad_target",
        in_schema={**NOT_PEOPLE, "pattern": r"^\s*[^\s](?:[^\t\n\u2028\u2029]*\S)?\s*$"},
    ),
    wanted="true, or a list of roles, such as [support, manager]",
    in_schema=NOT_PEOPLE,
)

AGENT = Object(
    Field(
        name="name",
        kind=_NAME,
        text="Name, unique in the team, of letters and digits of any script, `-` and `_`. `auto` "
        "and `user` are reserved. A file with the name `router-agent` configures the router.",
        required=True,
        example="debugger",
    ),
    Field(name="title", kind=Text(), text="Display name.", example="Debugger"),
    Field(
        name="description",
        kind=Text(),
        text="Purpose of the agent, for people and for models that choose an agent.",
        example="Finds out why a program fails.",
    ),
    Field(
        name="handoff_description",
        kind=Text(),
        text="Description of the tool that hands over to this agent. Default: `description`.",
    ),
    Field(
        name="model",
        kind=Text(
            what="a text, provider:model",
            max_length=500,
            check=model_fault,
            code="bad_model",
            in_schema={"pattern": rf"^\s*(?:{MODEL_NAME}|{INHERIT})\s*$"},
        ),
        text="Model as `provider:model`. `gpt-…`, `claude-…` and `gemini-…` need no provider; "
        "`sonnet`, `opus` and `haiku` are Anthropic's newest models. Without this key, or with "
        "`inherit`, the agent uses the team's model.",
        example="openai:gpt-5-mini",
    ),
    Field(
        name="model_settings",
        kind=MODEL_SETTINGS,
        text="Model parameters. Default: the provider's.",
        example={"temperature": 0.2},
    ),
    Field(
        name="temperature",
        kind=Number(low=0, high=100),
        text="Short for `model_settings.temperature`.",
        example=0.2,
    ),
    Field(
        name="system_prompt",
        kind=Text(),
        text="Instructions. The model gets them before the text below the front matter.",
    ),
    Field(
        name="scope",
        kind=Choice(("project", "user", "system")),
        text="Owner of the agent. Routing never chooses a `system` agent, so a team also needs an "
        "agent with another scope. Default: the scope of the file's folder.",
    ),
    Field(
        name="tools",
        kind=NamesOr(
            names=TOOLS,
            key="allow",
            inside=Object(
                Field(
                    name="allow",
                    kind=TOOLS,
                    text="Allowed tools. The model sees only these tools, and Ekiden refuses "
                    "calls of other tools.",
                    example=["read_file", "shell"],
                ),
                Field(
                    name="confirmation",
                    kind=CONFIRMATION,
                    text="Tools that need human approval, and the question to the person.",
                ),
                Field(
                    name="require_confirmation",
                    kind=TOOLS,
                    text="Short for `tools.confirmation.require_confirmation`.",
                ),
                wanted="a mapping with allow and confirmation, or a list of names",
            ),
        ),
        text="Tools that the agent may call; a list is short for `tools.allow`.",
        example={"allow": ["read_file"]},
    ),
    Field(
        name="tool_confirmation",
        kind=CONFIRMATION,
        text="The same mapping as `tools.confirmation`; use this key if `tools` is a list.",
    ),
    Field(name="triggers", kind=TRIGGERS, text="Which requests are routed to this agent."),
    Field(
        name="capabilities",
        kind=ListOf(
            item=Entry(inside=CAPABILITY, short="name", kind=Text()),
            wanted="a list of mappings with name, description, proficiency, tags",
        ),
        text="Skills of the agent. An entry is a mapping, or only the name of a capability.",
    ),
    Field(name="available", kind=Flag(), text="Whether the agent accepts handoffs.", default=True),
    Field(
        name="max_sessions",
        kind=Number(low=1, high=_MAX_SESSIONS, whole=True),
        text="Number of active sessions at which the agent refuses handoffs. Default: no limit.",
        example=20,
    ),
    Field(
        name="budget",
        kind=BUDGET,
        text="Spending limit of the agent in a run; the setting `limits.agents` overrides it.",
        example={"tokens": 20_000},
    ),
    Field(
        name="runs_on",
        kind=_LABELS,
        text="Labels that a worker must have to run the agent.",
        example=["gpu"],
    ),
    Field(
        name="handoffs",
        kind=HANDOFFS,
        text="Allowed handoffs. An entry is a mapping, or only the name of the target.",
        example=[{"to": "fixer"}],
    ),
    Field(
        name="can_ask",
        kind=_PEERS,
        text="Agents that this agent may ask with the tool `ask_agent`. The asking agent keeps the "
        "conversation.",
        example=["billing"],
    ),
    Field(
        name="can_tell",
        kind=_PEERS,
        text="Agents to which this agent may send messages with the tool `tell_agent`. There is "
        "no answer.",
        example=["orders"],
    ),
    Field(
        name="can_ask_people",
        kind=FlagOr(inside=_ROLES),
        text="Roles of people that the agent may ask with the tool `ask_person`; the session "
        "waits for the answer. `true` allows the role in the setting `inbox.role`.",
        example=["support"],
    ),
    Field(name="guardrails", kind=GUARDRAILS, text="Checks of input, output, tools and handoffs."),
    Field(
        name="memory",
        kind=MEMORY,
        text="Long-term memory with the tools `remember`, `recall` and `forget`.",
    ),
    Field(
        name="supervisor",
        kind=SUPERVISOR,
        text="The agent splits a request into tasks for other agents and combines their results.",
        example={"agents": ["weather", "travel"]},
    ),
    Field(
        name="a2a",
        kind=A2A,
        text="Makes this a remote agent, which Ekiden calls over A2A: the address of its agent "
        "card, or a mapping. The file must not have `model`, `tools`, `memory`, `supervisor` or "
        "instructions.",
        example="https://partner.example",
    ),
    wanted="keys and values, such as name: debugger",
)


def agent_file_schema() -> dict[str, Any]:
    """Return a JSON Schema (2020-12) for the front matter of an agent file. Each call returns a new
    copy.

    The loader of agent files accepts the same keys. The loader also checks rules that a schema
    cannot express: for example, patterns must compile, and handoff targets must exist.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:ekiden:agent-file",
        "title": "Ekiden agent",
        "description": "The front matter of an agent file; the text below it is the instructions.",
        **AGENT.schema(),
    }


def read_own(
    root: nodes.Mapping, body: str, report: ProblemReport, scope: Scope
) -> AgentDefinition:
    """Return the definition in the file. If the report has an error, the definition contains only
    the parts that can be checked."""
    values: dict[str, Any] = AGENT.read(root, "", report)
    tools = values.get("tools", {})
    confirmation = _confirmation(root, values, tools, report)
    has_settings = bool(confirmation.keys() - {"require_confirmation"})
    triggers = values.get("triggers", {})
    _warn_of_broad_patterns(root, triggers, report)
    check_remote(root, values, body, report)
    place = _entry(root, "name")[1]
    supervises = _entry(root, "supervisor")[0]
    checkable = AgentDefinition(
        name=normalize("NFC", values.get("name", "")),
        instructions="\n\n".join(filter(None, [values.get("system_prompt"), body])),
        path=report.path,
        scope=values.get("scope", scope),
        tools=tuple(_places(tools.get("allow", ()))),
        tool_places=_places(tools.get("allow", ())),
        require_confirmation=tuple(_places(confirmation.get("require_confirmation", ()))),
        confirmation_places=_places(confirmation.get("require_confirmation", ())),
        capabilities=tuple(
            Capability(**each.value)
            for each in values.get("capabilities", ())
            if "name" in each.value
        ),
        handoffs=tuple(
            handoff_definition(each) for each in values.get("handoffs", ()) if "to" in each.value
        ),
        can_ask=tuple(map(peer_of, values.get("can_ask", ()))),
        can_tell=tuple(map(peer_of, values.get("can_tell", ()))),
        can_ask_people=_roles(values.get("can_ask_people", ())),
        conditions=tuple(report.conditions),
        supervisor=supervisor_definition(
            values.get("supervisor"), line=supervises.line, column=supervises.column
        ),
        a2a=remote_definition(values.get("a2a")),
        line=place.line,
        column=place.column,
    )
    if report.failed:
        return checkable
    return replace(
        checkable,
        title=values.get("title"),
        description=values.get("description"),
        handoff_description=values.get("handoff_description"),
        model=model_of(values.get("model")),
        model_settings=_model_settings(root, values, report),
        confirmation=confirmation_of(confirmation) if has_settings else None,
        triggers=Triggers(**{**triggers, "keywords": _unique(triggers.get("keywords", ()))}),
        available=values.get("available", True),
        max_sessions=values.get("max_sessions"),
        budget=budget_of(values.get("budget")),
        runs_on=frozenset(each.value for each in values.get("runs_on", ())),
        guardrails=_guardrails(root, values),
        memory=MemoryDefinition(**values["memory"]) if "memory" in values else None,
    )


def _model_settings(
    root: nodes.Mapping, values: Mapping[str, Any], report: ProblemReport
) -> ModelSettings | None:
    settings: dict[str, Any] = dict(values.get("model_settings", {}))
    if "temperature" in values:
        if "temperature" in settings:
            words = "`temperature` appears twice; write it once, under model_settings"
            report.error(_entry(root, "temperature")[0], "duplicate_key", words)
        settings["temperature"] = values["temperature"]
    return ModelSettings(**settings) if settings else None


def _roles(roles: bool | Iterable[Placed]) -> tuple[str, ...]:
    if isinstance(roles, bool):
        return (DEFAULT_ROLE,) if roles else ()
    return tuple(normalize("NFC", role.value) for role in roles)


def _confirmation(
    root: nodes.Mapping, values: Mapping[str, Any], tools: Mapping[str, Any], report: ProblemReport
) -> Mapping[str, Any]:
    """The values about approval, from the three places where a file can have them."""
    merged: dict[str, Any] = {}
    parts = [
        tools.get("confirmation", {}),
        {key: tools[key] for key in ("require_confirmation",) if key in tools},
        values.get("tool_confirmation", {}),
    ]
    for part in parts:
        for key, value in part.items():
            if key in merged:
                report.error(
                    _entry(root, "tools")[0],
                    "duplicate_key",
                    f"`{key}` appears twice; write it once, under tools.confirmation",
                )
            merged[key] = value
    return merged


def _places(names: Iterable[Placed]) -> dict[str, Place]:
    return {name: (line, column) for name, line, column in names}


def _unique(words: Iterable[str]) -> tuple[str, ...]:
    """The first spelling of each word; upper and lower case are the same word."""
    seen: dict[str, str] = {}
    for word in words:
        seen.setdefault(word.casefold(), word)
    return tuple(seen.values())


def _warn_of_broad_patterns(
    root: nodes.Mapping, triggers: Mapping[str, Any], report: ProblemReport
) -> None:
    for pattern in triggers.get("patterns", ()):
        if matches_everything(pattern):
            report.warning(
                _entry(root, "triggers")[0],
                "broad_pattern",
                f"the pattern {shown(pattern)} matches every request; use priority and the "
                "setting default_agent for an agent that takes the rest",
            )


def _guardrails(root: nodes.Mapping, values: Mapping[str, Any]) -> GuardrailDefinition | None:
    if "guardrails" not in values:
        return None
    return guardrail_definition(_entry(root, "guardrails")[1], values["guardrails"])


def _entry(root: nodes.Mapping, name: str) -> tuple[nodes.Node, nodes.Node]:
    """A key and its value; only for keys whose snake_case and camelCase are the same."""
    return next((entry for entry in root.entries if entry[0].text == name), (root, root))
