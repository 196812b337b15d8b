"""Enforces the keys of other tools' files that restrict an agent. If a key cannot be enforced, the
file is refused.

Case, ``-`` and ``_`` in the name of a key are ignored. An unknown key whose name looks like a
restriction is an error, because an agent must never be able to do more than its file allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from fnmatch import fnmatchcase
from typing import Any

from ekiden.agents import yaml_nodes as nodes
from ekiden.agents.definition import GuardrailDefinition, Place, ProblemReport, shown
from ekiden.agents.keys.objects import BUDGET, CONFIRMATION, budget_of, confirmation_of, split_names
from ekiden.agents.keys.sections import GUARDRAILS, guardrail_definition
from ekiden.agents.yaml_nodes import Node, Scalar, value_of
from ekiden.core.dataclass import dataclass
from ekiden.core.profile import Budget, Confirmation
from ekiden.core.text.wording import READ_ONLY_TOOLS, builtin_name, lazy_pattern, plain_key

ALL = "*"
_EDITS = frozenset({"edit_file", "write_file"})

_DENY = lazy_pattern(
    r"(?:tools?)?(?:disallow(?:ed)?|den(?:y|ied)|excluded?|forbid(?:den)?|block(?:ed)?|blacklist|denylist"
    r"|disabled)(?:tools?)?"
)
_ASK = lazy_pattern(
    r"(?:tools?|human|manual|user)?(?:requires?d?|needs?|ask)?"
    r"(?:confirm(?:ation)?s?|approvals?|permission)(?:required|mode|policy|for|tools?|before)*"
)
_PERMISSIONS = lazy_pattern(r"(?:tools?)?permissions?")
_READ_ONLY = lazy_pattern(r"(?:is)?readonly|sandbox(?:mode)?")
_RESTRICTS = lazy_pattern(
    r"guard|confirm|approv|permission|permit|den(?:y|ied)|disallow|forbid|block|exclu|restrict|sandbox"
    r"|readonly|isolat|safe|polic(?:y|ies)|whitelist|blacklist|allow|hook|budget|limit|human|consent"
    r"|veto|disable|network|internet|trust|^ask|^no(?:write|edit|shell|exec)|review(?:required|before)"
    r"|requires?review|timeout|maxcost|maxtime|maxduration"
)
"""Words in the names of keys that may restrict an agent."""
_NONE = frozenset(
    {"", "false", "no", "none", "never", "off", "yolo", "auto", "dangerfullaccess", "fullauto"}
    | {"bypass", "bypasspermissions", "allow", "allowall", "full", "disabled", "0"}
)
"""Values that restrict nothing. They do not extend the allowed tools either."""
_EACH = frozenset(
    {"true", "yes", "on", "always", "ask", "all", "required", "default", "manual", "prompt"}
    | {"untrusted", "onrequest", "onfailure", "suggest", "1"}
)
_NOT_EDITS = frozenset({"acceptedits", "autoedit"})
_READS = frozenset({"plan", "readonly", "dontask", "deny"})
"""`dontAsk` refuses everything that needs approval."""
_BLOCKING_HOOK = lazy_pattern(r"pre|before|permission|submit")
_SECONDS = {"timeoutmins": 60.0, "timeoutminutes": 60.0, "timeoutseconds": 1.0, "timeouts": 1.0}


def restricts(key: str) -> bool:
    """Whether the name of the key suggests that the key restricts an agent."""
    return _RESTRICTS.search(plain_key(key)) is not None


@dataclass(slots=True)
class Restrictions:
    """The restrictions of an agent, collected from the keys of its file."""

    report: ProblemReport
    denied: list[str] = field(default_factory=list)
    """The forbidden tools, as names or patterns with ``*``. Built-in tools have their names in
    Ekiden."""
    asking: list[str] = field(default_factory=list)
    """The tools that need approval, in the same form as `denied`."""
    reads_only: bool = False
    asks_unless_edit: bool = False
    confirmation: Confirmation | None = None
    guardrails: GuardrailDefinition | None = None
    budget: Budget | None = None

    def take(self, key: Scalar, node: Node) -> None:
        """Add the restriction of a key, or report an error if it cannot be enforced."""
        plain = plain_key(key.text)
        if plain == "guardrails":
            self._take_guardrails(node)
        elif plain in ("hooks", "hook"):
            self._take_hooks(key, node)
        elif is_nothing(node):
            return
        elif _DENY.fullmatch(plain):
            self.deny(key, node)
        elif _PERMISSIONS.fullmatch(plain):
            self._take_permissions(key, node)
        elif _ASK.fullmatch(plain):
            self.ask(key, node)
        elif _READ_ONLY.fullmatch(plain):
            self._take_mode(key, node, true="readonly")
        elif plain == "mode":
            if _word(node) in _READS | _NOT_EDITS:
                self._take_mode(key, node)
        elif plain in _SECONDS or plain == "budget":
            self._take_budget(key, node, plain)
        elif restricts(plain):
            self.refuse(key)
        else:
            self._refuse_inner(node)

    def deny(self, key: Scalar, node: Node) -> None:
        """Add a list of forbidden tools."""
        names = listed(node)
        if names is None:
            self.refuse(key)
            return
        for name in names:
            self.denied.append(tool_name(name.text))
            if "(" in name.text:
                words = f"{shown(name.text)} is refused as a whole: only tools can be, not calls"
                self.report.warning(name, "tools_left_out", words)

    def ask(self, key: Scalar, node: Node) -> None:
        """Add the tools that need approval. The value is a list of tools, or a word for a mode."""
        if isinstance(node, nodes.Mapping):
            if all(CONFIRMATION.has(inner.text) for inner, _ in node.entries):
                self._take_confirmation(node, key.text)
            else:
                self._take_permissions(key, node)
        elif isinstance(node, Scalar) and _word(node) in _EACH | _NONE | _NOT_EDITS | _READS:
            self._take_mode(key, node)
        else:
            names = listed(node)
            known = [tool_name(each.text) for each in names or ()]
            if not names or not all(map(_is_tool, known)):
                self.refuse(key)
            self.asking += known

    def refuse(self, key: Scalar) -> None:
        """Report that a key cannot be enforced. The file is then not used."""
        self.report.error(
            key,
            "unsafe_key",
            f"`{key.text[:60]}` restricts the agent but cannot be enforced like this, so the "
            "file is not used; remove it, or write the same with `tools`, `disallowedTools`, "
            "`require_confirmation` or `guardrails`",
        )

    def applied(self, tools: Mapping[str, Place]) -> dict[str, Place]:
        """The tools in `tools` that are not forbidden."""
        return {
            name: place
            for name, place in tools.items()
            if not (self.reads_only and name not in READ_ONLY_TOOLS)
            and not _matches(name, self.denied)
        }

    def asked(self, tools: Iterable[str]) -> tuple[str, ...]:
        """The tools that need approval."""
        return tuple(
            name
            for name in tools
            if _matches(name, self.asking)
            or (self.asks_unless_edit and name not in _EDITS | READ_ONLY_TOOLS)
        )

    def _take_mode(self, key: Scalar, node: Node, *, true: str = "always") -> None:
        word = _word(node)
        word = true if word == "true" else word
        if word in _READS:
            self.reads_only = True
        elif word in _NOT_EDITS:
            self.asks_unless_edit = True
        elif word in _EACH and true == "always":
            self.asking.append(ALL)
        elif word not in _NONE:
            self.refuse(key)

    def _take_permissions(self, key: Scalar, node: Node) -> None:
        """A mapping of tools to ``allow``, ``ask`` and ``deny``, or of these to tools."""
        if isinstance(node, Scalar):
            self._take_mode(key, node)
            return
        if not isinstance(node, nodes.Mapping):
            self.refuse(key)
            return
        for inner, value in node.entries:
            word, plain = _strictest(value), plain_key(inner.text)
            if plain in ("allow", "allowed") and listed(value) is not None:
                continue  # Tools without approval. It does not add to the allowed tools.
            if _DENY.fullmatch(plain):
                self.deny(inner, value)
            elif plain == "ask" or _ASK.fullmatch(plain):
                self.ask(inner, value)
            elif plain in ("mode", "defaultmode"):
                self._take_mode(inner, value)
            elif word in ("deny", "false"):
                self.denied += _permitted(inner.text)
            elif word in ("ask", "prompt"):
                self.asking += _permitted(inner.text)
            elif word not in ("allow", "true"):
                self.refuse(inner)

    def _take_confirmation(self, node: nodes.Mapping, at: str) -> None:
        values: Any = CONFIRMATION.read(node, at, self.report)
        if not isinstance(values, dict):
            return
        if "require_confirmation" in values:
            names: list[Node] = [
                Scalar(name, False, line, column)
                for name, line, column in values["require_confirmation"]
            ]
            self.ask(Scalar(at, True, node.line, node.column), nodes.Sequence(names, 1, 1))
        if values.keys() - {"require_confirmation"}:
            self.confirmation = confirmation_of(values)

    def _take_guardrails(self, node: Node) -> None:
        values: Any = GUARDRAILS.read(node, "guardrails", self.report)
        if isinstance(values, dict):
            self.guardrails = guardrail_definition(node, values)

    def _take_hooks(self, key: Scalar, node: Node) -> None:
        """Refuse hooks that can block a call; other hooks only observe and are ignored."""
        if is_nothing(node):
            return
        events = node.entries if isinstance(node, nodes.Mapping) else [(key, node)]
        for event, value in events:
            if is_nothing(value):
                continue
            if not isinstance(node, nodes.Mapping) or _BLOCKING_HOOK.search(plain_key(event.text)):
                self.refuse(event)
            else:
                words = f"the hook `{event.text[:60]}` is ignored"
                self.report.warning(event, "passed_over", words)

    def _take_budget(self, key: Scalar, node: Node, plain: str) -> None:
        if plain == "budget":
            values: Any = BUDGET.read(node, key.text, self.report)
            self.budget = budget_of(values if isinstance(values, dict) else None) or self.budget
            return
        value = value_of(node) if isinstance(node, Scalar) else None
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            self.budget = Budget(seconds=value * _SECONDS[plain])
        else:
            self.refuse(key)

    def _refuse_inner(self, node: Node) -> None:
        """Refuse restrictions inside a key that is not one itself."""
        if isinstance(node, nodes.Sequence):
            for item in node.items:
                self._refuse_inner(item)
        elif isinstance(node, nodes.Mapping):
            for key, value in node.entries:
                if restricts(key.text) and not is_nothing(value):
                    self.refuse(key)
                else:
                    self._refuse_inner(value)


def listed(node: Node) -> list[Scalar] | None:
    """The names in a list or in a text with commas, or the keys of a mapping that have the value
    true. The result is `None` for any other node."""
    if isinstance(node, nodes.Mapping):
        flags = [(key, value_of(each)) for key, each in node.entries if isinstance(each, Scalar)]
        if len(flags) < len(node.entries) or not all(isinstance(on, bool) for _, on in flags):
            return None
        return [key for key, on in flags if on]
    if isinstance(node, Scalar):
        if not isinstance(value_of(node), str | None):
            return None
        text = replace(node, text=node.text.strip().removeprefix("[").removesuffix("]"))
        return [each for each in split_names(text) if isinstance(each, Scalar)]
    if not all(isinstance(item, Scalar) for item in node.items):
        return None
    return [item for item in node.items if isinstance(item, Scalar) and item.text]


def tool_name(text: str) -> str:
    """Ekiden's name for a tool, without the part in brackets."""
    name = text.partition("(")[0].strip().strip("'\"")
    return builtin_name(name) or name


def _is_tool(name: str) -> bool:
    """Whether a tool is known. A misspelt tool would run without approval."""
    return name == ALL or builtin_name(name) is not None or name.startswith(("mcp:", "mcp_"))


def is_nothing(node: Node) -> bool:
    """Whether a value restricts nothing, because it is empty or false."""
    if isinstance(node, Scalar):
        return value_of(node) in (None, False) or not node.text.strip()
    return not (node.items if isinstance(node, nodes.Sequence) else node.entries)


def _word(node: Node) -> str:
    return plain_key(node.text) if isinstance(node, Scalar) else ""


def _strictest(node: Node) -> str:
    """The word of a permission, or the strictest word if it differs between calls."""
    if isinstance(node, nodes.Mapping) and node.entries:
        words = {_strictest(value) for _, value in node.entries}
        order = ("deny", "false", "ask", "prompt", "allow", "true")
        return next((word for word in order if word in words and words <= {*order}), "")
    return _word(node)


def _permitted(name: str) -> list[str]:
    """The tools of a permission; permission to edit includes writing."""
    tool = tool_name(name)
    return sorted(_EDITS) if tool in _EDITS else [tool]


def _matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern matches the tool, or a tool of the MCP server with this name."""
    tool = _plain_server("shell" if name.startswith("shell(") else name)
    return any(
        fnmatchcase(tool, pattern)
        or tool.startswith(f"{pattern.rstrip('_*')}__")
        or (tool.startswith("mcp__") and pattern.startswith(f"{tool.rstrip('_*')}__"))
        for pattern in map(_plain_server, patterns)
    )


def _plain_server(name: str) -> str:
    return name.replace("mcp:", "mcp__", 1).replace("/", "__")
