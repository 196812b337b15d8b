"""Asking a person before a tool runs; the answer is stored before anything comes of it."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from ekiden.core.errors import UserError
from ekiden.core.items import Item
from ekiden.core.profile import Confirmation
from ekiden.core.roles import Approval, ConfirmationRequest
from ekiden.core.tool import FunctionTool
from ekiden.runtime.finish import describe
from ekiden.runtime.state import RunState
from ekiden.tools import ToolResult
from ekiden.tools.cancellation import is_being_cancelled
from ekiden.tools.text import shortened, spelled_out

NOBODY = "nobody"
"""Who said no when no person did."""

_MAX_SHOWN = 10_000
"""Characters of the arguments in a question; the request has all of them."""
_MAX_REASON = 2_000
_MAX_NAME = 200
_PLACES = re.compile(r"\{tool_(?:name|args)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether a call may be made, and how."""

    approved: bool
    by: str
    reason: str = ""
    always: bool = False
    arguments: str | None = None
    """JSON text: these instead of the model's."""

    def call(self, call: Item) -> Item:
        """The call as the person wants it."""
        return call if self.arguments is None else {**call, "arguments": self.arguments}

    def refusal(self) -> ToolResult:
        """What a call gives that is not made."""
        if self.by == NOBODY:
            error = f"this tool needs a person's yes, and {self.reason}"
        else:
            error = f"the person refused: {self.reason or 'they gave no reason'}"
        told = f"The tool was not run: {error}. Go on without this call; do not just repeat it."
        return ToolResult(output=told, value=None, error=error)

    def told_of_edit(self, result: ToolResult) -> ToolResult:
        """The result with a word to the model if it did not come from the model's arguments."""
        if self.arguments is None:
            return result
        note = f"The person changed the arguments to {self.arguments}"
        output: Any = f"{note}\n{result.output}"
        if not isinstance(result.output, str):
            output = [{"type": "input_text", "text": note}, *result.output]
        return ToolResult(output=output, value=result.value, error=result.error)


async def ask_first(run: RunState, tool: FunctionTool, call: Item, key: str) -> Decision:
    """The person's decision on `call`, whose step is `key`; asked once, whatever crashes.

    Whatever is not clearly a yes within the tool's time-out is a no. The decision is stored when
    this returns; that of an earlier "always" is, at the latest, with the result of the call.
    """
    step = run.step_key(f"ask.{key.rpartition('.')[2]}")
    stored = run.memo.get(step)
    if stored is not None:
        return _recalled(run, stored, tool, call)
    granted_by = run.cursor.always.get(tool.name)
    if granted_by is not None:
        decision = Decision(approved=True, by=granted_by, always=True)
        _note(run, decision, tool, call, step, None)
        return decision
    async with run.work.stopped():
        # Whoever was asked just before may have said "always".
        granted_by = run.cursor.always.get(tool.name)
        began = run.config.clock.monotonic()
        if granted_by is not None:
            decision = Decision(approved=True, by=granted_by, always=True)
        else:
            decision = await _ask(run, tool, call)
        duration_us = int((run.config.clock.monotonic() - began) * 1e6)
        if decision.always:
            run.cursor.always[tool.name] = decision.by
        _note(run, decision, tool, call, step, duration_us)
    await run.commit()
    return decision


async def _ask(run: RunState, tool: FunctionTool, call: Item) -> Decision:
    confirmation, approver = tool.confirmation, run.config.approver
    assert confirmation is not None
    if approver is None:
        return _no("nobody is there to ask (`RunConfig.approver` is not set)")
    arguments = call.get("arguments") or ""
    request = ConfirmationRequest(
        session_id=run.session_id,
        agent=run.agent.name,
        tool=tool.name,
        arguments=arguments,
        prompt=question(confirmation, tool.name, arguments),
        timeout_s=confirmation.timeout_s,
    )
    deadline = asyncio.timeout(confirmation.timeout_s)
    late = f"nobody answered within {confirmation.timeout_s:g} s"
    try:
        async with deadline:
            answer = await approver.approve(request)
    except asyncio.CancelledError as exc:
        if is_being_cancelled():
            raise
        return _no(f"asking failed ({type(exc).__name__})")
    except (Exception, SystemExit) as exc:
        return _no(late if deadline.expired() else f"asking failed ({describe(exc)})")
    # An answer that an approver gives only because it is stopped comes too late.
    return _no(late) if deadline.expired() else _read(answer)


def _read(answer: object) -> Decision:
    if not isinstance(answer, Approval):
        return _no(f"asking failed (the approver gave {type(answer).__name__}, not an Approval)")
    by, reason = str(answer.by)[:_MAX_NAME] or "unknown", str(answer.reason)[:_MAX_REASON]
    if answer.approved is not True:
        return Decision(approved=False, by=by, reason=reason)
    if answer.arguments is not None and not isinstance(answer.arguments, str):
        return _no("asking failed (the arguments that were given instead are not text)")
    return Decision(
        approved=True,
        by=by,
        reason=reason,
        always=answer.always is True,
        arguments=answer.arguments,
    )


def _no(reason: str) -> Decision:
    return Decision(approved=False, by=NOBODY, reason=reason)


def _note(
    run: RunState,
    decision: Decision,
    tool: FunctionTool,
    call: Item,
    step: str,
    duration_us: int | None,
) -> None:
    """Record and remember in one go: whichever commit comes next has both."""
    details: dict[str, Any] = {
        "tool": tool.name,
        "call_id": call["call_id"],
        "approved": decision.approved,
        "by": decision.by,
        "reason": decision.reason,
        "always": decision.always,
        "edited": decision.arguments is not None,
    }
    if decision.arguments is not None:
        details["arguments"] = decision.arguments
    run.record("tool_confirmation", step=step, details=details, duration_us=duration_us)
    run.remember(
        step,
        {
            "of": [tool.name, _digest(call)],
            "approved": decision.approved,
            "by": decision.by,
            "reason": decision.reason,
            "always": decision.always,
            "arguments": decision.arguments,
        },
    )


def _recalled(run: RunState, stored: dict[str, Any], tool: FunctionTool, call: Item) -> Decision:
    """The stored decision; `UserError` if it was about another call."""
    if stored["of"] != [tool.name, _digest(call)]:
        raise UserError(
            f"a person was asked about {stored['of'][0]!r} here before the run was interrupted, "
            f"and agent {run.agent.name!r} calls {tool.name!r} or other arguments now: calls must "
            "not depend on chance, time or anything else that changes"
        )
    return Decision(
        approved=stored["approved"],
        by=stored["by"],
        reason=stored["reason"],
        always=stored["always"],
        arguments=stored["arguments"],
    )


def _digest(call: Item) -> str:
    text: str = call.get("arguments") or ""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def question(confirmation: Confirmation, tool: str, arguments: str) -> str:
    """What the person is asked: the template, filled in once and literally.

    Nothing in it is hidden: escapes of JSON are resolved, control and invisible characters spelled
    out, and what is too long to be read is said to go on.
    """
    filled = {
        "{tool_name}": tool,
        "{tool_args}": shortened(_readable(arguments), _MAX_SHOWN),
    }
    return spelled_out(
        _PLACES.sub(lambda place: filled[place.group()], confirmation.prompt_template)
    )


def _readable(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments or "{}"), ensure_ascii=False)
    except (ValueError, RecursionError):
        return arguments
