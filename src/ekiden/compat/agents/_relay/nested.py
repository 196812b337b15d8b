"""The run of an agent that works as a tool: in a session of its own, seen through its caller.

The session's id is made of the call's, so that a call that is made again after a crash resumes the
run. What waits for approval in there suspends the caller, too: both wait for the same question.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from ekiden.compat.agents._relay.relay import Relay
from ekiden.sessions import Session

Show = Callable[[Any, Any, Any], Awaitable[None]]


@dataclass
class _Inner:
    """The session of a nested run, as `History` takes it."""

    ekiden_session: Session


class Nested:
    """Runs agents for one call of a tool."""

    def __init__(self, relay: Relay, context: Any) -> None:
        self._relay = relay
        self._context = context

    async def __call__(
        self,
        runner: Any,
        agent: Any,
        given: Any,
        options: dict[str, Any],
        show: Show,
        *,
        is_watched: bool,
    ) -> Any:
        """The result of the run, once nothing in it waits."""
        outer = self._relay.session
        if options["session"] is None and outer is not None and not _has_server_state(options):
            options = {**options, "session": _Inner(self._session(outer))}
        is_watched = is_watched or self._relay.emit is not None
        result = await self._run(runner, agent, given, options, show, is_watched)
        options = {
            **options,
            "session": None,
            "previous_response_id": None,
            "conversation_id": None,
        }
        while result.interruptions:
            await self._context._scope("follow").follow(
                [item.inbox_id for item in result.interruptions]
            )
            result = await self._run(runner, agent, result.to_state(), options, show, is_watched)
        return result

    def _session(self, outer: Session) -> Session:
        call = blake2b(self._context.tool_call_id.encode(), digest_size=8).hexdigest()
        return Session(f"{outer.session_id}.{call}", store=outer.store)

    async def _run(
        self,
        runner: Any,
        agent: Any,
        given: Any,
        options: dict[str, Any],
        show: Show,
        is_watched: bool,
    ) -> Any:
        if not is_watched:
            return await runner.run(agent, given, **options)
        streamed = runner.run_streamed(agent, given, **options)
        current = agent
        async for event in streamed.stream_events():
            current = getattr(event, "new_agent", current)
            await show(event, current, getattr(self._context, "tool_call", None))
            if self._relay.emit is not None:
                event.depth += 1
                self._relay.emit(event)
        return streamed


def between(outer: str, inner: str) -> list[str]:
    """The nested sessions from the one of a run to that of an agent far inside of it."""
    found: list[str] = []
    while inner != outer and inner.startswith(f"{outer}."):
        found.append(inner)
        inner = inner.rpartition(".")[0]
    return found


def _has_server_state(options: dict[str, Any]) -> bool:
    return bool(options["previous_response_id"] or options["conversation_id"])
