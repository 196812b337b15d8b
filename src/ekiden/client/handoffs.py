"""Handoffs: hand sessions on, and see what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

from ekiden.api.texts import Moment
from ekiden.client.modes import M, Resource, answers, given, lists, moment_text
from ekiden.client.paths import part
from ekiden.client.streams import Listing
from ekiden.client.values import Run, Value

Policy: TypeAlias = Literal["immediate", "graceful", "conditional"]


class HandoffFilter(TypedDict, total=False):
    """Which handoffs; what is not given, or `None`, does not restrict."""

    session: str | None
    source: str | None
    target: str | None
    status: str | None
    task: str | None
    correlation: str | None
    policy: Policy | None
    by: str | None
    since: Moment | None
    until: Moment | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Handoff(Value):
    """A handoff, from whom to whom and how far it is."""

    id: str
    session_id: str = ""
    source: str = ""
    target: str = ""
    status: str = ""
    by: Mapping[str, str] = field(default_factory=dict)
    """Who wanted it."""
    policy: str = ""
    reason: str = ""
    code: str | None = None
    """Why it was refused or undone, for programs."""
    error: str | None = None
    started_at: float = 0.0
    settled_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffEnd(Value):
    """What came of a handoff that was asked for."""

    id: str
    session_id: str = ""
    status: str = ""
    source: str = ""
    target: str = ""
    error: Mapping[str, str] | None = None
    """Why it was refused or undone: ``code`` and ``message``."""
    agent: str = ""
    """Who has the session now."""
    outcome: str | None = None
    speaker: str | None = None
    output: str | None = None
    """What the agent answered."""
    completed_at: float | None = None
    rollback_performed: bool = False


class Handoffs(Resource[M]):
    """Who hands what to whom."""

    @lists
    def list(
        self, *, agent: str | None = None, **filters: Unpack[HandoffFilter]
    ) -> Listing[Handoff]:
        """The handoffs, newest first."""
        params = {**given(agent=agent), **_params(filters)}
        return Listing(path="/handoff", params=params, parse=Handoff.of)

    @lists
    def history(self, agent: str, **filters: Unpack[HandoffFilter]) -> Listing[Handoff]:
        """The handoffs from and to an agent, newest first."""
        path = f"/handoff/history/{part(agent)}"
        return Listing(path=path, params=_params(filters), parse=Handoff.of)

    @answers
    async def get(self, handoff_id: str) -> Handoff:
        """Everything about a handoff, in `raw`; `HandoffNotFound`."""
        return Handoff.of(await self._wire.ask("GET", f"/handoff/{part(handoff_id)}"))

    @answers
    async def start(
        self,
        session_id: str,
        *,
        to: str,
        reason: str = "",
        summary: str = "",
        context: Any = None,
        policy: Policy | None = None,
        timeout_s: float | None = None,
        priority: int = 0,
        metadata: Mapping[str, Any] | None = None,
        wait_s: float | None = None,
    ) -> HandoffEnd:
        """Hand a session to another agent, and wait for its answer at most `wait_s` seconds."""
        body = given(
            to=to,
            reason=reason,
            summary=summary,
            context=context,
            policy=policy,
            timeout_s=timeout_s,
            priority=priority or None,
            metadata=None if metadata is None else dict(metadata),
            wait_s=wait_s,
        )
        path = f"/sessions/{part(session_id)}/handoff"
        return HandoffEnd.of(await self._wire.ask("POST", path, body=body))

    @answers
    async def initiate(
        self,
        *,
        source: str,
        target: str,
        task_id: str,
        task_state: Mapping[str, Any] | None = None,
        conversation_history: Sequence[Mapping[str, Any]] = (),
        policy: Policy = "graceful",
        reason: str = "",
        priority: int = 0,
        metadata: Mapping[str, Any] | None = None,
    ) -> Mapping[str, Any]:
        """Hand a task from one agent to another; a task without a session gets one."""
        body = {
            "source_agent_id": source,
            "target_agent_id": target,
            "task_id": task_id,
            "task_state": dict(task_state or {}),
            "conversation_history": [dict(each) for each in conversation_history],
            "policy": policy,
            "reason": reason,
            "priority": priority,
            "metadata": dict(metadata or {}),
        }
        told: Mapping[str, Any] = await self._wire.ask("POST", "/handoff/initiate", body=body)
        return told

    @answers
    async def cancel(self, handoff_id: str, *, reason: str = "") -> HandoffEnd:
        """Undo a handoff that is not confirmed, or withdraw one; `ServerProblem` with the code
        ``handoff.settled`` if it is too late."""
        path = f"/handoff/{part(handoff_id)}/cancel"
        return HandoffEnd.of(await self._wire.ask("POST", path, body={"reason": reason}))

    @answers
    async def answer(
        self, session_id: str, text: str, *, back: bool = False, by: str | None = None
    ) -> Run:
        """Answer, as a person, a session that was handed to people; `back`: give it back with this
        to the agent that handed it over."""
        body = {"text": text, "back": back, **given(by=by)}
        path = f"/sessions/{part(session_id)}/answer"
        return Run.of(await self._wire.ask("POST", path, body=body))


def _params(filters: HandoffFilter) -> Mapping[str, Any]:
    return {name: moment_text(value) for name, value in given(**filters).items()}
