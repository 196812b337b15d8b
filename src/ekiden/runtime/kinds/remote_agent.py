"""Agents behind an `AgentRunner`: a plan, or a remote agent."""

from __future__ import annotations

from typing import Any

from ekiden.core.conversation.model import Item, assistant_message, function_call, to_items
from ekiden.core.errors import HandoffRefused, UserError
from ekiden.core.faults import fault_point
from ekiden.core.roles import AgentReply, RemoteTask
from ekiden.core.runs import Done
from ekiden.core.values import dumps
from ekiden.handoff.validation import edge_between
from ekiden.runtime.conversation.corrections import rollback_notices
from ekiden.runtime.guardrails.output import approve
from ekiden.runtime.state.findings import tell_findings
from ekiden.runtime.state.state import RunState
from ekiden.runtime.tools.offer import refresh_offer
from ekiden.runtime.turn.limits import time_left
from ekiden.runtime.turn.turn import conclude, start_agent
from ekiden.storage.values import copy_json


async def run_remote_agent(run: RunState) -> None:
    """Hand the task to the runner, and do what its reply says.

    The reply is stored together with what it leads to. Killed before that, the task is handed over
    again under the same idempotency key.
    """
    if not run.cursor.progress.started:
        await start_agent(run)
    await refresh_offer(run)
    began = run.config.clock.monotonic()
    key = run.step_key("m")
    reply = await _reply(run, key)
    if reply.declined is not None:
        raise HandoffRefused(
            "DECLINED", f"agent {run.agent.name!r} declined: {reply.declined[:2000]}"
        )
    if reply.usage is not None:
        run.cursor.budget.usage.add(reply.usage)
    items: list[Item] = to_items(tuple(reply.items))
    if reply.text is not None:
        items.append(assistant_message(reply.text))
    calls: list[Item] = []
    output: Any = reply.text if reply.output is None else reply.output
    details: dict[str, Any] | None = dict(reply.details) or None
    if reply.hand_to is None:
        details = await approve(run, output, details)
    else:
        calls = [_transfer_call(run, key, reply)]
        if run.cursor.guardrails.found:
            details = tell_findings(run, details)
    run.record(
        "message",
        items=(*items, *calls),
        step=key,
        duration_us=int((run.config.clock.monotonic() - began) * 1e6),
        details=details,
    )
    run.cursor.handoffs.work += bool(items)
    await conclude(run, calls, None if calls else Done(output))


def _transfer_call(run: RunState, key: str, reply: AgentReply) -> Item:
    edge = edge_between(run.agent, reply.hand_to or "")
    words = {"reason": reply.reason} if reply.reason else {}
    return function_call(f"call_{key.replace('.', '_')}", edge.tool_name, dumps(words))


async def _reply(run: RunState, key: str) -> AgentReply:
    runner = run.agent.runner
    assert runner is not None
    left, _ = time_left(run)
    task = RemoteTask(
        task_id=run.task_id,
        session_id=run.session_id,
        agent=run.agent.name,
        items=(*run.visible, *rollback_notices(run)),
        received={**(run.cursor.handoffs.received or {}), "chain": list(run.cursor.handoffs.chain)},
        idempotency_key=f"{run.session_key}:{key}",
        timeout_s=left,
        variables=copy_json(run.variables.own),
    )
    fault_point("elsewhere.task.before_call")
    reply = await runner.run_task(task)
    fault_point("elsewhere.task.after_call")
    if not isinstance(reply, AgentReply):
        raise UserError(
            f"the runner of agent {run.agent.name!r} gave {type(reply).__name__}, not an AgentReply"
        )
    return reply
