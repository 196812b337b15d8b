"""Checks of single texts in agent files, and the report that collects all faults."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Literal, Protocol

from ekiden.agents.definition import AgentFileProblem, WrittenCondition, printable
from ekiden.core.text.names import INHERIT, MAX_NAME, full_model_name, is_slug, slug_of
from ekiden.core.text.wording import lazy_pattern

PERSON = "person:"
"""Before a role, as the target of a handoff: people instead of an agent."""

_NOT_IN_ROLES = ("Cc", "Zl", "Zp")
_MODEL = lazy_pattern(r"[^\s:]+:\S(?:.*\S)?")
_FUNCTION = lazy_pattern(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_FILTER = lazy_pattern(r"[A-Za-z_]\w*(?:\([^()]*\))?")
_PLACEHOLDER = lazy_pattern(r"\{(?:tool_name|tool_args)\}")


def target_fault(text: str) -> str | None:
    """Of whom a handoff leads to; whether there is such an agent is not known here."""
    if not text.startswith(PERSON):
        return None
    role = text.removeprefix(PERSON)
    if len(role) > MAX_NAME:
        return f"a role has at most {MAX_NAME} characters, not {len(role)}"
    if role and is_slug(role):
        return None
    slug = slug_of(role) or "support"
    return (
        "write a role of letters, digits, - and _, which begins with a letter or digit, as "
        f"{PERSON}{slug}"
    )


def peer_fault(text: str) -> str | None:
    """Of an agent that is to be asked or told something; whether there is one is not known here."""
    if text.startswith(PERSON):
        return f"people are asked with can_ask_people: [{text.removeprefix(PERSON).strip()[:40]}]"
    return None


def member_fault(text: str) -> str | None:
    """Of an agent that gets tasks of a supervisor; whether there is one is not known here."""
    if text.startswith(PERSON):
        return "tasks go to agents; an agent that asks people can be one of them"
    return None


def role_fault(text: str) -> str | None:
    """Of the role of people who are asked."""
    if text.startswith(PERSON):
        return f"write the role alone, as {text.removeprefix(PERSON).strip()[:40] or 'support'}"
    if any(unicodedata.category(each) in _NOT_IN_ROLES for each in text):
        return "a role is one line, without tabs"
    return None


def short_target_fault(text: str) -> str | None:
    """The same of a target that stands alone, without other keys."""
    if text == "*":
        return 'say what the agent must be able to do: {to: "*", capabilities: [python]}'
    return target_fault(text)


def function_fault(text: str) -> str | None:
    """Of the name of a function."""
    if _FUNCTION.fullmatch(text):
        return None
    return "name a function as module:function, such as checks.totals:is_balanced"


def model_fault(text: str) -> str | None:
    """Of the name of a model."""
    if text == INHERIT or full_model_name(text) or _MODEL.fullmatch(text):
        return None
    return "write provider:model, such as openai:gpt-5-mini, or leave it out for the team's model"


def model_of(text: str | None) -> str | None:
    """The model as ``provider:model``; `None` for the team's."""
    return None if text is None or text == INHERIT else full_model_name(text) or text


def filter_fault(text: str) -> str | None:
    """Of the name of a filter, with its argument."""
    if _FILTER.fullmatch(text):
        return None
    return "write the name of a filter, such as remove_all_tools or keep_last(20)"


def template_fault(text: str) -> str | None:
    """Of what a person is asked before a tool runs."""
    rest = _PLACEHOLDER.sub("", text)
    if "{" not in rest and "}" not in rest:
        return None
    return "only {tool_name} and {tool_args} are filled in; leave other { and } out"


MAX_PROBLEMS = 100
"""Errors, and warnings, of one file; a hostile one must not fill the screen or the memory."""
_SHOWN = 60
_MAX_MESSAGE = 600


class FilePosition(Protocol):
    """Something with a place in the file."""

    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...


class ProblemReport:
    """The problems of the file at `path`, in the order in which they are found."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[AgentFileProblem] = []
        self.front = ""
        """The front matter, once it is found."""
        self.conditions: list[WrittenCondition] = []
        """Those of the file that are texts; what they say is not looked at here."""
        self._count = {"error": 0, "warning": 0}

    @property
    def failed(self) -> bool:
        """Whether there is an error among them."""
        return self._count["error"] > 0

    def error(self, place: FilePosition | None, code: str, message: str) -> None:
        """Add something that keeps the file from being used; without a place, the first line."""
        self._add(place, code, message, "error")

    def warning(self, place: FilePosition | None, code: str, message: str) -> None:
        """Add something that a person should know."""
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
    """The text in quotes, shortened, and safe for a terminal."""
    return printable(repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…"))
