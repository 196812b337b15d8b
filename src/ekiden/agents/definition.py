"""The definition of an agent, as its file gives it, and the problems of agent files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from ekiden.core.conversation.model import ModelSettings
from ekiden.core.dataclass import dataclass
from ekiden.core.handoffs import (
    DEFAULT_TIMEOUT_S,
    Completion,
    HandoffTrigger,
    HandoffWhen,
    PolicyName,
)
from ekiden.core.profile import (
    Budget,
    Capability,
    Confirmation,
    MemoryKind,
    MemoryScope,
    Scope,
    Triggers,
)

FIRST_LINE = 2
"""The number of the line where the front matter begins, after the line ``---``."""

PERSON = "person:"
"""The prefix of a handoff target that is a role of people, not an agent."""


def printable(text: str) -> str:
    """The text with unprintable characters escaped, so that a terminal or a log can show it
    safely."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


Place: TypeAlias = tuple[int, int]
"""A line and a column in a file, both counted from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCondition:
    """An unparsed condition in a file."""

    at: str
    """The key of the condition, such as ``handoffs[0].condition``."""
    text: str
    line: int
    column: int
    front: str = field(default="", compare=False, repr=False)
    """The front matter that contains the condition."""

    def place(self, position: int) -> Place:
        """The place in the file of the character at `position` of `text`.

        If the file writes the text with escapes, this is the place where the text begins.
        """
        rows = self.front.split("\n")[self.line - FIRST_LINE :]
        rest = "\n".join(rows)[self.column - 1 :]
        found = _found(rest, self.text, position)
        if found is None:
            return self.line, self.column
        before = rest[:found]
        if "\n" not in before:
            return self.line, self.column + found
        return self.line + before.count("\n"), found - before.rfind("\n")


def _found(rest: str, text: str, position: int) -> int | None:
    """The index in `rest` of the character at `position` of `text`; `None` if it is unclear.

    `rest` has the text as YAML writes it: spaces and line breaks can differ, and quoted texts have
    quotes and backslashes.
    """
    quote = rest[:1] if rest[:1] in ("'", '"') else ""
    at = rest.find("\n") + 1 if rest[:1] in ("|", ">") else len(quote)
    passed = {"'": "'", '"': '\\"', "": ""}[quote]
    end = None
    for index, sign in enumerate(text):
        if sign.isspace():
            continue
        while at < len(rest) and rest[at] != sign:
            if not rest[at].isspace() and rest[at] not in passed:
                return None
            at += 1
        if at == len(rest):
            return None
        if index >= position:
            return at
        at += 1
        end = at
    return end


Origin: TypeAlias = Literal["ekiden", "claude", "gemini", "agents"]
"""The tool that a file was written for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffDefinition:
    """One entry of `handoffs`."""

    to: str
    """An agent's name, ``*`` for the agent that best matches `capabilities`, or ``person:``
    followed by a role."""
    when: HandoffWhen = "manual"
    description: str | None = None
    include_context: bool = True
    policy: PolicyName = "graceful"
    condition: str | None = None
    """The condition of the handoff. The default is the condition of the trigger."""
    trigger: HandoffTrigger | None = None
    """The trigger that starts the handoff. A condition that only controls whether the model sees
    the handoff is not a trigger."""
    allow_return: bool | Literal["always"] = False
    capabilities: tuple[str, ...] = ()
    confirm: Confirmation | None = None
    """If set, the handoff needs human approval. Without a template in the file, the question is the
    default question for handoffs."""
    timeout_s: float = DEFAULT_TIMEOUT_S
    restrict_tools: bool = False
    budget: Budget | None = None
    completes: Completion = "answer"
    filters: tuple[str, ...] = ()
    """The names of built-in filters. A name can have an argument, as in ``keep_last(20)``."""
    line: int = 1
    column: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """An agent that a file refers to, and the place of the reference."""

    name: str
    line: int = 1
    column: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailDefinition:
    """The section `guardrails` of an agent file. A function is named ``module:function``."""

    output_schema: Mapping[str, Any] | None = None
    custom_validator: str | None = None
    on_failure: Literal["reject", "repair", "warn"] = "reject"
    input_validator: str | None = None
    handoff_validator: str | None = None
    tool_input_validator: str | None = None
    tool_output_validator: str | None = None
    places: Mapping[str, Place] = field(default_factory=dict, compare=False)
    """The place of each value in the file. The keys are JSON Pointers, such as
    ``/output_schema/type``."""

    @property
    def functions(self) -> list[str]:
        """The functions that the section names as validators."""
        named = (
            self.custom_validator,
            self.input_validator,
            self.handoff_validator,
            self.tool_input_validator,
            self.tool_output_validator,
        )
        return [each for each in named if each is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDefinition:
    """The section `memory` of an agent file."""

    enabled: bool = False
    type: MemoryKind = "key_value"
    backend: str | None = None
    scope: MemoryScope = "user"
    top_k: int | None = None
    """The maximum number of recalled memories. `None` means the value in the settings."""
    threshold: float | None = None
    """The lowest similarity of a result. `None` means the value in the settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorDefinition:
    """The section `supervisor` of an agent file, which makes the agent split requests among other
    agents."""

    agents: tuple[Peer, ...] | None = None
    """The agents that get tasks. `None` means all agents of the project except supervisors."""
    fallback: Peer | None = None
    """The agent for tasks that no other agent can do. `None` means the last of `agents`."""
    concurrency: int = 8
    timeout_s: float = 60.0
    retries: int = 1
    backoff_s: float = 0.5
    max_tasks: int = 20
    budget: Budget | None = None
    line: int = 1
    column: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteDefinition:
    """The section `a2a` of an agent file, which describes a remote agent that Ekiden calls over
    A2A."""

    card: str
    token_env: str | None = None
    header: str | None = None
    """The header for the token. `None` means the header `Authorization` with the scheme
    `Bearer`."""
    timeout_s: float = 300.0
    line: int = 1
    column: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDefinition:
    """The content of an agent file."""

    name: str
    instructions: str
    path: Path
    origin: Origin = "ekiden"
    title: str | None = None
    description: str | None = None
    handoff_description: str | None = None
    model: str | None = None
    model_settings: ModelSettings | None = None
    scope: Scope = "project"
    tools: tuple[str, ...] = ()
    """The tools that the agent may use: `tools.allow` in the file."""
    tool_places: Mapping[str, Place] = field(default_factory=dict)
    """The place of each allowed tool in the file."""
    require_confirmation: tuple[str, ...] = ()
    confirmation_places: Mapping[str, Place] = field(default_factory=dict)
    """The place of each entry of `require_confirmation` in the file."""
    confirmation: Confirmation | None = None
    """The question template and the timeout of approvals. `None` means the defaults."""
    triggers: Triggers = field(default_factory=Triggers)
    capabilities: tuple[Capability, ...] = ()
    available: bool = True
    max_sessions: int | None = None
    budget: Budget | None = None
    runs_on: frozenset[str] = frozenset()
    handoffs: tuple[HandoffDefinition, ...] = ()
    can_ask: tuple[Peer, ...] = ()
    can_tell: tuple[Peer, ...] = ()
    can_ask_people: tuple[str, ...] = ()
    """The roles of people that the agent may ask. `DEFAULT_ROLE` means the role in the settings."""
    conditions: tuple[WrittenCondition, ...] = ()
    """All conditions in the file, including conditions of invalid handoffs."""
    guardrails: GuardrailDefinition | None = None
    memory: MemoryDefinition | None = None
    supervisor: SupervisorDefinition | None = None
    a2a: RemoteDefinition | None = None
    line: int = 1
    """The line of the name in the file."""
    column: int = 1


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class AgentFileProblem:
    """An error in an agent file or a warning, with its position.

    For example::

        for problem in load_project(keep_going=True).problems:
            print(problem.path, problem.line, problem.code, problem.message)
    """

    path: Path
    line: int
    """The line number, counted from 1."""
    column: int
    """The position in the line in characters, counted from 1."""
    code: str
    """A stable code, such as `agent.unknown_key` or `agent.wrong_type`."""
    message: str
    """A text that describes the error and suggests a correction."""
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        place = f"{printable(str(self.path))}:{self.line}:{self.column}"
        return f"{place}: {self.severity}[{self.code}]: {self.message}"

    def to_json(self) -> dict[str, Any]:
        """The problem as JSON, as `ekiden agents validate --json` prints it."""
        return {
            "path": printable(str(self.path)),
            "line": self.line,
            "column": self.column,
            "code": self.code,
            "message": self.message,
            "severity": self.severity,
        }


MAX_PROBLEMS = 100
"""The maximum number of errors, and also of warnings, that are reported for one file. The limit
keeps a hostile file from filling the screen or the memory."""
_SHOWN = 60
"""Maximum length of a quoted text, in characters."""
_MAX_MESSAGE = 600


class FilePosition(Protocol):
    """An object with a position in the file."""

    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...


class ProblemReport:
    """Collects the problems of the file at `path`, in the order in which they are found."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[AgentFileProblem] = []
        self.front = ""
        """The front matter; empty until it is found."""
        self.conditions: list[WrittenCondition] = []
        """The unparsed conditions of the file."""
        self._count = {"error": 0, "warning": 0}

    @property
    def failed(self) -> bool:
        """Whether the file has an error."""
        return self._count["error"] > 0

    def error(self, place: FilePosition | None, code: str, message: str) -> None:
        """Add an error, which makes the file unusable. Without a place, the error is reported for
        line 1."""
        self._add(place, code, message, "error")

    def warning(self, place: FilePosition | None, code: str, message: str) -> None:
        """Add a warning. A file with warnings can be used."""
        self._add(place, code, message, "warning")

    def _add(
        self,
        place: FilePosition | None,
        code: str,
        message: str,
        severity: Literal["error", "warning"],
    ) -> None:
        self._count[severity] += 1
        if self._count[severity] > MAX_PROBLEMS:
            return
        self.problems.append(
            AgentFileProblem(
                path=self.path,
                line=place.line if place else 1,
                column=place.column if place else 1,
                code=f"agent.{code}",
                message=printable(message[:_MAX_MESSAGE]),
                severity=severity,
            )
        )


def shown(text: str) -> str:
    """The text in quotes, shortened, and escaped so that a terminal can show it safely."""
    return printable(repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…"))
