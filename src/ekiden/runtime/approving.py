"""The door of output guardrails for answers of code, people, runners and routers."""

from __future__ import annotations

from typing import Any

from ekiden.runtime.findings import tell_findings
from ekiden.runtime.state import RunState


async def approve(
    run: RunState, output: Any, details: dict[str, Any] | None = None
) -> dict[str, Any] | None:
    """The `details` of the event with the active agent's answer, if it may be recorded.

    Nobody can be asked again: what is to be repaired is rejected. Raises
    `OutputGuardrailTripwireTriggered` or `GuardrailFailed`, which are stored then.
    """
    if run.config.output_guardrails or run.agent.output_guardrails:
        from ekiden.runtime.output_guardrails import approved

        details = tell_findings(run, details, await approved(run, output))
    elif run.cursor.found:
        details = tell_findings(run, details)
    return details
