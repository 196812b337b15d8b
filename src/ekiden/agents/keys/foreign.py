"""Files that were written for another tool, read as they are.

Of those only the name, the description, the tools and the model mean something here; every other
key is the other tool's own and is passed over. A tool that has a counterpart becomes it; the others
are left out. Nothing that is right in its own tool is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from unicodedata import normalize

from ekiden.agents.checks import name_fault, slug_of
from ekiden.agents.definition import AgentDefinition, Origin, Place
from ekiden.agents.keys.kinds import plain_value
from ekiden.agents.keys.objects import split_names
from ekiden.agents.report import Report, shown
from ekiden.agents.yaml import nodes
from ekiden.agents.yaml.nodes import Node, Scalar, value_of
from ekiden.core.checks.kinds import RefusedValue, Text, shown_type
from ekiden.core.profile import Scope

_OWN = ("http_get", "read_file", "shell", "write_file")
_CLAUDE = {
    "Bash": "shell",
    "Edit": "write_file",
    "MultiEdit": "write_file",
    "Read": "read_file",
    "WebFetch": "http_get",
    "Write": "write_file",
}
_GEMINI = {
    "read_many_files": "read_file",
    "replace": "write_file",
    "run_shell_command": "shell",
    "web_fetch": "http_get",
}
_COUNTERPARTS: Mapping[str, str] = {**{name: name for name in _OWN}, **_CLAUDE, **_GEMINI}
_MCP = re.compile(r"mcp__[A-Za-z0-9_.-]+?__[A-Za-z0-9_.-]+")
_PROVIDED = re.compile(r"[^\s:]+:\S+")
_TITLES = ("title", "display_name", "displayName")
_REFUSED_TOOLS = ("disallowedTools", "disallowed_tools", "exclude_tools", "excludeTools")
_TITLE = {"claude": "Claude", "gemini": "Gemini", "agents": "the other tool"}


def read_foreign(
    root: nodes.Mapping, body: str, report: Report, origin: Origin, scope: Scope
) -> AgentDefinition | None:
    """The definition; `None`, with a warning, for what is no agent that can run here."""
    values: dict[str, Node] = {}
    for key, value in root.entries:
        values.setdefault(key.text, value)
    name = _name(root, values, report)
    if name is None or not _is_local(values, report):
        return None
    tools = _tools(root, values, report, _TITLE.get(origin, origin))
    titles = (_text(values, key, report) for key in _TITLES)
    return AgentDefinition(
        name=name,
        instructions=body,
        path=report.path,
        origin=origin,
        title=next((title for title in titles if title), None),
        description=_text(values, "description", report),
        model=_model(values, report),
        scope=scope,
        tools=tuple(tools),
        tool_places=tools,
        line=values["name"].line,
        column=values["name"].column,
    )


def _name(root: nodes.Mapping, values: Mapping[str, Node], report: Report) -> str | None:
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


def _is_local(values: Mapping[str, Node], report: Report) -> bool:
    kind = values.get("kind")
    if isinstance(kind, Scalar) and kind.text == "remote":
        words = "`kind` is remote: agents that run elsewhere are not read"
        report.warning(kind, "not_an_agent", words)
        return False
    return True


def _text(values: Mapping[str, Node], key: str, report: Report) -> str | None:
    node = values.get(key)
    if node is None or (isinstance(node, Scalar) and value_of(node) is None):
        return None
    if not isinstance(node, Scalar):
        words = f"`{key}` is {shown_type(plain_value(node))} and is passed over; write a text"
        report.warning(node, "passed_over", words)
        return None
    try:
        text: str = Text().read(node.text)
    except RefusedValue as exc:
        report.warning(node, "passed_over", f"`{key}` {exc}; it is passed over")
        return None
    return text


def _model(values: Mapping[str, Node], report: Report) -> str | None:
    node = values.get("model")
    text = node.text.strip() if isinstance(node, Scalar) else ""
    if node is None or not text or text == "inherit":
        return None
    if _PROVIDED.fullmatch(text):
        return text
    report.warning(
        node,
        "model_of_the_team",
        f"the model {shown(text)} has no provider, so the team's model is used; "
        "for another one write provider:model",
    )
    return None


def _tools(
    root: nodes.Mapping, values: Mapping[str, Node], report: Report, other: str
) -> dict[str, Place]:
    """The counterparts, each with its place."""
    node = values.get("tools")
    if node is None or (isinstance(node, Scalar) and value_of(node) is None):
        report.warning(
            root,
            "no_tools",
            f"it lists no tools, which for {other} means all of them, and here none; "
            "list those it needs",
        )
        return {}
    refused = {item.text for key in _REFUSED_TOOLS for item in _items(values.get(key))}
    tools: dict[str, Place] = {}
    without: dict[str, None] = {}
    for item in _items(node):
        found = _COUNTERPARTS.get(item.text, item.text if _MCP.fullmatch(item.text) else None)
        if found is None:
            without[item.text] = None
        elif item.text not in refused:
            tools.setdefault(found, (item.line, item.column))
    if without:
        listed = ", ".join(shown(name)[1:-1] for name in list(without)[:20])
        listed += ", …" if len(without) > 20 else ""
        words = f"there is no counterpart for these tools, which are left out: {listed}"
        report.warning(node, "tools_left_out", words)
    return tools


def _items(node: Node | None) -> list[Scalar]:
    """The names in a list, in a text with commas between, or as the keys of a mapping."""
    if isinstance(node, nodes.Mapping):
        return [
            key
            for key, value in node.entries
            if isinstance(value, Scalar) and value_of(value) is True
        ]
    items = node.items if isinstance(node, nodes.Sequence) else split_names(node) if node else []
    return [item for item in items if isinstance(item, Scalar) and item.text]
