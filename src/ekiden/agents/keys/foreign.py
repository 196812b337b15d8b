"""Reads agent files of other tools, such as Claude Code, unchanged.

Case, ``-`` and ``_`` in the names of keys are ignored. Tools are replaced by their counterparts in
Ekiden; tools without a counterpart are left out. A key that restricts the agent is enforced; if
this is impossible, the file is refused (see `restrictions`). Unknown keys that restrict nothing are
ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from unicodedata import normalize

from ekiden.agents import yaml_nodes as nodes
from ekiden.agents.definition import AgentDefinition, Origin, Place, ProblemReport, shown
from ekiden.agents.keys.kinds import INVALID, model_of, plain_value, read
from ekiden.agents.keys.objects import MODEL_SETTINGS
from ekiden.agents.keys.restrictions import ALL, Restrictions, is_nothing, listed, restricts
from ekiden.agents.yaml_nodes import Node, Scalar, value_of
from ekiden.core.checks.kinds import RefusedValue, Text, shown_type
from ekiden.core.conversation.model import ModelSettings
from ekiden.core.profile import Scope
from ekiden.core.text.wording import (
    BUILTIN_TOOLS,
    INHERIT,
    builtin_name,
    commands_of,
    full_model_name,
    name_fault,
    plain_key,
    slug_of,
)

_MCP = re.compile(r"mcp__[A-Za-z0-9_.*-]+|mcp:\S+")
_GEMINI_MCP = re.compile(r"mcp_(?P<server>[A-Za-z0-9.-]+)_(?P<tool>[A-Za-z0-9_.*-]+)")
_PROVIDED = re.compile(r"[^\s:]+:\S+")
_TITLES = ("title", "displayname")
_PROMPTS = ("systemprompt", "instructions", "prompt", "developerinstructions")
_TOOLS = ("tools", "allowedtools", "allowtools", "toolallowlist")
_ON = ("allow", "allowed", "include", "core", "only", "enabled", "list")
_SETTINGS = {
    "temperature": "temperature",
    "topp": "top_p",
    "maxtokens": "max_tokens",
    "maxoutputtokens": "max_tokens",
    "effort": "reasoning_effort",
    "reasoningeffort": "reasoning_effort",
    "modelreasoningeffort": "reasoning_effort",
}
_TURNS = ("maxturns", "maxsteps", "steps")
_USUAL_TURNS = 10
"""The default `Limits.turns` of a run."""
_KNOWN = frozenset(
    {"name", "description", "model", "kind", *_TITLES, *_PROMPTS, *_TOOLS, *_SETTINGS, *_TURNS}
)
OTHER_KEYS = frozenset({"color", "skills", "memory", "version", "author", "tags", "category"})
"""Common keys of other tools that have no effect in Ekiden."""


class _Values(dict[str, Node]):
    """The values of a file, by key without case, ``-`` and ``_``."""

    def __init__(self) -> None:
        super().__init__()
        self.written: dict[str, str] = {}
        """The spelling of each key in the file."""


def is_key(text: str) -> bool:
    """Whether a word before a colon is a key. Otherwise the word is part of a text."""
    plain = plain_key(text)
    return plain in _KNOWN or plain in OTHER_KEYS or restricts(plain) or plain == "mode"


def is_safety_key(text: str) -> bool:
    """Whether a key limits the actions of the agent. Such a key must not be ignored."""
    plain = plain_key(text)
    return plain in _TOOLS or restricts(plain)


def read_foreign(
    root: nodes.Mapping, body: str, report: ProblemReport, origin: Origin, scope: Scope
) -> AgentDefinition | None:
    """Return the definition in the file. If the file does not define an agent that Ekiden can run,
    report a warning and return `None`."""
    values = _Values()
    restrictions = Restrictions(report)
    for key, value in root.entries:
        plain = plain_key(key.text)
        if plain in values:
            _report_repeated(key, plain, report)
            continue
        values[plain] = value
        values.written[plain] = key.text
        if plain not in _KNOWN and plain not in ("disabled", "disable", "enabled"):
            restrictions.take(key, value)
    name = _name(root, values, report)
    if name is None or not _is_usable(values, report):
        return None
    tools = restrictions.applied(_tools(root, values, report, restrictions))
    return AgentDefinition(
        name=name,
        instructions=_instructions(values, body, report),
        path=report.path,
        origin=origin,
        title=next(filter(None, (_text(values, key, report) for key in _TITLES)), None),
        description=_description(values, report),
        model=_model(values, report),
        model_settings=_model_settings(values, report),
        scope=scope,
        tools=tuple(tools),
        tool_places=tools,
        require_confirmation=restrictions.asked(tools),
        confirmation=restrictions.confirmation,
        guardrails=restrictions.guardrails,
        budget=restrictions.budget,
        line=values["name"].line,
        column=values["name"].column,
    )


def _report_repeated(key: Scalar, plain: str, report: ProblemReport) -> None:
    words = f"the key {shown(key.text)} appears twice"
    if is_safety_key(plain):
        report.error(key, "unsafe_key", f"{words}, so that the file is not used; remove one")
    else:
        report.warning(key, "passed_over", f"{words} and is ignored")


def _name(root: nodes.Mapping, values: _Values, report: ProblemReport) -> str | None:
    node = values.get("name")
    text = node.text.strip() if isinstance(node, Scalar) else ""
    if not text:
        report.warning(root, "not_an_agent", "it has no `name`, so it is not read as an agent")
        return None
    if name_fault(text) is None:
        return normalize("NFC", text)
    slug = slug_of(text)
    fault = name_fault(slug) if slug else "it has no letters"
    if fault is not None:
        words = f"`name` is {shown(text)}, so the file is not read as an agent: {fault}"
        report.warning(node, "not_an_agent", words)
        return None
    words = f"`name` is {shown(text)}; here the agent is called {slug}"
    report.warning(node, "renamed", words)
    return slug


def _is_usable(values: _Values, report: ProblemReport) -> bool:
    kind = values.get("kind")
    if isinstance(kind, Scalar) and kind.text == "remote":
        words = "`kind` is remote: remote agents are not supported"
        report.warning(kind, "not_an_agent", words)
        return False
    for key, off in (("disabled", True), ("disable", True), ("enabled", False)):
        node = values.get(key)
        if isinstance(node, Scalar) and value_of(node) is off:
            report.warning(
                node, "not_an_agent", "the agent is switched off, so the file is not used"
            )
            return False
    return True


def _text(values: _Values, key: str, report: ProblemReport) -> str | None:
    node = values.get(key)
    if node is None or (isinstance(node, Scalar) and value_of(node) is None):
        return None
    if not isinstance(node, Scalar):
        kind = shown_type(plain_value(node))
        words = f"`{values.written[key]}` is {kind} and is ignored; write a text"
        report.warning(node, "passed_over", words)
        return None
    try:
        text: str = Text().read(node.text)
    except RefusedValue as exc:
        report.warning(node, "passed_over", f"`{values.written[key]}` {exc}; it is ignored")
        return None
    return text


def _description(values: _Values, report: ProblemReport) -> str | None:
    """The description. Some files write line breaks as ``\\n`` where YAML reads no escapes."""
    text = _text(values, "description", report)
    return None if text is None else text.replace("\\n", "\n").strip()


def _instructions(values: _Values, body: str, report: ProblemReport) -> str:
    prompts = [_text(values, key, report) for key in _PROMPTS]
    return "\n\n".join(filter(None, [*prompts, body]))


def _model(values: _Values, report: ProblemReport) -> str | None:
    node = values.get("model")
    text = node.text.strip() if isinstance(node, Scalar) else ""
    if node is None or not text or text == INHERIT or is_nothing(node):
        return None
    text = text.replace("/", ":", 1) if "/" in text and ":" not in text else text
    if full_model_name(text) or _PROVIDED.fullmatch(text):
        return model_of(text)
    report.warning(
        node,
        "model_of_the_team",
        f"the provider of the model {shown(text)} is unknown, so the team's model is used; for "
        "another one write provider:model",
    )
    return None


def _model_settings(values: _Values, report: ProblemReport) -> ModelSettings | None:
    found: dict[str, Any] = {}
    kinds = {each.name: each.kind for each in MODEL_SETTINGS.fields}
    for key, name in _SETTINGS.items():
        node = values.get(key)
        if node is None or is_nothing(node):
            continue
        trial = ProblemReport(report.path)
        value = read(kinds[name], node, values.written[key], trial)
        if value is not INVALID:
            found[name] = value
        for each in trial.problems:
            report.warning(node, "passed_over", f"{each.message}; it is ignored")
    for key in _TURNS:
        node = values.get(key)
        turns = value_of(node) if isinstance(node, Scalar) else None
        if node is not None and not (isinstance(turns, int | float) and turns >= _USUAL_TURNS):
            words = (
                f"`{values.written[key]}` has no effect: a run has at most {_USUAL_TURNS} turns, "
                "or as many as the setting limits.turns says"
            )
            report.warning(node, "passed_over", words)
    return ModelSettings(**found) if found else None


def _tools(
    root: nodes.Mapping,
    values: _Values,
    report: ProblemReport,
    restrictions: Restrictions,
) -> dict[str, Place]:
    """The counterparts of the tools, each with its place; without a list, all built-in tools."""
    everything = dict.fromkeys(BUILTIN_TOOLS, (root.line, root.column))
    tools: dict[str, Place] | None = None
    for key in _TOOLS:
        node = values.get(key)
        if node is None or (isinstance(node, Scalar) and value_of(node) is None and node.plain):
            continue
        if isinstance(node, nodes.Mapping):
            items = _switched(values.written[key], node, restrictions)
        else:
            items = listed(node)
            if items is None:
                restrictions.refuse(Scalar(values.written[key], True, node.line, node.column))
        if items is None:
            continue
        found = _counterparts(node, items, report, everything)
        tools = found if tools is None else _in_both(tools, found)
    return everything if tools is None else tools


def _in_both(one: Mapping[str, Place], other: Mapping[str, Place]) -> dict[str, Place]:
    """The tools in both lists; a shell for some commands is included in a shell for all."""
    both = {**one, **other}
    return {
        name: both[name]
        for name in both
        if all(
            name in each or (name.startswith("shell(") and "shell" in each) for each in (one, other)
        )
    }


def _switched(key: str, node: nodes.Mapping, restrictions: Restrictions) -> list[Scalar] | None:
    """The tools that a mapping switches on; `None` if it only switches some off."""
    found: list[Scalar] | None = None
    for inner, value in node.entries:
        word = plain_key(value.text) if isinstance(value, Scalar) else ""
        names = listed(value) if plain_key(inner.text) in _ON else None
        if names is not None:
            found = [*(found or ()), *names]
        elif word in ("true", "allow", "ask") and not restricts(inner.text):
            found = [*(found or ()), inner]
            if word == "ask":
                restrictions.ask(inner, inner)
        elif word in ("false", "deny") and not restricts(inner.text):
            restrictions.deny(inner, Scalar(inner.text, False, inner.line, inner.column))
        elif restricts(inner.text):
            restrictions.take(inner, value)
        elif not is_nothing(value):
            restrictions.refuse(Scalar(f"{key}.{inner.text}", True, inner.line, inner.column))
    return found


def _counterparts(
    node: Node, items: list[Scalar], report: ProblemReport, everything: Mapping[str, Place]
) -> dict[str, Place]:
    tools: dict[str, Place] = {}
    without: dict[str, None] = {}
    for item in items:
        text = item.text.strip("'\"")
        gemini = _GEMINI_MCP.fullmatch(text)
        found = builtin_name(text)
        if found is not None or _MCP.fullmatch(text):
            tools.setdefault(found or text, (item.line, item.column))
        elif (only := commands_of(text)) is not None:
            tools.setdefault(f"shell({' '.join(only)})", (item.line, item.column))
        elif gemini is not None:
            tools.setdefault(f"mcp__{gemini['server']}__{gemini['tool']}", (item.line, item.column))
        elif text in (ALL, "all"):
            tools.update(dict.fromkeys(everything, (item.line, item.column)) | tools)
        else:
            without[item.text] = None
    if without:
        words = ", ".join(shown(name)[1:-1] for name in list(without)[:20])
        words += ", …" if len(without) > 20 else ""
        words = f"there is no counterpart for these tools, which are left out: {words}"
        report.warning(node, "tools_left_out", words)
    return tools
