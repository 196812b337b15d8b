"""Sending a trace to an OpenTelemetry collector, for `ekiden trace --otlp`."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING

from ekiden.cli.exits import Exit
from ekiden.cli.output import complain, emit, note, say

if TYPE_CHECKING:
    from ekiden.tracing import Trace
    from ekiden.tracing.otel import OtlpReport

NOT_SENT = "cli.not_sent"


async def send_trace(
    trace: Trace, endpoint: str | None, *, content: bool | None, as_json: bool
) -> int:
    """Send it and tell what came of that; the exit code."""
    from ekiden.tracing.otel import export_otlp

    report = await asyncio.to_thread(export_otlp, trace.spans, endpoint, content=content)
    if as_json:
        emit({"trace_id": trace.trace_id, **asdict(report)})
    else:
        _tell(trace.trace_id, report)
    if report.problem is not None:
        complain(NOT_SENT, f"{report.problem}; send it again later", as_json=as_json)
        return Exit.FAILED
    return Exit.OK


def _tell(trace_id: str, report: OtlpReport) -> None:
    if report.is_disabled:
        note("OTEL_SDK_DISABLED is set: nothing was sent")
        return
    say(f"trace {trace_id}: {report.sent} spans sent")
    if report.open:
        note(f"{report.open} spans have not ended: send it again when they have")
    if report.refused:
        note(f"{report.refused} spans were refused by the collector")
