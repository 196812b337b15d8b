"""Errors of guardrails: something was not let through, or could not be checked.

GuardrailError
├── GuardrailFailed
├── InputGuardrailTripwireTriggered
├── OutputGuardrailTripwireTriggered
├── HandoffGuardrailTripwireTriggered
├── ToolInputGuardrailTripwireTriggered
└── ToolOutputGuardrailTripwireTriggered
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ekiden.core.errors import EkidenError

if TYPE_CHECKING:
    from ekiden.core.guardrails import Violation

_LISTED = 20
"""So many violations are listed in a message."""
_LONGEST_PATH = 200
"""Characters of a path that others are told."""


class GuardrailError(EkidenError):
    """A guardrail ended the run; what was done before is kept."""

    code = "guardrail.error"
    violations: tuple[Violation, ...] = ()
    """Everything that is wrong, each with its path."""
    outside = "a guardrail did not let it through"
    """What other agents are told: who said no and where something is wrong, and no values."""


class GuardrailFailed(GuardrailError):
    """A guardrail could not decide: it raised, gave nothing usable, or took too long.

    What cannot be checked is not let through; `__cause__` is what went wrong.
    """

    code = "guardrail.failed"

    def __init__(
        self, guardrail: str, tool: str, problem: str, *, stage: str, agent: str = ""
    ) -> None:
        whose = f"agent {agent!r}" if agent else f"tool {tool!r}"
        what = f"the {stage}" if agent else f"the call's {stage}"
        self.outside = (
            f"guardrail {guardrail!r} of {whose} could not decide on {what}, which is as good as "
            "a no"
        )
        super().__init__(f"{self.outside}: {problem}; correct the guardrail and resume the session")
        self.guardrail, self.tool, self.agent, self.stage = guardrail, tool, agent, stage


class InputGuardrailTripwireTriggered(GuardrailError):
    """A guardrail did not want an agent to work on what it was given.

    `guardrail_result.output` is what it found.
    """

    code = "guardrail.input"

    def __init__(
        self, guardrail_result: Any, *, agent: str = "", violations: Sequence[Violation] = ()
    ) -> None:
        name = guardrail_result.guardrail.get_name()
        self.violations = tuple(violations) or guardrail_result.output.violations
        who = f"what agent {agent!r} was given" if agent else "the input"
        said = f"guardrail {name!r} did not let through {who}"
        self.outside = f"{said}{_places(self.violations)}"
        super().__init__(f"{said}{shown(self.violations)}; start again with another request")
        self.guardrail_result = guardrail_result


class OutputGuardrailTripwireTriggered(GuardrailError):
    """A guardrail did not want an agent's answer to be seen; nobody was given it.

    `guardrail_result` has the answer and what the guardrail found; `violations` are those of all
    guardrails that the answer fails.
    """

    code = "guardrail.output"

    def __init__(self, guardrail_result: Any, *, violations: Sequence[Violation] = ()) -> None:
        name = guardrail_result.guardrail.get_name()
        who = getattr(guardrail_result.agent, "name", "")
        self.violations = tuple(violations) or guardrail_result.output.violations
        said = f"guardrail {name!r} did not let through the answer of agent {who!r}"
        self.outside = f"{said}{_places(self.violations)}"
        super().__init__(
            f"{said}{shown(self.violations)}; resume the session to have it answer anew, or give "
            "the guardrail on_failure='repair' to have its model told what is wrong"
        )
        self.guardrail_result = guardrail_result


class HandoffGuardrailTripwireTriggered(GuardrailError):
    """A guardrail ended the run because of what a handoff would have passed on; it was not made.

    `guardrail_result` has the request and what the guardrail found; `violations` are those of all
    guardrails that the handoff fails.
    """

    code = "guardrail.handoff"

    def __init__(self, guardrail_result: Any, *, violations: Sequence[Violation] = ()) -> None:
        name, request = guardrail_result.guardrail.get_name(), guardrail_result.request
        self.violations = tuple(violations) or guardrail_result.output.violations
        said = (
            f"guardrail {name!r} did not let through what {request.source!r} passes on to "
            f"{request.target!r}"
        )
        self.outside = f"{said}{_places(self.violations)}"
        super().__init__(
            f"{said}{shown(self.violations)}; give the guardrail on_failure='repair' to have the "
            "model told instead"
        )
        self.guardrail_result = guardrail_result


class ToolInputGuardrailTripwireTriggered(GuardrailError):
    """A guardrail ended the run because of a tool call, which was not made."""

    code = "guardrail.tool_input"

    def __init__(self, guardrail: Any, output: Any, *, tool: str = "") -> None:
        name = f" {tool!r}" if tool else ""
        super().__init__(
            f"{type(guardrail).__name__} {guardrail.get_name()!r} ended the run before the "
            f"tool{name} was run; `output.output_info` says what it found: start again with "
            "another request, or let the guardrail use reject_content to tell the model instead"
        )
        self.outside = f"guardrail {guardrail.get_name()!r} did not let the tool{name} be run"
        self.guardrail, self.output, self.tool = guardrail, output, tool


class ToolOutputGuardrailTripwireTriggered(GuardrailError):
    """A guardrail ended the run because of what a tool gave; the tool has had its effect."""

    code = "guardrail.tool_output"

    def __init__(self, guardrail: Any, output: Any, *, tool: str = "") -> None:
        name = f" {tool!r}" if tool else ""
        super().__init__(
            f"{type(guardrail).__name__} {guardrail.get_name()!r} ended the run because of what "
            f"the tool{name} gave, which nobody was shown; `output.output_info` says what it "
            "found: start again with another request, or let the guardrail use reject_content to "
            "tell the model instead"
        )
        self.outside = f"guardrail {guardrail.get_name()!r} withheld what the tool{name} gave"
        self.guardrail, self.output, self.tool = guardrail, output, tool


def _places(violations: Sequence[Violation]) -> str:
    """Where something is wrong, and not what."""
    paths = list(dict.fromkeys(each.path[:_LONGEST_PATH] for each in violations if each.path))
    if not paths:
        return ""
    more = [f"{len(paths) - _LISTED} more places"] if len(paths) > _LISTED else []
    return f" (at {', '.join([*paths[:_LISTED], *more])})"


def shown(violations: Sequence[Violation]) -> str:
    """Violations at the end of half a sentence; empty if there are none."""
    if not violations:
        return ""
    listed = [str(each) for each in violations[:_LISTED]]
    if len(violations) > _LISTED:
        listed.append(f"and {len(violations) - _LISTED} more")
    return f": {'; '.join(listed)}"
