"""Approval of tool calls by people. The decision is stored before it has any effect."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from hashlib import blake2b
from string import Formatter
from typing import Any, Literal, TypeAlias

from ekiden.core.conversation.model import Item
from ekiden.core.current_agent import acting_as
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import UserError
from ekiden.core.errors.messages import InboxItemClosed
from ekiden.core.profile import Confirmation
from ekiden.core.questions import NOBODY, InboxItem
from ekiden.core.roles import Approval, ConfirmationRequest
from ekiden.core.tools.tool import ApprovalFunction, FunctionTool, check_approval_function
from ekiden.runtime.outcome import describe, is_bug, warn
from ekiden.runtime.questions.cancel_question import is_withdrawn_by_run, withdraw
from ekiden.runtime.questions.questions import Suspended, deadline, decided, post, read_item
from ekiden.runtime.state.calls import settled
from ekiden.runtime.state.cursor import Grant
from ekiden.runtime.state.state import RunState
from ekiden.tools import ToolResult
from ekiden.tools.output import shortened, spelled_out
from ekiden.tools.under_way import is_being_cancelled

POLICY = "policy"
"""The name that stands for the approver if the tool's `needs_approval` function decided."""

_YES = "approve"
_NO = "reject"

DecisionStatus: TypeAlias = Literal["answered", "expired", "cancelled", "unavailable"]
"""How a question to a person ended: the status of its inbox item, or `unavailable` if no person
could be asked."""

_DIRECT_S = 30.0
"""The default timeout of an approver, in seconds."""

_MAX_SHOWN = 10_000
"""The maximum number of characters of the arguments in a question."""
_MAX_TEMPLATE = 2_000
_MAX_REASON = 2_000
_MAX_NAME = 200
_MAX_TITLE = 400
_MAX_TITLE_ARGUMENT = 80
_MAX_SCOPE = 200
_ONCE = "always, with changed arguments: taken as an approval of this one call"
_PLACES = re.compile(r"\{tool_(?:name|args)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The decision about a call."""

    approved: bool
    by: str
    status: DecisionStatus = "answered"
    reason: str = ""
    always: bool = False
    arguments: str | None = None
    """The changed arguments as JSON text. `None` means the model's arguments."""

    def call(self, call: Item) -> Item:
        """The call with the arguments of the decision."""
        return call if self.arguments is None else {**call, "arguments": self.arguments}

    def refusal(self) -> ToolResult:
        """The result of a call that is not approved."""
        if self.status == "answered":
            error = f"the person refused: {self.reason or 'they gave no reason'}"
        else:
            error = f"this tool needs human approval, and {self.reason}"
        output = f"The tool was not run: {error}. Go on without this call; do not just repeat it."
        return ToolResult(output=output, value=None, error=error, is_run=False)

    def with_note(self, result: ToolResult) -> ToolResult:
        """The result, with a note for the model if the person changed the arguments."""
        if self.arguments is None:
            return result
        note = f"The person changed the arguments to {self.arguments}"
        output: Any = f"{note}\n{result.output}"
        if not isinstance(result.output, str):
            output = [{"type": "input_text", "text": note}, *result.output]
        return replace(result, output=output)


async def ask_first(run: RunState, tool: FunctionTool, call: Item, key: str) -> Decision:
    """Return the decision about `call`, whose step is `key`. People are asked only once, even after
    a crash.

    Everything except a clear approval refuses the call. When this call returns, a new decision is
    stored. If an earlier "always" approval applies, this is stored at the latest with the result of
    the call.

    An "always" approval applies to the same agent and tool, and to the same scope if the tool has
    scopes. If the scope is unknown, or if the person changed the arguments of a tool without
    scopes, it approves only this call.
    """
    step = _step(run, key)
    stored = run.memo.get(step)
    if stored is not None:
        return _recalled(run, stored, tool, call)
    grant = _grant(run, tool, call)
    asked = f"{step}.{_digest(call)}"
    has_asked = asked in run.cursor.questions.open
    decision = await _granted(run, grant, asked)
    if decision is not None:
        _note(run, decision, tool, call, step, None)
        if has_asked:
            # A stored question without a decision would prove that the call was not made.
            await run.commit()
        return decision
    async with run.work.stopped():
        began = run.config.clock.monotonic()
        # The person may have given an "always" approval while this call waited for its turn.
        decision = await _granted(run, grant, asked)
        if decision is None:
            decision = _keep_always(run, await _ask(run, tool, call, grant, asked), tool, call)
        duration_us = int((run.config.clock.monotonic() - began) * 1e6)
        _note(run, decision, tool, call, step, duration_us)
    await run.commit()
    return decision


def is_refused(run: RunState, key: str) -> bool:
    """Whether the stored decision refuses the call whose step is `key`."""
    stored = run.memo.get(_step(run, key))
    return stored is not None and not stored["approved"]


def is_about_another(run: RunState, key: str, tool: FunctionTool, arguments: str) -> bool:
    """Whether the stored decision about the call whose step is `key` is about another call."""
    stored = run.memo.get(_step(run, key))
    return stored is not None and stored["of"] != [tool.name, _digest({"arguments": arguments})]


def stored_decision(run: RunState, key: str, call: Item) -> Item:
    """The call with the arguments that a person approved, if there is such a decision."""
    stored = run.memo.get(_step(run, key))
    if stored is None or stored["arguments"] is None:
        return call
    return {**call, "arguments": stored["arguments"]}


def is_granted_meanwhile(run: RunState, tool: FunctionTool, call: Item, key: str) -> bool:
    """Whether a new "always" approval of another call also covers this waiting call."""
    if tool.confirmation is None or _step(run, key) in run.memo:
        return False
    return _grant(run, tool, call) in run.cursor.questions.always


def _step(run: RunState, key: str) -> str:
    return run.step_key(f"ask.{key.rpartition('.')[2]}")


def _grant(run: RunState, tool: FunctionTool, call: Item) -> Grant | None:
    """The grant that an "always" approval of this call would give; `None` if its scope is
    unknown."""
    if tool.confirmation_scope is None:
        return run.agent.name, tool.name, ""
    try:
        scope = tool.confirmation_scope(call.get("arguments") or "")
    except Exception:
        return None
    is_usable = isinstance(scope, str) and 0 < len(scope) <= _MAX_SCOPE
    return (run.agent.name, tool.name, scope) if is_usable else None


async def _granted(run: RunState, grant: Grant | None, asked: str) -> Decision | None:
    """The approval by an earlier "always"; `None` without one. The open question about this call is
    then withdrawn. If a person already answered it, this answer to exactly this call is used."""
    by = None if grant is None else run.cursor.questions.always.get(grant)
    if by is None or _is_decided(run, asked):
        return None
    if run.questions:
        run.questions.pop(asked, None)
    question = run.cursor.questions.open.get(asked)
    if question is not None:
        await withdraw(run, {asked: question}, by=run.agent.name)
        item = await read_item(run.store, question.id)
        if item is not None and not is_withdrawn_by_run(item):
            raise Suspended  # The answer was quicker than the withdrawal, and is collected first.
        del run.cursor.questions.open[asked]
    return Decision(approved=True, by=by, always=True)


def _is_decided(run: RunState, asked: str) -> bool:
    """Whether a person, and not the deadline, closed the question about this call."""
    stored = run.memo.get(asked)
    if stored is None:
        return False
    if stored["answer"] is None:
        return bool(stored["state"] == "cancelled")
    return bool(stored["answer"]["by"] != NOBODY)


def _keep_always(run: RunState, decision: Decision, tool: FunctionTool, call: Item) -> Decision:
    """Store an "always" approval for the approved call, which may have changed arguments.

    Changed arguments mean that the model's arguments were not acceptable. A tool without scopes
    would be approved with any arguments, so the approval then applies only to this call.
    """
    if not decision.always:
        return decision
    if decision.arguments is not None and tool.confirmation_scope is None:
        noted = f"{decision.reason} ({_ONCE})" if decision.reason else _ONCE
        return replace(decision, always=False, reason=noted)
    grant = _grant(run, tool, decision.call(call))
    if grant is None:
        return replace(decision, always=False)
    run.cursor.questions.always[grant] = decision.by
    return decision


async def _ask(
    run: RunState, tool: FunctionTool, call: Item, grant: Grant | None, key: str
) -> Decision:
    confirmation, approver = tool.confirmation, run.config.approver
    assert confirmation is not None
    is_asked = key in run.memo or key in run.cursor.questions.open
    if callable(tool.needs_approval) and not is_asked:
        decision = await _decided_by_function(run, tool.needs_approval, tool.name, call)
        if decision is not None:
            return decision
    # The process that resumes the run may have another approver than the one that asked.
    if isinstance(approver, str) or is_asked:
        return await _ask_inbox(run, tool, call, key)
    if approver is None:
        return _no("unavailable", "approval is not possible (`RunConfig.approver` is not set)")
    arguments = call.get("arguments") or ""
    timeout_s = _DIRECT_S if confirmation.timeout_s is None else confirmation.timeout_s
    request = ConfirmationRequest(
        session_id=run.session_id,
        agent=run.agent.name,
        tool=tool.name,
        arguments=arguments,
        prompt=question(confirmation, tool.name, arguments),
        timeout_s=timeout_s,
        scope="" if grant is None else grant[2],
        call_id=call["call_id"],
    )
    await run.outbox.until_seen()  # Earlier events are shown before the question.
    deadline = asyncio.timeout(timeout_s)
    late = _no("expired", f"no answer within {timeout_s:g} s")
    try:
        async with deadline:
            with acting_as(""):  # The approver acts for people, not for the agent.
                answer = await approver.approve(request)
    except asyncio.CancelledError as exc:
        if is_being_cancelled():
            raise
        return _no("unavailable", f"asking failed ({type(exc).__name__})")
    except (Exception, SystemExit) as exc:
        if deadline.expired():
            return late
        if is_bug(exc):
            warn(run, "approver", exc)
        return _no("unavailable", f"asking failed ({describe(exc)})")
    # An answer that the approver returns because of its cancellation is too late.
    if deadline.expired():
        return late
    if isinstance(answer, str) and answer == "inbox":
        return await _ask_inbox(run, tool, call, key)
    return _read(answer)


async def _decided_by_function(
    run: RunState, needs_approval: ApprovalFunction, tool: str, call: Item
) -> Decision | None:
    """The decision of the tool's own function; `None`: a person must decide."""
    try:
        arguments = json.loads(call.get("arguments") or "{}")
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        return None
    deadline = asyncio.timeout(_DIRECT_S)
    try:
        async with deadline:
            if check_approval_function(needs_approval, tool) == 1:
                needed = await settled(needs_approval(arguments))
            else:
                needed = await settled(needs_approval(run.context, arguments, call["call_id"]))
        if not isinstance(needed, bool):
            raise TypeError(f"it returned {type(needed).__name__}, not True or False")
    except asyncio.CancelledError as exc:
        if is_being_cancelled():
            raise
        failure: BaseException = exc
    except (Exception, SystemExit) as exc:
        late = TimeoutError(f"it did not decide within {_DIRECT_S:g} s")
        failure = late if deadline.expired() else exc
    else:
        return None if needed else Decision(approved=True, by=POLICY)
    warn(run, f"needs_approval of the tool {tool!r}", failure)
    return _no("unavailable", f"its `needs_approval` failed ({describe(failure)})")


async def _ask_inbox(run: RunState, tool: FunctionTool, call: Item, key: str) -> Decision:
    """The decision in the inbox about exactly these arguments. Raises `Suspended` until then."""
    confirmation, arguments = tool.confirmation, call.get("arguments") or ""
    assert confirmation is not None
    if key not in run.memo and key not in run.cursor.questions.open:
        now_us = await run.store.now_us()
        item = InboxItem(
            kind="confirmation",
            from_agent=run.agent.name,
            subject=_subject(run.agent.name, tool, arguments),
            body=question(confirmation, tool.name, arguments),
            options=(_YES, _NO),
            created_at_us=now_us,
            priority=run.priority,
            deadline_us=deadline(now_us, confirmation.timeout_s),
            session_id=run.session_id,
            tool=tool.name,
            arguments=arguments or "{}",
        )
        post(run, key, item)
    try:
        answer = decided(run, key)
    except InboxItemClosed as exc:
        return _unanswered(exc)
    return _read(
        Approval(
            approved=answer.choice == _YES,
            by=answer.by,
            reason=answer.text,
            arguments=answer.arguments,
            always=answer.always,
        )
    )


def _unanswered(closed: InboxItemClosed) -> Decision:
    match closed.status:
        case "expired":
            return _no("expired", "no answer before the deadline")
        case "cancelled":
            by = f" by {closed.by}" if closed.by else ""
            why = f": {closed.reason}" if closed.reason else ""
            problem = f"the request for approval was withdrawn{by}{why}"
            return replace(_no("cancelled", problem), by=closed.by or NOBODY)
        case _:
            return _no("unavailable", "the request for approval was deleted")


def _read(answer: object) -> Decision:
    if not isinstance(answer, Approval) or not answer.by:
        given = f"{type(answer).__name__}, not an Approval"
        if isinstance(answer, Approval):
            given = "an Approval without `by`"
        return _no("unavailable", f"asking failed (the approver returned {given})")
    by, reason = str(answer.by)[:_MAX_NAME] or "unknown", str(answer.reason)[:_MAX_REASON]
    if answer.approved is not True:
        if by == NOBODY:
            return _no("unavailable", reason or "nobody answered")
        return Decision(approved=False, by=by, reason=reason)
    if answer.arguments is not None and not isinstance(answer.arguments, str):
        problem = "asking failed (the arguments that were given instead are not text)"
        return _no("unavailable", problem)
    return Decision(
        approved=True,
        by=by,
        reason=reason,
        always=answer.always is True,
        arguments=answer.arguments,
    )


def _no(status: DecisionStatus, reason: str) -> Decision:
    return Decision(approved=False, by=NOBODY, status=status, reason=reason)


def _note(
    run: RunState,
    decision: Decision,
    tool: FunctionTool,
    call: Item,
    step: str,
    duration_us: int | None,
) -> None:
    """Record the event and the result together, so that the next commit stores both."""
    details: dict[str, Any] = {
        "tool": tool.name,
        "call_id": call["call_id"],
        "approved": decision.approved,
        "status": decision.status,
        "by": decision.by,
        "reason": decision.reason,
        "always": decision.always,
        "edited": decision.arguments is not None,
        "arguments_hash": _digest(decision.call(call)),
    }
    if decision.arguments is not None:
        details["arguments"] = decision.arguments
    run.record("tool_confirmation", step=step, details=details, duration_us=duration_us)
    run.remember(
        step,
        {
            "of": [tool.name, _digest(call)],
            "approved": decision.approved,
            "status": decision.status,
            "by": decision.by,
            "reason": decision.reason,
            "always": decision.always,
            "arguments": decision.arguments,
        },
    )


def _recalled(run: RunState, stored: dict[str, Any], tool: FunctionTool, call: Item) -> Decision:
    """The stored decision. Raises `UserError` if it was about another call."""
    if stored["of"] != [tool.name, _digest(call)]:
        raise UserError(
            f"a person was asked about {stored['of'][0]!r} here before the run was interrupted, "
            f"and agent {run.agent.name!r} calls {tool.name!r} or other arguments now: calls must "
            "not depend on chance, time or anything else that changes"
        )
    return Decision(
        approved=stored["approved"],
        by=stored["by"],
        # Older data has no status.
        status=stored.get("status", "unavailable" if stored["by"] == NOBODY else "answered"),
        reason=stored["reason"],
        always=stored["always"],
        arguments=stored["arguments"],
    )


def _digest(call: Item) -> str:
    text: str = call.get("arguments") or ""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def question(confirmation: Confirmation, tool: str, arguments: str) -> str:
    """The question for the person: the template, with the tool's name and the arguments.

    If the template lacks the tool's name or the arguments, they are appended. JSON escapes are
    resolved, and control and invisible characters are spelled out, so that nothing is hidden. If
    long arguments are shortened, this is marked.
    """
    filled = {"{tool_name}": tool, "{tool_args}": shortened(_readable(arguments), _MAX_SHOWN)}
    template = shortened(confirmation.prompt_template, _MAX_TEMPLATE)
    for label, place in (("tool", "{tool_name}"), ("arguments", "{tool_args}")):
        if place not in confirmation.prompt_template[:_MAX_TEMPLATE]:
            template = f"{template}\n{label}: {place}"
    return spelled_out(_PLACES.sub(lambda place: filled[place.group()], template))


def _subject(agent: str, tool: FunctionTool, arguments: str) -> str:
    """The title of the question, with arguments inserted literally: they cannot add placeholders,
    line breaks or hidden characters."""
    title = None if tool.confirmation is None else tool.confirmation.title
    if title is None:
        return f"may {agent} run {tool.name}?"
    try:
        given = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        given = None
    known = given if isinstance(given, dict) else {}
    filled = [
        f"{text}{'' if name is None else _shown_argument(known, name)}"
        for text, name, _, _ in Formatter().parse(title)
    ]
    return shortened("".join(filled), _MAX_TITLE)


def _shown_argument(given: dict[str, Any], name: str) -> str:
    if given.get(name) is None:
        return "?"
    value = given[name]
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shortened(spelled_out(" ".join(text.split())), _MAX_TITLE_ARGUMENT)


def _readable(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments or "{}"), ensure_ascii=False)
    except (ValueError, RecursionError):
        return arguments
