"""What guardrails of agents found, as it is recorded.

Those that let something through stand in the event that it led to. One that did not, or only with a
warning, has an event of its own, which is part of the audit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
"""So many characters of a violation's message are recorded."""
_MOST = 200
"""So many violations are recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailFinding:
    """What one guardrail found: all of it is JSON."""

    type: Stage
    guardrail: str
    """The guardrail's name."""
    result: Result
    behavior: Behavior
    """What came of it."""
    violations: tuple[Violation, ...] = ()
    info: Any = None
    """Its `output_info`."""
    problem: str = ""
    """What went wrong, if it could not decide."""

    @property
    def text(self) -> str:
        """For people."""
        if self.problem:
            return self.problem
        return f"guardrail {self.guardrail!r} did not let it through{shown(self.violations)}"

    def to_json(self, *, sensitive: bool = True) -> dict[str, Any]:
        """For an event: keys are covered, and what may be secret is left out if not `sensitive`."""
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
    """A finding as the guardrail gave it, but for what is not JSON."""
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
    """`details` of an event that also tells what guardrails found that no event told before."""
    sensitive = run.config.trace_include_sensitive_data
    told = [*run.cursor.guardrails.found, *(each.to_json(sensitive=sensitive) for each in findings)]
    run.cursor.guardrails.found = []
    return {**(details or {}), "guardrails": told} if told else details or {}


def record_failures(
    run: RunState, findings: Sequence[GuardrailFinding], *, undoes: int | None = None
) -> None:
    """Record those that let nothing through, each with those that did as far as none told of them.

    `undoes` is the number of the event that no later run is to see. The caller commits it.
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
    """Record one that did not let something through, or only with a warning."""
    sensitive = run.config.trace_include_sensitive_data
    details = tell_findings(run, finding.to_json(sensitive=sensitive), passed)
    if undoes is not None and finding.result == "failed":
        details["undoes"] = [undoes, undoes]
    is_told = finding.result != "warned" or finding.behavior == "crashed"
    error = finding.text if is_told else None
    run.record("guardrail", items=items, details=details, error=error)
