"""One call of a tool: its client, waiting for a run, progress and cancellation."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import anyio

from ekiden.core.conversation.model import ModelDelta
from ekiden.core.documents import to_json
from ekiden.core.errors import EkidenError
from ekiden.core.events import Event
from ekiden.core.runs import Run, run_id_of
from ekiden.project.service import Service, TenantService
from ekiden.server.access import Caller, Scope
from ekiden.server.streams.follow import FollowedRun, join_run
from ekiden.sessions import is_transfer
from ekiden.sessions.session import run_number

_log = logging.getLogger("ekiden.integrations.mcp_server")

_STOP_S = 5.0

ReportProgress: TypeAlias = Callable[[float, str], Awaitable[None]]
"""Reports the progress of a call, as a growing number and a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpClient:
    """A client of the MCP server."""

    caller: Caller
    may_answer: bool
    """Whether the client may answer questions to people. Agents must not answer them."""

    def may(self, scope: Scope) -> bool:
        """Whether the client gets tools that need the scope."""
        return self.may_answer if scope == "answer" else self.caller.may(scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRequest:
    """One call of one tool."""

    client: McpClient
    service: Service
    tenant: TenantService
    report: ReportProgress


async def wait_for_last_run(
    tool_call: ToolCallRequest, session_id: str, after: int, wait_s: float
) -> dict[str, Any]:
    """Wait for the last run of the session, like `wait_for`."""
    row = await tool_call.tenant.store.get(session_id)
    run_id = run_id_of(row.id, run_number(row))
    joined = await join_run(tool_call.tenant, run_id, after=after)
    return await wait_for(tool_call, joined, wait_s=wait_s, stop_on_cancel=False)


async def wait_for(
    tool_call: ToolCallRequest, run: FollowedRun, *, wait_s: float, stop_on_cancel: bool = True
) -> dict[str, Any]:
    """Wait at most `wait_s` seconds until the run has ended or waits for people.

    With `stop_on_cancel`, a cancelled call stops the run, which can be resumed. If the call is
    cancelled because the server stops, the run continues when a server runs again.
    """
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await _report(tool_call, run)
    except asyncio.CancelledError:
        if stop_on_cancel and not tool_call.service.is_stopping:
            await _stop(tool_call.tenant, run.run_id)
        raise
    finally:
        run.close()
    return await run_result(tool_call.tenant, await run.read())


async def run_result(tenant: TenantService, run: Run) -> dict[str, Any]:
    """The run as JSON, with complete questions instead of their ids."""
    questions = [to_json(await tenant.inbox.get(each)) for each in run.questions]
    return {**to_json(run), "questions": questions}


def text_of_run(run: dict[str, Any]) -> str | None:
    """The run as text, for clients that show only text. `None` if the client should show the JSON
    form."""
    if run["status"] == "done" and isinstance(run["output"], str):
        return str(run["output"])
    if run["questions"]:
        questions = [
            f"- {item['id']}: {item['subject']} ({', '.join(item['options']) or 'in words'})"
            for item in run["questions"]
        ]
        return (
            f"Run {run['run_id']} waits for a person's decision; it continues after an answer in "
            "the inbox:\n" + "\n".join(questions)
        )
    if run["error"] is not None:
        return f"Run {run['run_id']} ended: {run['error']['message']}"
    return None


async def _report(tool_call: ToolCallRequest, run: FollowedRun) -> None:
    step = 0
    async with aclosing(run.shown()) as stream:
        async for shown in stream:
            if shown is None or isinstance(shown, ModelDelta):
                continue
            step += 1
            await tool_call.report(float(step), _progress_text(shown))


def _progress_text(event: Event) -> str:
    if is_transfer(event) and event.details is not None:
        return f"{event.details['from']} handed the conversation to {event.details['to']}"
    if event.type == "tool_call" and event.details is not None:
        return f"{event.agent} used {event.details.get('tool', 'a tool')}"
    return f"{event.agent}: {event.type}" if event.agent else event.type


async def _stop(tenant: TenantService, run_id: str) -> None:
    # The call is cancelled: without the shield, the first await here would be cancelled, too.
    with anyio.move_on_after(_STOP_S, shield=True):
        try:
            await tenant.runs.cancel(run_id)
        except EkidenError as exc:
            _log.warning("run %s was given up, but continues: %s", run_id, exc)
