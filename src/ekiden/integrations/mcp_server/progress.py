"""Runs that a tool call waits for: reports progress, and cancels with the call."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, suppress
from typing import Any

import anyio

from ekiden.core.conversation.model import ModelDelta
from ekiden.core.documents import to_json
from ekiden.core.errors import EkidenError
from ekiden.core.events import Event
from ekiden.core.runs import Run
from ekiden.integrations.mcp_server.tool_call import ToolCallRequest
from ekiden.project.service import TenantService
from ekiden.server.streams.follow import FollowedRun
from ekiden.sessions import is_transfer

_log = logging.getLogger("ekiden.integrations.mcp_server")

_STOP_S = 5.0


async def followed(
    tool_call: ToolCallRequest, run: FollowedRun, *, wait_s: float, is_ours: bool = True
) -> dict[str, Any]:
    """The run once it is over or waits for people, or as it stands after `wait_s` seconds.

    If the call is cancelled meanwhile, a run that it began is stopped; it can be gone on with. A
    server that ends leaves it to the next one.
    """
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await _tell(tool_call, run)
    except asyncio.CancelledError:
        if is_ours and not tool_call.service.is_stopping:
            await _stop(tool_call.desk, run.run_id)
        raise
    finally:
        run.close()
    return await run_result(tool_call.desk, await run.read())


async def run_result(desk: TenantService, run: Run) -> dict[str, Any]:
    """A run, with what people are asked in full: `answer_inbox` takes the ids."""
    asked = [to_json(await desk.inbox.get(each)) for each in run.questions]
    return {**to_json(run), "questions": asked}


def words_of(run: dict[str, Any]) -> str | None:
    """A run for whoever reads only text; `None` if it says nothing that the JSON does not."""
    if run["status"] == "done" and isinstance(run["output"], str):
        return str(run["output"])
    if run["questions"]:
        asked = [
            f"- {item['id']}: {item['subject']} ({', '.join(item['options']) or 'in words'})"
            for item in run["questions"]
        ]
        return (
            f"Run {run['run_id']} waits for a person's decision; it continues after an answer in "
            "the inbox:\n" + "\n".join(asked)
        )
    if run["error"] is not None:
        return f"Run {run['run_id']} ended: {run['error']['message']}"
    return None


async def _tell(tool_call: ToolCallRequest, run: FollowedRun) -> None:
    step = 0
    async with aclosing(run.shown()) as stream:
        async for shown in stream:
            if shown is None or isinstance(shown, ModelDelta):
                continue
            step += 1
            await tool_call.tell(float(step), _told(shown))


def _told(event: Event) -> str:
    if is_transfer(event) and event.details is not None:
        return f"{event.details['from']} handed the conversation to {event.details['to']}"
    if event.type == "tool_call" and event.details is not None:
        return f"{event.agent} used {event.details.get('tool', 'a tool')}"
    return f"{event.agent}: {event.type}" if event.agent else event.type


async def _stop(desk: TenantService, run_id: str) -> None:
    with anyio.move_on_after(_STOP_S, shield=True):
        try:
            await desk.runs.cancel(run_id)
        except EkidenError as exc:
            _log.warning("run %s was given up, but continues: %s", run_id, exc)
