"""The end of a run: its outcome, the commit that stores it, and handoff requests that failed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

from ekiden.core.context import CONCLUSION, OWN_CONCLUSIONS
from ekiden.core.conversation.model import Item, OutputSpec, is_message, refusal_of, text_of
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import (
    EkidenError,
    ModelBehaviorError,
    SessionError,
    StaleDocument,
    StoreError,
    UserError,
)
from ekiden.core.events import Event
from ekiden.core.faults import fault_point
from ekiden.core.guardrails import GuardrailError
from ekiden.core.handoffs import Handoff
from ekiden.core.privacy.masking import cover
from ekiden.core.runs import (
    Conclusion,
    Done,
    Failed,
    Outcome,
    OutOfBudget,
    Refused,
    Waiting,
)
from ekiden.handoff.requests import Asked, TriedHandoff, asked_in, removal_of, requests_of
from ekiden.runtime.questions.cancel_question import withdraw
from ekiden.runtime.questions.sessions import ANSWERS
from ekiden.runtime.state.attempt import Attempt
from ekiden.runtime.state.budget import empty
from ekiden.runtime.state.calls import both
from ekiden.runtime.state.cursor import OpenQuestion
from ekiden.runtime.state.findings import tell_findings
from ekiden.runtime.state.state import RunState
from ekiden.sessions.conclusion import DECISIONS, conclusion_from
from ekiden.storage.base import DocumentWrite, SessionRow, SessionStatus

_log = logging.getLogger("ekiden.runtime")
WARNING = "warning"
"""The key in an event's details with the name of the user code that raised an error."""


def output_spec(output_type: Any) -> OutputSpec | None:
    """The format of the answer for the model; `None` for text."""
    if output_type is None or output_type is str:
        return None
    return _structured(output_type)[0]


def final_outcome(output: list[Item], output_type: Any) -> Done | Refused:
    """The outcome of a model's turn without calls.

    Raises `ModelBehaviorError` if the answer does not match the `output_type`.
    """
    text, refusal = "", None
    for item in output:
        if is_message(item):
            text = text_of(item)
            refusal = refusal_of(item)
    if refusal is not None and not text:
        return Refused(refusal)
    if output_type is None or output_type is str:
        return Done(text)
    spec, adapter = _structured(output_type)
    try:
        value = adapter.validate_json(text)
    except ValueError as exc:
        raise ModelBehaviorError(f"the answer is not valid for {spec.name}: {exc}") from exc
    return Done(value)


def checked_text(output: list[Item]) -> str:
    """All texts and refusals of a model's turn, for guardrails."""
    texts: list[str] = []
    for item in output:
        if is_message(item):
            texts += [text for text in (text_of(item), refusal_of(item)) if text]
    return "\n".join(texts)


def is_structured(output_type: Any) -> bool:
    """Whether the agent's `output_type` requires other data than text."""
    return output_type is not None and output_type is not str


@lru_cache(maxsize=512)
def _structured(output_type: Any) -> tuple[OutputSpec, Any]:
    from pydantic import PydanticUserError, TypeAdapter

    name = getattr(output_type, "__name__", None) or str(output_type)
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(output_type)
        schema = adapter.json_schema()
    except PydanticUserError as exc:
        raise UserError(f"output_type {name} has no JSON schema: {exc}") from exc
    return OutputSpec(name=name, json_schema=schema, strict=False), adapter


async def finish(run: RunState, outcome: Outcome, *, release: bool = True) -> None:
    """Call the hooks, store the end of the run, and release the session if `release` is set."""
    agent, hooks = run.agent, run.hooks
    if isinstance(outcome, Done) and (hooks is not None or agent.hooks is not None):
        await both(
            None if hooks is None else hooks.on_agent_end(run.context, agent, outcome.output),
            None if agent.hooks is None else agent.hooks.on_end(run.context, agent, outcome.output),
        )
    details, error = _details(outcome)
    conclusion: Conclusion | None = None
    if isinstance(outcome, Done):
        conclusion, details = _conclude(run)
    elif not isinstance(outcome, Waiting):
        conclusion = outcome.kind
    if run.cursor.guardrails.found:
        details = tell_findings(run, details)
    run.record("agent_error" if error else "agent_complete", details=details, error=error)
    if isinstance(outcome, (Done, Refused)):
        run.cursor.progress.phase = "end"
    if run.cursor.handoffs.tried and not isinstance(outcome, Waiting):
        from ekiden.runtime.state.attempt import give_up_tried

        give_up_tried(run)
    if run.cursor.questions.open or ANSWERS in run.meta:
        await _answer_and_release(run, outcome)
    if (
        run.cursor.budget.shared_budget is not None
        and not isinstance(outcome, Waiting)
        and not run.cursor.questions.open
    ):
        await empty(run)
    has_requests = release and run.interruption.look
    fault_point("run.finish.before_commit")
    await store_end(run, outcome, conclusion, release=release and not has_requests)
    fault_point("run.finish.after_commit")
    if has_requests:
        # The end of the run is stored. If this fails, the next process that runs the session
        # records the withdrawn requests.
        with suppress(SessionError, StoreError):
            await record_withdrawn(run)
            await run.commit(release=True)


def _conclude(run: RunState) -> tuple[Conclusion, dict[str, Any] | None]:
    """The conclusion of a run that has its answer, and the details for its last event."""
    chosen = run.own_variable(CONCLUSION)
    if isinstance(chosen, list) and len(chosen) == 2 and chosen[0] in OWN_CONCLUSIONS:
        details = {"conclusion": chosen[0], "reason": cover(str(chosen[1]))}
        return chosen[0], {name: text for name, text in details.items() if text}
    events = run.all_events()
    if not [event for event in events if event.error is not None or event.type in DECISIONS]:
        return "succeeded", None
    found = conclusion_from(events)
    return found, None if found == "succeeded" else {"conclusion": found}


async def store_end(
    run: RunState, outcome: Outcome, conclusion: Conclusion | None, *, release: bool = True
) -> None:
    """Store the end of the run, or a pause in its work."""
    status: SessionStatus = "waiting" if isinstance(outcome, Waiting) else "idle"
    try:
        await run.commit(
            status=status, outcome=outcome.kind, conclusion=conclusion, release=release
        )
    except asyncio.CancelledError:
        if run.is_free:  # The cancellation came when the end was already stored.
            run.outcome = outcome
        raise
    run.outcome = outcome


async def _answer_and_release(run: RunState, outcome: Outcome) -> None:
    """Answer the question that opened the session, and withdraw its own open questions. A run that
    is out of budget keeps its questions to agents, because it can be resumed."""
    from ekiden.runtime.questions.answers import give_answer
    from ekiden.runtime.questions.cancel_question import suspend_questions, withdraw_questions

    give_answer(run, outcome)
    if run.cursor.questions.open and isinstance(outcome, OutOfBudget):
        await suspend_questions(run)
    elif run.cursor.questions.open and not isinstance(outcome, Waiting):
        await withdraw_questions(run)


async def fail(run: RunState, exc: Exception) -> None:
    """End the run because of `exc`, and discard everything that is not stored."""
    run.discard()
    run.exception = exc
    code = exc.code if isinstance(exc, EkidenError) else "run.failed"
    await finish(run, Failed(code, describe(exc)))


def describe_to_others(exc: BaseException) -> str:
    """The description of the failure for other agents, without values that guardrails withhold."""
    return cover(exc.outside) if isinstance(exc, GuardrailError) else describe(exc)


def describe(exc: BaseException) -> str:
    """The exception as one line, without secrets."""
    try:
        text = str(exc)
    except Exception:  # A user's exception may fail to describe itself.
        text = "(it cannot be shown)"
    shown = text if isinstance(exc, EkidenError) else f"{type(exc).__name__}: {text}"
    for note in getattr(exc, "__notes__", ()):
        shown = f"{shown} ({note})"
    return cover(shown)


async def suspend(run: RunState, status: SessionStatus) -> None:
    """Release the session in the middle of a cancelled run, which can be resumed."""
    run.discard()
    if run.cursor.questions.open and status == "idle":
        from ekiden.runtime.questions.cancel_question import withdraw_questions

        await withdraw_questions(run, keeps_answers=True)
    run.record("agent_complete", details={"outcome": "cancelled"})
    conclusion: Conclusion | None = "stopped" if status == "idle" else None
    await run.commit(status=status, outcome="", conclusion=conclusion, release=True)


async def leave_to_worker(run: RunState) -> None:
    """Release the session as `ready`, for a worker that runs its active agent."""
    await run.commit(status="ready", outcome="", release=True)


def recorded_outcome(event: Event) -> Outcome | None:
    """The outcome in the last event of a run; `None` for an answer."""
    details = event.details or {}
    match details.get("outcome"):
        case "refused":
            return Refused(details["reason"])
        case "waiting":
            return Waiting(details["reason"])
        case "out_of_budget":
            return OutOfBudget(
                details["limit"],
                details["allowed"],
                details["used"],
                scope=details.get("scope", "run"),
            )
        case "failed":
            return Failed(details["code"], event.error or "")
    return None


def _details(outcome: Outcome) -> tuple[dict[str, Any] | None, str | None]:
    match outcome:
        case Done():
            return None, None
        case Refused(reason) | Waiting(reason):
            return {"outcome": outcome.kind, "reason": reason}, None
        case OutOfBudget(limit, allowed, used):
            details = {"outcome": outcome.kind, "limit": limit, "allowed": allowed, "used": used}
            return details if outcome.scope == "run" else {**details, "scope": outcome.scope}, None
        case Failed(code, error):
            return {"outcome": outcome.kind, "code": code}, error


def is_bug(exc: BaseException) -> bool:
    """Whether the exception is a bug in user code, and not an expected failure."""
    return not isinstance(exc, EkidenError) or isinstance(exc, UserError)


def log_error(run: RunState, where: str, exc: BaseException) -> None:
    """Log an exception of user code with its traceback."""
    _log.error("%s failed in session %s", where, run.session_id, exc_info=exc)


def warn(run: RunState, where: str, problem: BaseException | str) -> None:
    """Log and record a problem in user code that does not end the run. The caller commits the
    record."""
    if isinstance(problem, str):
        _log.warning("%s in session %s: %s", where, run.session_id, problem)
        text = problem
    else:
        log_error(run, where, problem)
        text = describe(problem)
    run.record("message", details={WARNING: where}, error=text)


def warnings_of(events: Iterable[Event]) -> list[str]:
    """The problems in user code that did not end the run."""
    return [f"{where}: {event.error}" for event in events if (where := _failed_code(event))]


def _failed_code(event: Event) -> str | None:
    """The user code that failed, if the event records such a failure."""
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


async def record_withdrawn(run: RunState) -> None:
    """Record, after the run, the handoff requests that were withdrawn or have timed out.

    The processes that wait for open requests serve these requests after the session is released.
    """
    for document in await requests_of(run.store, run.session_id):
        asked = asked_in(document)
        if asked.state != "open" or await is_late(run, asked):
            with suppress(StaleDocument):
                await store_withdrawal(run, asked, [removal_of(document)])


async def store_withdrawal(
    run: RunState, asked: Asked, taken: Sequence[DocumentWrite], *, release: bool = False
) -> None:
    """Record that a request was withdrawn, or timed out because the source did not finish its step.

    A cancellation that had no effect is not recorded.
    """
    with as_before_if_stale(run):
        if asked.cancel is None:
            _withdraw(run, asked)
        for each in taken:
            run.write(each)
        approvals = questions_about(run.cursor.questions.open, asked.id)
        for key in approvals:
            del run.cursor.questions.open[key]
        await withdraw(run, approvals, by=run.agent.name)
        continues = bool(approvals) and run.status == "waiting" and not run.cursor.questions.open
        fault_point("handoff.withdrawn.before_commit")
        if continues:
            # The session waited only for the approval.
            await run.commit(status="ready", outcome="", release=release)
        else:
            await run.commit(release=release)
        fault_point("handoff.withdrawn.after_commit")


def questions_about(
    questions: Mapping[str, OpenQuestion], request_id: str
) -> dict[str, OpenQuestion]:
    """The questions to people about the handoff of this request, by the key of their step."""
    mark = f".ask.{request_id.rpartition('.')[2]}_"
    return {key: each for key, each in questions.items() if mark in key}


def is_taken_up(tried: Iterable[TriedHandoff], asked: Asked) -> bool:
    """Whether the handoff is recorded but not decided. Such a handoff does not time out while a
    person decides about it."""
    return any(each.id == asked.id for each in tried)


async def is_late(run: RunState, asked: Asked) -> bool:
    """Whether the requested handoff was not started in time."""
    if asked.cancel is not None or is_taken_up(run.cursor.handoffs.tried, asked):
        return False
    if asked.due_us is not None:
        return await run.store.now_us() > asked.due_us
    return run.config.clock.now_us() - asked.asked_us > asked.wait_s * 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSnapshot:
    """The view of a run before an attempt at a handoff."""

    visible: list[Item]
    history_length: int
    before: SessionRow | None

    @classmethod
    def of(cls, run: RunState) -> RunSnapshot:
        return cls(visible=list(run.visible), history_length=run.history_length, before=run.before)

    def restore(self, run: RunState) -> None:
        """Restore the state from before the attempt."""
        run.discard()
        run.replace_view(list(self.visible))
        run.history_length = self.history_length
        run.before = self.before


@contextmanager
def as_before_if_stale(run: RunState) -> Iterator[None]:
    """Restore the state of the run if the request changed while the ``with`` block served it."""
    before = RunSnapshot.of(run)
    try:
        yield
    except StaleDocument:
        before.restore(run)
        raise


def attempt_on(asked: Asked, edge: Handoff[Any, Any] | None = None) -> Attempt:
    """The attempt for a request. `edge` is the declared handoff. Without it, the attempt can only
    be refused."""
    return Attempt(
        edge=edge or _no_edge(asked.to),
        arguments=asked.arguments(),
        payload=asked.payload,
        priority=asked.priority,
        metadata=asked.metadata,
        source=asked.source,
        by=asked.by,
        policy=asked.policy,
        request=asked.id,
        id=asked.own_id,
        began_us=asked.asked_us,
    )


def _no_edge(target: str) -> Handoff[Any, Any]:
    async def never_called(context: Any, arguments: str) -> Any:
        raise AssertionError("a handoff that was refused is not made")

    return Handoff(
        tool_name="none",
        tool_description="",
        input_json_schema={},
        on_invoke_handoff=never_called,
        agent_name=target,
    )


def _withdraw(run: RunState, asked: Asked) -> None:
    """Record the failure of the requested handoff; the caller commits it."""
    attempt = attempt_on(asked)
    attempt.begin(run)
    attempt.life.move("failed")
    run.cursor.handoffs.drop_tried(attempt.id)
    why = asked.why_withdrawn(run.agent.name)
    source = asked.source or run.agent.name
    details = {
        **attempt.recorded_data(attempt.passed_data(run.agent.name)),
        **attempt.details(source, asked.to),
    }
    details["code"] = why.code
    ended_us = asked.withdrawn_us or asked.due_us
    if ended_us:
        details["at"] = {**details.get("at", {}), "failed": ended_us}
    run.record("handoff", details=details, error=why.message)
