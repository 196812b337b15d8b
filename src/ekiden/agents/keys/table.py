"""Every key of an agent file: its values, meaning and default; the JSON Schema; and the definition.

The reader and the JSON Schema both come from this table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, get_args
from unicodedata import normalize

from ekiden.agents.checks import ProblemReport, model_fault, model_of, peer_fault, role_fault, shown
from ekiden.agents.definition import (
    AgentDefinition,
    GuardrailDefinition,
    MemoryDefinition,
    Peer,
    Place,
)
from ekiden.agents.keys.handoffs import HANDOFFS, handoff_definition
from ekiden.agents.keys.objects import (
    BUDGET,
    CONFIRMATION,
    MODEL_SETTINGS,
    TOOLS,
    Entry,
    Field,
    FlagOrNames,
    ListOf,
    Names,
    NamesOr,
    Object,
    Placed,
)
from ekiden.agents.keys.sections import (
    A2A,
    GUARDRAILS,
    SUPERVISOR,
    check_remote,
    guardrail_definition,
    remote_definition,
    supervisor_definition,
)
from ekiden.agents.yaml import nodes
from ekiden.core.checks.kinds import Choice, Flag, Number, Text
from ekiden.core.conversation.model import ModelSettings
from ekiden.core.profile import (
    LABEL,
    LABEL_RULE,
    Budget,
    Capability,
    Confirmation,
    MemoryKind,
    MemoryScope,
    Scope,
    Triggers,
    is_label,
)
from ekiden.core.questions import DEFAULT_ROLE
from ekiden.core.text.names import INHERIT, MAX_NAME, MODEL_NAME, RESERVED, name_fault
from ekiden.core.text.wording import matches_everything, pattern_fault

MEMORY = Object(
    Field(name="enabled", kind=Flag(), text="Whether the agent has memory.", default=False),
    Field(
        name="type",
        kind=Choice(tuple(sorted(get_args(MemoryKind), reverse=True))),
        text="Search by words (`key_value`), or also by meaning (`vector`).",
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
_KEYWORD = Text(what="a word, as a text", max_length=200)
_PATTERN = Text(
    what="a regular expression, as a text",
    strip=False,
    max_length=1_000,
    check=pattern_fault,
    code="bad_pattern",
    in_schema={"format": "regex"},
)
_WORDS = "a list of texts, such as [error, crash]"
_NOT_PEOPLE = {"not": {"pattern": r"(?:^|,)\s*person:"}}
_PEERS = Names(
    name=Text(
        what="the name of an agent, as a text",
        max_length=MAX_NAME,
        check=peer_fault,
        code="bad_target",
        in_schema=_NOT_PEOPLE,
    ),
    wanted="a list of agents, such as [billing, orders]",
    in_schema=_NOT_PEOPLE,
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
        in_schema={**_NOT_PEOPLE, "pattern": r"^\s*[^\s](?:[^\t\n\u2028\u2029]*\S)?\s*$"},
    ),
    wanted="true, or a list of roles, such as [support, manager]",
    in_schema=_NOT_PEOPLE,
)

_TRIGGERS = Object(
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
        text="Weight of the score.",
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

_CAPABILITY = Object(
    Field(
        name="name",
        kind=Text(),
        text="Name of the capability: one word.",
        required=True,
        example="debugging",
    ),
    Field(name="description", kind=Text(), text="One sentence."),
    Field(
        name="proficiency",
        kind=Number(low=0, high=1),
        text="Skill level.",
        default=1.0,
    ),
    Field(
        name="tags",
        kind=ListOf(item=Text(), wanted=_WORDS),
        text="Search tags.",
        example=["python"],
    ),
    wanted="a mapping with name, description, proficiency, tags",
)

AGENT = Object(
    Field(
        name="name",
        kind=_NAME,
        text="Unique in the team: letters and digits of any script, `-` and `_`; not `auto` or "
        "`user`. A file with the name `router-agent` configures the router.",
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
        "`sonnet`, `opus` and `haiku` are Anthropic's newest models. Default, or with `inherit`: "
        "the team's model.",
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
        text="Instructions; the text below the front matter follows them.",
    ),
    Field(
        name="scope",
        kind=Choice(("project", "user", "system")),
        text="Owner of the agent. Routing never chooses a `system` agent; a team needs at least "
        "one other agent. Default: the scope of the folder.",
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
                    text="Allowed tools; the model sees no other tools, and calls of other tools "
                    "are refused.",
                    example=["read_file", "shell"],
                ),
                Field(
                    name="confirmation",
                    kind=CONFIRMATION,
                    text="Which tools need human approval, and how the person is asked.",
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
        text="Same as `tools.confirmation`, for use when `tools` is a list.",
    ),
    Field(name="triggers", kind=_TRIGGERS, text="Which requests are routed to this agent."),
    Field(
        name="capabilities",
        kind=ListOf(
            item=Entry(inside=_CAPABILITY, short="name", kind=Text()),
            wanted="a list of mappings with name, description, proficiency, tags",
        ),
        text="Skills of the agent; a name is short for a mapping.",
    ),
    Field(
        name="available",
        kind=Flag(),
        text="Whether the agent accepts handoffs.",
        default=True,
    ),
    Field(
        name="max_sessions",
        kind=Number(low=1, high=_MAX_SESSIONS, whole=True),
        text="Refuse handoffs while this many sessions are active. Default: no limit.",
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
        text="Allowed handoffs; a name is short for a mapping.",
        example=[{"to": "fixer"}],
    ),
    Field(
        name="can_ask",
        kind=_PEERS,
        text="Agents that this agent may ask with the tool `ask_agent`; it keeps the conversation.",
        example=["billing"],
    ),
    Field(
        name="can_tell",
        kind=_PEERS,
        text="Agents that this agent may send messages to with the tool `tell_agent`; they do "
        "not answer.",
        example=["orders"],
    ),
    Field(
        name="can_ask_people",
        kind=FlagOrNames(names=_ROLES),
        text="Roles of people that the agent may ask with the tool `ask_person`; the session "
        "waits for the answer. `true`: the role in the setting `inbox.role`.",
        example=["support"],
    ),
    Field(
        name="guardrails",
        kind=GUARDRAILS,
        text="Checks of input, output, tools and handoffs.",
    ),
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
        text="The agent is remote and called over A2A: the address of its agent card, or a "
        "mapping. It has no `model`, `tools`, `memory`, `supervisor` or instructions here.",
        example="https://partner.example",
    ),
    wanted="keys and values, such as name: debugger",
)


def agent_file_schema() -> dict[str, Any]:
    """Return a JSON Schema (2020-12) for the front matter of an agent file. Each call returns a new
    copy.

    The loader of agent files accepts the same keys. The loader also checks rules that a schema
    cannot express: patterns must compile, and the agents of a team must fit together.
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
    """The definition; if the report has an error, what of it can be checked all the same."""
    values: dict[str, Any] = AGENT.read(root, "", report)
    tools = values.get("tools", {})
    confirmation = _confirmation(root, values, tools, report)
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
        capabilities=tuple(_capabilities(values.get("capabilities", ()))),
        handoffs=tuple(
            handoff_definition(each) for each in values.get("handoffs", ()) if "to" in each.value
        ),
        can_ask=_peers(values.get("can_ask", ())),
        can_tell=_peers(values.get("can_tell", ())),
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
        confirmation=_template_and_timeout(confirmation),
        triggers=Triggers(**{**triggers, "keywords": _once(triggers.get("keywords", ()))}),
        available=values.get("available", True),
        max_sessions=values.get("max_sessions"),
        budget=Budget(**values["budget"]) if values.get("budget") else None,
        runs_on=frozenset(each.value for each in values.get("runs_on", ())),
        guardrails=_guardrails(root, values),
        memory=MemoryDefinition(**values["memory"]) if "memory" in values else None,
    )


def _model_settings(
    root: nodes.Mapping, values: Mapping[str, Any], report: ProblemReport
) -> ModelSettings | None:
    said: dict[str, Any] = dict(values.get("model_settings", {}))
    if "temperature" in values:
        if "temperature" in said:
            words = "`temperature` appears twice; write it once, under model_settings"
            report.error(_entry(root, "temperature")[0], "duplicate_key", words)
        said["temperature"] = values["temperature"]
    return ModelSettings(**said) if said else None


def _capabilities(entries: Iterable[Placed]) -> Iterator[Capability]:
    """Those that have a name."""
    return (Capability(**each.value) for each in entries if "name" in each.value)


def _peers(names: Iterable[Placed]) -> tuple[Peer, ...]:
    return tuple(
        Peer(name=normalize("NFC", name), line=line, column=column) for name, line, column in names
    )


def _roles(said: bool | Iterable[Placed]) -> tuple[str, ...]:
    if isinstance(said, bool):
        return (DEFAULT_ROLE,) if said else ()
    return tuple(normalize("NFC", role.value) for role in said)


def _confirmation(
    root: nodes.Mapping, values: Mapping[str, Any], tools: Mapping[str, Any], report: ProblemReport
) -> Mapping[str, Any]:
    """What is said of confirmation, in whichever of the three places it stands."""
    said: dict[str, Any] = {}
    parts = [
        tools.get("confirmation", {}),
        {key: tools[key] for key in ("require_confirmation",) if key in tools},
        values.get("tool_confirmation", {}),
    ]
    for part in parts:
        for key, value in part.items():
            if key in said:
                report.error(
                    _entry(root, "tools")[0],
                    "duplicate_key",
                    f"`{key}` appears twice; write it once, under tools.confirmation",
                )
            said[key] = value
    return said


def _places(names: Iterable[Placed]) -> dict[str, Place]:
    return {name: (line, column) for name, line, column in names}


def _template_and_timeout(confirmation: Mapping[str, Any]) -> Confirmation | None:
    if not confirmation.keys() - {"require_confirmation"}:
        return None
    default = Confirmation()
    return Confirmation(
        prompt_template=confirmation.get("prompt_template", default.prompt_template),
        timeout_s=confirmation.get("timeout"),
    )


def _once(words: Iterable[str]) -> tuple[str, ...]:
    """A word that is there twice, perhaps in capitals, counts once."""
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
    """A key that has only one spelling, and its value."""
    return next((entry for entry in root.entries if entry[0].text == name), (root, root))
