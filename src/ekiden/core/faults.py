"""Fault points: places where a test may kill or stop the process. Outside of tests, a fault point
costs one function call."""

from __future__ import annotations

import os
import signal
from typing import Literal, TypeAlias, get_args

FaultPointName: TypeAlias = Literal[
    "ask.answers.after_commit", "ask.answers.before_commit", "ask.question.after_commit",
    "ask.question.before_commit", "backup.begun", "backup.checked", "backup.moved",
    "backup.written", "code.answer.after_run", "code.intent.after_commit",
    "code.intent.before_commit", "code.tool.after_call", "code.tool.after_commit",
    "code.tool.before_call", "copy.begun", "copy.finished", "copy.page", "copy.verified",
    "copy.written", "dump.begun", "dump.checked", "dump.moved", "dump.written",
    "foreign.checkpoint.after_commit", "foreign.checkpoint.before_commit",
    "foreign.step.after_call", "foreign.step.after_commit", "foreign.step.before_call",
    "guardrail.handoff.after_call", "guardrail.handoff.before_call", "guardrail.input.after_call",
    "guardrail.input.after_commit", "guardrail.input.before_call", "guardrail.output.after_call",
    "guardrail.output.before_call", "guardrail.repair.after_commit",
    "guardrail.repair.before_commit", "guardrail.stop.after_commit", "guardrail.stop.before_commit",
    "handoff.cancel.after_commit", "handoff.cancel.before_commit",
    "handoff.compensation.after_call", "handoff.compensation.after_commit",
    "handoff.compensation.before_call", "handoff.compensation.before_commit",
    "handoff.condition.after_check", "handoff.confirmation.after_commit",
    "handoff.confirmation.before_call", "handoff.filter.after_call", "handoff.filter.before_call",
    "handoff.hooks.after_call", "handoff.hooks.before_call", "handoff.offer.after_call",
    "handoff.offer.before_call", "handoff.refused.after_commit", "handoff.refused.before_commit",
    "handoff.registration.after_commit", "handoff.registration.before_commit",
    "handoff.request.after_write", "handoff.request.before_serve", "handoff.request.before_write",
    "handoff.rollback.after_begin", "handoff.rollback.after_commit",
    "handoff.rollback.before_begin", "handoff.rollback.before_commit", "handoff.start.after_claim",
    "handoff.start.after_release", "handoff.start.before_release",
    "handoff.transferring.after_commit", "handoff.transferring.before_commit",
    "handoff.validating.after_callback", "handoff.validating.before_callback",
    "handoff.withdrawn.after_commit", "handoff.withdrawn.after_write",
    "handoff.withdrawn.before_commit", "handoff.withdrawn.before_write", "plan.answer.after_commit",
    "plan.answer.before_commit", "plan.decomposed.after_commit", "plan.decomposed.before_commit",
    "plan.result.after_commit", "plan.result.before_commit", "remote.task.after_call",
    "remote.task.before_call", "restore.begun", "restore.written", "route.assign.after_call",
    "route.assign.after_commit", "route.assign.before_call", "route.assign.before_commit",
    "run.begin.after_commit", "run.begin.before_commit", "run.finish.after_commit",
    "run.finish.before_commit", "store.postgres.after_commit", "store.postgres.before_commit",
    "store.sqlite.after_commit", "store.sqlite.before_commit", "turn.answer.after_commit",
    "turn.answer.before_commit", "turn.model.after_call", "turn.model.before_call",
    "turn.tool.after_call", "turn.tool.before_call", "turn.tools.after_commit",
    "turn.tools.after_remember", "turn.tools.before_commit",
]  # fmt: skip
"""The names of all fault points. Each name belongs to one place in the code. `docs/reliability.md`
describes the fault points."""

_countdown: dict[str, int] = {}
_signals: dict[str, signal.Signals] = {}


def _arm() -> None:
    """Read ``EKIDEN_FAULT=name[:nth[:stop]]``, which has an effect only with
    ``EKIDEN_TESTING=1``."""
    spec = os.environ.get("EKIDEN_FAULT", "")
    if not spec or os.environ.get("EKIDEN_TESTING") != "1":
        return
    name, _, visit = spec.partition(":")
    nth, _, how = visit.partition(":")
    _check(name, nth or "1", how)
    _countdown[name] = int(nth or "1")
    _signals[name] = signal.SIGSTOP if how == "stop" else signal.SIGKILL


def _check(name: str, nth: str, how: str) -> None:
    """`UserError` for a value that would arm no point: the test would seem to pass."""
    from ekiden.core.errors import UserError
    from ekiden.core.text.wording import suggestion

    if not (nth.isdecimal() and int(nth)) or how not in ("", "stop"):
        raise UserError(f"EKIDEN_FAULT is name[:nth[:stop]], with nth from 1 on, not {name}:{nth}")
    points = get_args(FaultPointName)
    if name not in points:
        raise UserError(
            f"EKIDEN_FAULT names no fault point: {name!r}{suggestion(name, points)}; there are: "
            f"{', '.join(points)}"
        )


def fault_point(name: FaultPointName) -> None:
    """If a test chose this call, kill the process with SIGKILL, or stop it until SIGCONT. A test
    chooses a call by the name of the fault point and the number of the call with this name."""
    if not _countdown:
        return
    left = _countdown.get(name)
    if left is None:
        return
    if left > 1:
        _countdown[name] = left - 1
        return
    del _countdown[name]
    os.kill(os.getpid(), _signals[name])


_arm()
