"""Approval of tool calls by people. The decision is stored before it has any effect."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import count
from string import Formatter
from typing import Any, Literal, TypeAlias

from ekiden.core.approvals import AlwaysScope, Limits, is_within_limits, limits_for
from ekiden.core.conversation.model import Item
from ekiden.core.current_agent import acting_as
from ekiden.core.dataclass import dataclass
from ekiden.core.errors import UserError
from ekiden.core.errors.messages import InboxItemClosed
from ekiden.core.profile import Confirmation
from ekiden.core.questions import NOBODY, InboxItem
from ekiden.core.roles import Approval, ConfirmationRequest
from ekiden.core.tools.tool import ApprovalFunction, FunctionTool, check_approval_function
from ekiden.core.versions import definition_changes, tool_definition, tool_version
from ekiden.runtime.outcome import describe, is_bug, warn
from ekiden.runtime.questions.cancel_question import (
    is_withdrawn_by_run,
    withdraw,
    withdraw_item,
)
from ekiden.runtime.questions.questions import Suspended, deadline, decided, post, read_item
from ekiden.runtime.state.calls import settled
from ekiden.runtime.state.cursor import Grant
from ekiden.runtime.state.journal import OF
from ekiden.runtime.state.state import RunState
from ekiden.sessions.request_parts import SHORT
from ekiden.tools import ToolResult
from ekiden.tools.output import shortened, spelled_out
from ekiden.tools.under_way import is_being_cancelled

POLICY = "policy"
"""The name that stands for the approver if the tool's `needs_approval` function decided."""

_YES = "approve"
_NO = "reject"

DecisionStatus: TypeAlias = Literal["answered", "expired", "cancelled", "unavailable", "void"]
"""How a question to a person ended: the status of its inbox item, `unavailable` if no person could
be asked, or `void` if the tool changed or the approval expired before the call started."""

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
_MAX_CHANGES = 5_000
_ONCE = "always, with changed arguments: taken as an approval of this one call"
_CHANGED = "the tool changed, and a person is asked again"
_PLACES = re.compile(r"\{tool_(?:name|args)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The decision about a call."""

    approved: bool
    by: str
    status: DecisionStatus = "answered"
    reason: str = ""
    always: bool = False
    scope: AlwaysScope = "call"
    limits: Limits | None = None
    arguments: str | None = None
    """The changed arguments as JSON text. `None` means the model's arguments."""
    at_us: int | None = None
    """The time of the answer; `None` means now."""

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

    An approval is valid for one version of the tool, and until it expires. Then the person is asked
    again, and is told the reason.
    """
    base, changes = _step(run, key), list[str]()
    for step in _places(base):
        stored = run.memo.get(step)
        if stored is None:
            break
        decision = _recalled(run, stored, tool, call)
        void = await _void_decision(run, tool, stored)
        if not void:
            return decision
        if f"{step}.void" not in run.memo:
            await _note_void(run, tool, call, step, void)
        changes = void
    return await _decide(run, tool, call, step, changes)


async def _decide(
    run: RunState, tool: FunctionTool, call: Item, step: str, changes: list[str]
) -> Decision:
    """The new decision, which becomes the result of `step`. `changes` tell why an earlier approval
    of this call is void."""
    asked, more = await _question_key(run, tool, call, step)
    has_asked = asked in run.cursor.questions.open
    decision, void = await _granted(run, tool, call, asked)
    if void and f"{step}.always.void" not in run.memo:
        await _note_void(run, tool, call, f"{step}.always", void)
    changes = [*changes, *more, *void]
    if decision is not None:
        await _note(run, decision, tool, call, step, None)
        if has_asked:
            # A stored question without a decision would prove that the call was not made.
            await run.commit()
        return decision
    async with run.work.stopped():
        began = run.config.clock.monotonic()
        # The person may have given an "always" approval while this call waited for its turn.
        decision, _ = await _granted(run, tool, call, asked)
        if decision is None:
            decision = await _ask(run, tool, call, asked, changes)
            decision = await _keep_always(run, decision, tool, call, step)
        duration_us = int((run.config.clock.monotonic() - began) * 1e6)
        await _note(run, decision, tool, call, step, duration_us)
    await run.commit()
    return decision


def is_refused(run: RunState, key: str) -> bool:
    """Whether the last stored decision refuses the call whose step is `key`."""
    last = None
    for step in _places(_step(run, key)):
        stored = run.memo.get(step)
        if stored is None:
            return last is not None and not last["approved"]
        last = stored
    return False


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
    return any(_covers(run, each, tool, call) for each in run.cursor.questions.always)


def _step(run: RunState, key: str) -> str:
    return run.step_key(f"ask.{key.rpartition('.')[2]}")


def _places(key: str) -> Iterator[str]:
    """The keys of the first decision or question, and of those that replace void ones."""
    yield key
    for number in count(2):
        yield f"{key}.{number}"


async def _void_decision(run: RunState, tool: FunctionTool, stored: dict[str, Any]) -> list[str]:
    """Why the stored decision is not valid any more; empty if it is."""
    if not stored["approved"] or "version" not in stored:
        return []
    if stored["version"] != tool_version(tool):
        return _tool_changes(tool, stored["definition"])
    return await _expired(run, stored["at_us"])


async def _expired(run: RunState, at_us: int) -> list[str]:
    valid_s = run.config.approval_valid_s
    if valid_s is None or await run.store.now_us() < at_us + valid_s * 1e6:
        return []
    return [f"the approval expired before the call started: it was valid for {valid_s:g} s"]


def _tool_changes(tool: FunctionTool, before: Mapping[str, Any] | None) -> list[str]:
    if before is None:
        return [f"the tool {tool.name} changed since it was approved"]
    changes = definition_changes(before, tool_definition(tool))
    return [f"the tool {tool.name} changed since it was approved:", *changes]


async def _question_key(
    run: RunState, tool: FunctionTool, call: Item, step: str
) -> tuple[str, list[str]]:
    """The key of the question to people about this call, and why earlier ones are void."""
    changes: list[str] = []
    for key in _places(f"{step}.{_digest(call)}"):
        if f"{key}.void" in run.memo:
            changes = run.memo[f"{key}.void"]
            continue
        void = await _void_question(run, tool, key)
        if not void:
            break
        question = run.cursor.questions.open.get(key)
        if question is not None:
            await withdraw_item(run.store, question, run.agent.name, _CHANGED)
            run.cursor.questions.open.pop(key)
        await _note_void(run, tool, call, key, void)
        changes = void
    return key, changes


async def _void_question(run: RunState, tool: FunctionTool, key: str) -> list[str]:
    """Why the question, or the approval that answers it, is void; empty if it is valid."""
    question, stored = run.cursor.questions.open.get(key), run.memo.get(key)
    answer = None if stored is None else stored["answer"]
    if question is not None:
        version, item_id = question.of, question.id
    elif stored is not None and answer is not None and answer["choice"] == _YES:
        version, item_id = stored.get(OF), stored["id"]
    else:
        return []
    # Questions of format 8 have no version. Their answers count for the arguments that were asked.
    if version is not None and version != tool_version(tool):
        item = await read_item(run.store, item_id)
        return _tool_changes(tool, None if item is None else item.definition)
    return [] if answer is None else await _expired(run, answer["at_us"])


async def _note_void(
    run: RunState, tool: FunctionTool, call: Item, key: str, changes: list[str]
) -> None:
    """Store that the question or approval is void, for the audit and for later processes."""
    decision = Decision(approved=False, by=NOBODY, status="void", reason="; ".join(changes))
    run.record("tool_confirmation", step=f"{key}.void", details=_details(decision, tool, call))
    run.remember(f"{key}.void", changes)
    await run.commit()


def _within(tool: FunctionTool, call: Item) -> str | None:
    """The result of the tool's `confirmation_scope`; empty without one, and `None` if it is not
    usable."""
    if tool.confirmation_scope is None:
        return ""
    try:
        scope = tool.confirmation_scope(call.get("arguments") or "")
    except Exception:
        return None
    return scope if isinstance(scope, str) and 0 < len(scope) <= _MAX_SCOPE else None


def _covers(run: RunState, grant: Grant, tool: FunctionTool, call: Item) -> bool:
    """Whether the "always" approval covers the call, unless the tool changed or it expired."""
    about = run.agent.name, tool.name, _within(tool, call)
    if (grant.agent, grant.tool, grant.within) != about:
        return False
    return grant.limits is None or is_within_limits(grant.limits, call.get("arguments") or "")


async def _granted(
    run: RunState, tool: FunctionTool, call: Item, asked: str
) -> tuple[Decision | None, list[str]]:
    """The approval by an earlier "always", and why others are void. The open question about this
    call is then withdrawn. If a person already answered it, this answer to exactly this call is
    used."""
    grant, void = await _valid_grant(run, tool, call)
    if grant is None or _is_decided(run, asked):
        return None, void
    if run.questions:
        run.questions.pop(asked, None)
    question = run.cursor.questions.open.get(asked)
    if question is not None:
        await withdraw(run, {asked: question}, by=run.agent.name)
        item = await read_item(run.store, question.id)
        if item is not None and not is_withdrawn_by_run(item):
            raise Suspended  # The answer was quicker than the withdrawal, and is collected first.
        del run.cursor.questions.open[asked]
    return Decision(approved=True, by=grant.by, always=True), []


async def _valid_grant(
    run: RunState, tool: FunctionTool, call: Item
) -> tuple[Grant | None, list[str]]:
    """The "always" approval that covers the call. Without one, why others do not cover it."""
    questions, void = run.cursor.questions, list[str]()
    for grant in reversed(questions.always):
        if not _covers(run, grant, tool, call):
            continue
        if grant.version != tool_version(tool):
            stored = await run.store.steps(run.session_id, prefix=grant.step)
            void = void or _tool_changes(tool, stored.get(grant.step, {}).get("definition"))
        elif grant.until_us is None or await run.store.now_us() < grant.until_us:
            return grant, []
        else:
            void = void or ["the “always” approval expired"]
    return None, void


def _is_decided(run: RunState, asked: str) -> bool:
    """Whether a person, and not the deadline, closed the question about this call."""
    stored = run.memo.get(asked)
    if stored is None:
        return False
    if stored["answer"] is None:
        return bool(stored["state"] == "cancelled")
    return bool(stored["answer"]["by"] != NOBODY)


async def _keep_always(
    run: RunState, decision: Decision, tool: FunctionTool, call: Item, step: str
) -> Decision:
    """Store an "always" approval for the approved call, which may have changed arguments.

    Changed arguments mean that the model's arguments were not acceptable. So the approval then
    covers no calls with arguments that the person did not see.
    """
    if not decision.always:
        return decision
    made = decision.call(call)
    within = _within(tool, made)
    is_wider = decision.scope == "session" and not within
    if within is None or (is_wider and decision.arguments is not None):
        noted = f"{decision.reason} ({_ONCE})" if decision.reason else _ONCE
        return replace(decision, always=False, scope="call", reason=noted)
    limits: dict[str, Any] | None = None
    if decision.scope == "call" or decision.limits is not None or not (is_wider or within):
        try:
            limits = limits_for(made.get("arguments") or "", decision.limits)
        except UserError as exc:
            return replace(decision, always=False, scope="call", reason=str(exc))
    valid_s = run.config.approval_valid_s
    now_us = await run.store.now_us()
    run.cursor.questions.grant(
        Grant(
            agent=run.agent.name,
            tool=tool.name,
            version=tool_version(tool),
            limits=limits,
            within=within,
            by=decision.by,
            until_us=None if valid_s is None else now_us + int(valid_s * 1e6),
            step=step,
        )
    )
    return decision


async def _ask(
    run: RunState, tool: FunctionTool, call: Item, key: str, changes: Sequence[str]
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
        return await _ask_inbox(run, tool, call, key, changes)
    if approver is None:
        return _no("unavailable", "approval is not possible (`RunConfig.approver` is not set)")
    arguments = call.get("arguments") or ""
    timeout_s = _DIRECT_S if confirmation.timeout_s is None else confirmation.timeout_s
    request = ConfirmationRequest(
        session_id=run.session_id,
        agent=run.agent.name,
        tool=tool.name,
        arguments=arguments,
        prompt=_prompt(confirmation, tool.name, arguments, changes),
        timeout_s=timeout_s,
        scope=_within(tool, call) or "",
        call_id=call["call_id"],
        tool_version=tool_version(tool),
        changes=changes,
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
        return await _ask_inbox(run, tool, call, key, changes)
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


async def _ask_inbox(
    run: RunState, tool: FunctionTool, call: Item, key: str, changes: Sequence[str]
) -> Decision:
    """The decision in the inbox about exactly these arguments. Raises `Suspended` until then."""
    confirmation, arguments = tool.confirmation, call.get("arguments") or ""
    assert confirmation is not None
    if key not in run.memo and key not in run.cursor.questions.open:
        now_us = await run.store.now_us()
        item = InboxItem(
            kind="confirmation",
            from_agent=run.agent.name,
            subject=_subject(run.agent.name, tool, arguments),
            body=_prompt(confirmation, tool.name, arguments, changes),
            options=(_YES, _NO),
            created_at_us=now_us,
            priority=run.priority,
            deadline_us=deadline(now_us, confirmation.timeout_s),
            session_id=run.session_id,
            tool=tool.name,
            arguments=arguments or "{}",
            tool_version=tool_version(tool),
            definition=tool_definition(tool),
            scope=_within(tool, call) or "",
        )
        post(run, key, item, of=item.tool_version)
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
            scope=answer.scope,
            limits=answer.limits,
        ),
        at_us=answer.at_us,
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


def _read(answer: object, *, at_us: int | None = None) -> Decision:
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
        scope=answer.scope,
        limits=answer.limits,
        arguments=answer.arguments,
        at_us=at_us,
    )


def _no(status: DecisionStatus, reason: str) -> Decision:
    return Decision(approved=False, by=NOBODY, status=status, reason=reason)


async def _note(
    run: RunState,
    decision: Decision,
    tool: FunctionTool,
    call: Item,
    step: str,
    duration_us: int | None,
) -> None:
    """Record the event and the result together, so that the next commit stores both."""
    details = _details(decision, tool, call)
    if decision.arguments is not None:
        details["arguments"] = decision.arguments
    at_us = await run.store.now_us() if decision.at_us is None else decision.at_us
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
            "at_us": at_us,
            "version": tool_version(tool),
            "definition": tool_definition(tool),
        },
    )


def _details(decision: Decision, tool: FunctionTool, call: Item) -> dict[str, Any]:
    details = {
        "tool": tool.name,
        "call_id": call["call_id"],
        "approved": decision.approved,
        "status": decision.status,
        "by": decision.by,
        "reason": decision.reason,
        "always": decision.always,
        "edited": decision.arguments is not None,
        "arguments_hash": _digest(decision.call(call)),
        "version": tool_version(tool)[:SHORT],
    }
    if decision.always:
        details["scope"] = decision.scope
    return details


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


def _prompt(confirmation: Confirmation, tool: str, arguments: str, changes: Sequence[str]) -> str:
    """The question, with the reasons why the person is asked again."""
    asked = question(confirmation, tool, arguments)
    if not changes:
        return asked
    again = shortened(spelled_out("\n".join(changes)), _MAX_CHANGES)
    return f"{asked}\n\nYou are asked again:\n{again}"


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
