"""Shows a running session in the terminal, its outcome, and handoffs that a person requests."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, assert_never

from ekiden.api.handoffs import CancelledHandoff, HandoffEnd
from ekiden.cli.errors import Exit, Interrupted, exit_for_outcome, exit_for_refusal
from ekiden.cli.output import complain, emit, note, safe, say, show
from ekiden.cli.transcript import is_news, route_line, task_line, transcript
from ekiden.cli.views.inbox import question_record, tell_questions
from ekiden.core.conversation.model import ModelDelta, text_of
from ekiden.core.documents import to_json
from ekiden.core.errors import HandoffSettled, NoRoute, OutOfBudgetError, UnknownAgent
from ekiden.core.events import Event
from ekiden.core.handoffs import DEFAULT_TIMEOUT_S
from ekiden.core.roles import Approver
from ekiden.core.runs import Done, Failed, Outcome, OutOfBudget, Refused, Waiting
from ekiden.core.values import dumps
from ekiden.handoff.query import HandoffQuery, open_requests
from ekiden.handoff.records import records_of
from ekiden.runtime import RunConfig, RunResult, RunResultStreaming
from ekiden.storage.base import SessionRow, Store

if TYPE_CHECKING:
    from ekiden.cli.options import LimitFlags
    from ekiden.cli.prompts import ApproveWhere
    from ekiden.core.questions import InboxItem
    from ekiden.project.settings import Settings


class Reported(Protocol):
    """The result of a run, locally or at a server."""

    @property
    def session_id(self) -> str: ...

    @property
    def outcome(self) -> Outcome: ...

    @property
    def chain(self) -> Sequence[str]: ...

    def to_json(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        ...


@dataclass(slots=True, kw_only=True)
class RunView:
    """Shows the chosen agent and the result of a run; with `stream` all its events."""

    as_json: bool
    stream: bool
    how_to_resume: str
    """The command that resumes the session; empty if nothing is stored."""
    store_words: Sequence[str] = ()
    """The option that names the store, if other commands need it."""
    begun: bool = False
    """Whether anything is stored."""
    seen: bool = False
    """Whether any event of the run was seen."""
    is_unrouted: bool = False
    """Whether routing found no agent, so that the router answers."""
    _streamed: list[str] = field(default_factory=list)
    _answer: str | None = None
    """The last streamed answer."""

    async def watch(self, run: RunResultStreaming) -> int:
        """`read` the run, `report` its result, and return the exit code."""
        return self.report(await self.read(run))

    async def read(self, run: RunResultStreaming) -> RunResult:
        """Read the run to its end; `Interrupted` after Ctrl-C."""
        try:
            async for shown in run.events():
                self.show(shown, run.session_id)
        except asyncio.CancelledError:
            raise Interrupted(self.stopped()) from None
        except Exception:
            # A run that failed has a result; one that could not begin has none.
            if not run.is_complete:
                raise
        return run.result

    def show(self, shown: Event | ModelDelta, session_id: str | None) -> None:
        """Show an event of the session, or of one that answers its queries."""
        self.begun = self.seen = True
        if isinstance(shown, Event) and (shown.type, shown.session_id) == ("route", session_id):
            self.is_unrouted = not (shown.details or {}).get("agent")
        if isinstance(shown, Event) and shown.session_id != session_id:
            self._show_inner(shown)
        elif self.stream:
            self._show(shown)
        elif not self.as_json and isinstance(shown, Event):
            _show_route(shown)

    def _show(self, shown: Event | ModelDelta) -> None:
        if self.as_json:
            emit(_stream_record(shown))
        elif isinstance(shown, ModelDelta):
            if shown.kind == "text":
                self._streamed.append(shown.text)
                sys.stdout.write(safe(shown.text))
                sys.stdout.flush()
        else:
            self._show_event(shown)

    def _show_inner(self, event: Event) -> None:
        """Show an event of a session that answers a query of this one."""
        if self.stream and self.as_json:
            emit(_stream_record(event))
        elif self.stream and event.type in ("handoff", "tool_call"):
            for line in transcript([event]):
                note(f"  {event.agent} · {line.who}: {line.what}")

    def _show_event(self, event: Event) -> None:
        if self._streamed:
            say()
            self._answer = "".join(text_of(item) for item in event.items)
            self._streamed.clear()
        _show_route(event)
        if event.type in ("handoff", "tool_call"):
            for line in transcript([event]):
                note(f"{line.who}: {line.what}")
        elif event.type == "task" and (text := task_line(event)) is not None:
            note(text)

    def report(self, result: Reported, questions: Sequence[InboxItem] = ()) -> Exit:
        """Report how a run ended, and return the exit code; `questions` are those that it waits
        for."""
        record = result.to_json()
        if isinstance(result.outcome, Waiting):
            record["waiting_for"] = [question_record(each) for each in questions]
        if self.as_json:
            emit({"result": record} if self.stream else record)
        else:
            output = record["output"]
            text = output if isinstance(output, str) else dumps(output)
            if output is not None and text != self._answer:
                say(text)
            note(f"[{result.session_id}] {' → '.join(result.chain)}")
        if questions and not self.as_json and self.how_to_resume:
            tell_questions(questions, self.store_words)
        problem = problem_of(result.outcome)
        if problem is None and self.is_unrouted:
            problem = (NoRoute.code, "no agent matches the request: name one, as in @name …")
        if problem is not None:
            code, message = problem
            if isinstance(result.outcome, OutOfBudget | Failed) and self.how_to_resume:
                message = f"{message}; continue with: {self.how_to_resume}"
            if isinstance(result.outcome, Waiting) and self.how_to_resume:
                message = f"{message}; after the answer continue with: {self.how_to_resume}"
            complain(code, message, as_json=self.as_json, session_id=result.session_id)
            if code == NoRoute.code:
                return Exit.NOT_FOUND
        outcome = record["outcome"]
        return Exit.FAILED if outcome is None else exit_for_outcome(outcome)

    def stopped(self) -> str:
        """The message for a person who stopped it."""
        if not (self.begun and self.how_to_resume):
            return "stopped; nothing is kept"
        return f"stopped; the session is kept, continue with: {self.how_to_resume}"


def problem_of(outcome: Outcome) -> tuple[str, str] | None:
    """Code and message of an unsuccessful outcome."""
    match outcome:
        case Done():
            return None
        case Waiting(reason):
            return "run.waiting", f"the session waits for {reason}"
        case Refused(reason):
            return "model.refused", f"the model refused: {reason}"
        case OutOfBudget(limit, allowed, used, scope=scope):
            return OutOfBudgetError.code, str(OutOfBudgetError(limit, allowed, used, scope=scope))
        case Failed(code, error):
            return code, error
        case _ as never:
            assert_never(never)


def _show_route(event: Event) -> None:
    details = event.details or {}
    if event.type == "route" and is_news(details):
        note(route_line(details))


def resume_command(
    session_id: str,
    store_url: str,
    place_words: Sequence[str],
    *,
    team: str | None,
    model: str | None = None,
    approve: ApproveWhere = "terminal",
) -> str:
    """The command that resumes the session; empty for a store in memory.

    `place_words` name the store, as from `Place.words`; the others are options as they were given.
    """
    if store_url == "memory:":
        return ""
    words = ["ekiden", "session", "resume", session_id]
    if team is not None:
        words += ["--team", team]
    if model is not None:
        words += ["--model", model]
    if approve != "terminal":
        words += ["--approve", approve]
    return shlex.join([*words, *place_words])


def run_config(
    *,
    limits: LimitFlags,
    no_wait: bool,
    model: str | None = None,
    approver: Approver | None = None,
    settings: Settings,
) -> RunConfig:
    """The options and settings as the runtime's configuration."""
    from ekiden.project.run_tasks import config_of

    config = replace(
        config_of(settings), model=model, approver=approver, on_busy="refuse" if no_wait else "wait"
    )
    return config.with_limits(limits.by_name())


def _stream_record(shown: Event | ModelDelta) -> dict[str, object]:
    if isinstance(shown, ModelDelta):
        return {"delta": shown.to_json()}
    return {"event": shown.to_json()}


_REFUSED = "handoff.refused"
_UNDONE = "handoff.rolled_back"


def tell_busy(row: SessionRow, timeout_s: float | None, *, as_json: bool) -> None:
    """Print that the process that runs the session is asked to hand it over."""
    if row.owner is None:
        return
    longest_s = timeout_s or DEFAULT_TIMEOUT_S
    facts = {"session_id": row.id, "owner": row.owner, "at_most_s": longest_s}
    note(
        dumps({"waiting": facts})
        if as_json
        else f"session {row.id} is being run by {row.owner}, which is asked to hand it over, "
        f"at most {longest_s:g} s …"
    )


async def stopped(store: Store, session_id: str, *, to: str, by: str, how_to_resume: str) -> str:
    """The message after Ctrl-C: the request that is still open, or how to resume."""
    waiting = await open_requests(
        store, HandoffQuery(session_id=session_id, target=to, status="initiated")
    )
    for record in reversed(waiting):
        if record.by.name == by:
            return (
                "stopped; the handoff request is still open, withdraw it with: ekiden handoff "
                f"cancel {record.id}"
            )
    row = await store.get(session_id)
    if row.outcome is not None or not how_to_resume:
        return "stopped; the session is kept"
    return f"stopped; the session is kept, continue with: {how_to_resume}"


def report_start(end: HandoffEnd, *, hint: str, as_json: bool) -> int:
    """Report a requested handoff, and return the exit code.

    `hint` is the command that resumes the session.
    """
    if as_json:
        emit(to_json(end))
    else:
        say(_line(end))
        if end.output is not None:
            say(f"{end.speaker}: {end.output}")
    if end.error is not None:
        _complain_of(end.status, end.error.code, end.error.message, end.id, as_json=as_json)
        return exit_for_refusal(end.error.code)
    if end.problem is not None:
        message = end.problem.message
        text = f"{message}; continue with: {hint}" if hint else message
        complain(end.problem.code, text, as_json=as_json)
        return exit_for_outcome(end.outcome or "failed")
    if not as_json and end.standing == "waiting":
        note(f"the session waits for people: ekiden handoff answer {end.session_id} TEXT")
    elif not as_json and end.completed_at is None and end.standing != "running" and hint:
        note(f"{end.target} has the session but has not worked on it yet; continue with: {hint}")
    return Exit.OK


def report_cancel(cancelled: CancelledHandoff, *, as_json: bool) -> int:
    """Report the cancellation of a handoff, and return the exit code."""
    show(cancelled, _line(cancelled), as_json=as_json)
    if cancelled.error is not None and cancelled.error.code == "CANCELLED":
        return Exit.OK
    if cancelled.is_pending:
        message = "the process that runs the session did not roll it back in time; try again"
        complain("session.busy", message, as_json=as_json)
        return Exit.BUSY
    message = (
        f"handoff {cancelled.id} is settled ({cancelled.status}) and is unchanged; hand the "
        "session on with `ekiden handoff start`"
    )
    complain(HandoffSettled.code, message, as_json=as_json, status=cancelled.status)
    return Exit.FAILED


def report_unknown(error: UnknownAgent, *, as_json: bool) -> Exit:
    """Report that the target agent does not exist, and return the exit code."""
    refusal = error.refusal or ""
    complain(error.code, str(error), as_json=as_json, refusal=refusal, handoff=error.handoff_id)
    return exit_for_refusal(refusal)


def tell_refusals(result: RunResult, *, as_json: bool) -> None:
    """Print why handoffs of the run were refused."""
    for record in records_of(result.events):
        if record.status == "failed":
            error, handoff_id = record.result().error, record.id
            assert error is not None
            _complain_of(record.status, error.code, error.message, handoff_id, as_json=as_json)


def _complain_of(status: str, refusal: str, message: str, handoff: str, *, as_json: bool) -> None:
    """Print why a handoff was refused or rolled back."""
    code = _REFUSED if status == "failed" else _UNDONE
    complain(code, f"{refusal}: {message}", as_json=as_json, refusal=refusal, handoff=handoff)


def _line(handoff: HandoffEnd | CancelledHandoff) -> str:
    return f"{handoff.id}: {handoff.source} → {handoff.target} {handoff.status}"
