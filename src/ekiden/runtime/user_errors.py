"""Exceptions in the user's code that do not end the run: nobody else would see them.

Each is logged with its traceback, is an event of the run, and so in its trace, and stands in
`RunResult.warnings`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ekiden.core.errors import EkidenError, UserError
from ekiden.core.events import Event
from ekiden.runtime.finish import describe
from ekiden.runtime.state import RunState

_log = logging.getLogger("ekiden.runtime")

WARNING = "warning"
"""In an event's details: the code that raised, or what was wrong with what it gave."""


def is_bug(exc: BaseException) -> bool:
    """Whether the user's code raised it: nothing that the runtime expects."""
    return not isinstance(exc, EkidenError) or isinstance(exc, UserError)


def log_error(run: RunState, where: str, exc: BaseException) -> None:
    """Log an exception of the user's code with its traceback."""
    _log.error("%s failed in session %s", where, run.session_id, exc_info=exc)


def warn(run: RunState, where: str, problem: BaseException | str) -> None:
    """Log what went wrong in the user's code, and record it; the caller commits it."""
    if isinstance(problem, str):
        _log.warning("%s in session %s: %s", where, run.session_id, problem)
        text = problem
    else:
        log_error(run, where, problem)
        text = describe(problem)
    run.record("message", details={WARNING: where}, error=text)


def warnings_of(events: Iterable[Event]) -> list[str]:
    """What went wrong in the user's code and did not end the run."""
    return [f"{where}: {event.error}" for event in events if (where := _where(event)) is not None]


def _where(event: Event) -> str | None:
    details = event.details or {}
    if event.error is None:
        return None
    if WARNING in details:
        return str(details[WARNING])
    if event.type == "handoff" and details.get("rollback_failed"):
        return f"compensation {details.get('compensation')!r}"
    if event.type == "handoff" and details.get("code") in ("SOURCE_FAILED", "TARGET_FAILED"):
        return f"handoff to {details.get('to')!r}"
    if event.type == "guardrail" and details.get("behavior") == "crashed":
        return f"guardrail {details.get('guardrail')!r}"
    return None
