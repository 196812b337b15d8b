"""Ekiden's own front matter to a definition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from unicodedata import normalize

from ekiden.agents.checks import ProblemReport, model_of, shown
from ekiden.agents.definition import (
    AgentDefinition,
    GuardrailDefinition,
    MemoryDefinition,
    Peer,
    Place,
)
from ekiden.agents.keys.handoffs import handoff_definition
from ekiden.agents.keys.objects import Placed
from ekiden.agents.keys.sections import (
    check_remote,
    guardrail_definition,
    remote_definition,
    supervisor_definition,
)
from ekiden.agents.keys.table import AGENT
from ekiden.agents.yaml import nodes
from ekiden.core.conversation.model import ModelSettings
from ekiden.core.profile import Budget, Capability, Confirmation, Scope, Triggers
from ekiden.core.questions import DEFAULT_ROLE
from ekiden.core.text.wording import matches_everything


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
