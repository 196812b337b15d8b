"""The recorded findings of guardrails.

A guardrail that passed is listed in the event of the message, answer or handoff that it checked. A
guardrail that rejected or warned gets an event of its own, which is audited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ekiden.core.dataclass import dataclass
from ekiden.core.faults import fault_point
from ekiden.core.guardrails import shown
from ekiden.core.privacy.masking import cover, masked_keys
from ekiden.runtime.state.state import RunState

if TYPE_CHECKING:
    from ekiden.core.guardrails import GuardrailFunctionOutput, Violation

Stage: TypeAlias = Literal["input", "output", "handoff"]
Result: TypeAlias = Literal["passed", "failed", "repaired", "warned"]
Behavior: TypeAlias = Literal["allow", "reject", "repair", "warn", "crashed"]

_LONGEST = 2000
"""The maximum number of recorded characters of a violation's message."""
_MOST = 200
"""The maximum number of recorded violations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailFinding:
    """The result of one guardrail, as JSON values."""

    type: Stage
    guardrail: str
    """The guardrail's name."""
    result: Result
    behavior: Behavior
    """What the runtime did because of the result."""
    violations: tuple[Violation, ...] = ()
    info: Any = None
    """The guardrail's `output_info`."""
    problem: str = ""
    """The error of a guardrail that crashed."""

    @property
    def text(self) -> str:
        """The finding as a sentence for people."""
        if self.problem:
            return self.problem
        return f"guardrail {self.guardrail!r} did not let it through{shown(self.violations)}"

    def to_json(self, *, sensitive: bool = True) -> dict[str, Any]:
        """The finding for an event. Secrets are masked. Without `sensitive`, violations and info
        are left out."""
        data: dict[str, Any] = {
            "type": self.type,
            "guardrail": self.guardrail,
            "result": self.result,
            "behavior": self.behavior,
        }
        if sensitive and self.violations:
            data["violations"] = [
                {"path": each.path, "message": cover(each.message)[:_LONGEST]}
                for each in self.violations[:_MOST]
            ]
        if sensitive and self.info is not None:
            data["info"] = masked_keys(self.info)
        return data


def decided_output(data: Mapping[str, Any]) -> GuardrailFunctionOutput:
    """The guardrail's output, from a stored finding."""
    from ekiden.core.guardrails import GuardrailFunctionOutput, Violation

    return GuardrailFunctionOutput(
        output_info=data.get("info"),
        tripwire_triggered=data["result"] in ("failed", "warned"),
        violations=tuple(
            Violation(message=each["message"], path=each["path"])
            for each in data.get("violations", ())
        ),
    )


def tell_findings(
    run: RunState, details: dict[str, Any] | None, findings: Sequence[GuardrailFinding] = ()
) -> dict[str, Any]:
    """The `details` of an event, with all findings that are not recorded yet."""
    sensitive = run.config.trace_include_sensitive_data
    checks = run.cursor.guardrails
    told = [*checks.found, *(each.to_json(sensitive=sensitive) for each in findings)]
    if checks.found:
        run.cursor.guardrails = replace(checks, found=())
    return {**(details or {}), "guardrails": told} if told else details or {}


def record_failures(
    run: RunState, findings: Sequence[GuardrailFinding], *, undoes: int | None = None
) -> None:
    """Record each failure and warning in its own event. The first event also lists the passed
    guardrails. The caller commits the events.

    `undoes` is the number of an event that later runs must not see.
    """
    passed = [each for each in findings if each.result in ("passed", "repaired")]
    for each in findings:
        if each.result in ("failed", "warned"):
            record_failure(run, each, passed, undoes=undoes)
            passed = []


async def store_stop(run: RunState) -> None:
    """Store that a guardrail ends the step."""
    fault_point("guardrail.stop.before_commit")
    await run.commit()
    fault_point("guardrail.stop.after_commit")


def record_failure(
    run: RunState,
    finding: GuardrailFinding,
    passed: Sequence[GuardrailFinding] = (),
    *,
    items: tuple[dict[str, Any], ...] = (),
    undoes: int | None = None,
) -> None:
    """Record a failure or a warning in its own event."""
    sensitive = run.config.trace_include_sensitive_data
    details = tell_findings(run, finding.to_json(sensitive=sensitive), passed)
    if undoes is not None and finding.result == "failed":
        details["undoes"] = [undoes, undoes]
    is_error = finding.result != "warned" or finding.behavior == "crashed"
    error = finding.text if is_error else None
    run.record("guardrail", items=items, details=details, error=error)
