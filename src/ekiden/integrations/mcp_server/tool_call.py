"""A tool call: its caller, the run it waits for, progress reports, and cancellation."""

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
from ekiden.core.errors.server import Forbidden
from ekiden.core.events import Event
from ekiden.core.runs import Run
from ekiden.project.service import Service, TenantService
from ekiden.server.access.access import Caller, Scope
from ekiden.server.streams.follow import FollowedRun
from ekiden.sessions import is_transfer

TellProgress: TypeAlias = Callable[[float, str], Awaitable[None]]
"""Says how far the call is, as a number that grows, and in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """The client of the server."""

    caller: Caller
    may_answer: bool
    """Whether this one may decide what people are asked: not for an agent that calls us."""

    def may(self, scope: Scope) -> bool:
        """Whether a tool that needs the scope is offered."""
        return self.may_answer if scope == "answer" else self.caller.may(scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRequest:
    """One call of one tool."""

    visitor: Visitor
    service: Service
    desk: TenantService
    tell: TellProgress

    @property
    def name(self) -> str:
        """Who calls, for people."""
        return self.visitor.caller.name

    def check(self, scope: Scope) -> None:
        """`Forbidden` without the scope."""
        if not self.visitor.may(scope):
            raise Forbidden(scope)


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
