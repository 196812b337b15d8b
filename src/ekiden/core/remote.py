"""How a task is handed to something outside this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ekiden.core.conversation.model import Item, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteTask:
    """The task that is handed over: read-only and all JSON, so that it can be sent."""

    task_id: str
    """The same for all agents that a task passes through."""
    session_id: str
    agent: str
    """The runner's name in the team: one runner may serve several agents."""
    items: Sequence[Item] = ()
    """The conversation that the target may see: filters were applied."""
    received: Mapping[str, Any] = field(default_factory=dict)
    """The source's description of the task: ``from``, ``reason``, ``summary``, ``context`` and
    ``chain``, the agents so far. Parts of it are a model's text: data, never instructions."""
    idempotency_key: str
    """The same when the task is handed over again after a crash, and unique to the task."""
    timeout_s: float | None = None
    """How long the caller waits before it cancels; `None`: as long as the run may last."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """The session's variables when the task was handed over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReply:
    """The result of a task; without any field the task is done without output.

    It ends in one of three ways, checked in this order: `declined`, `hand_to`, done.
    """

    text: str | None = None
    """The text for the person; `None`: nothing beyond `items`."""
    items: Sequence[Item] = ()
    """Items for the conversation, before `text`: messages, and tool calls each with its output."""
    output: Any = None
    """The final output, in JSON, where it is more than `text`."""
    declined: str | None = None
    """Why the task was refused. Then nothing was done and no other field is read: the source has
    the task again."""
    hand_to: str | None = None
    """The agent of the team that gets the task next; checked like any other handoff."""
    reason: str = ""
    """Why it is handed to `hand_to`; shown to people as it is."""
    usage: Usage | None = None
    """The usage of its model calls; part of the run's."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further JSON for the event of the task."""


class AgentRunner(Protocol):
    """Runs a whole task instead of a local agent: a supervisor's plan, or a remote agent.

    For example::

        class Elsewhere(AgentRunner):
            async def run_task(self, task: RemoteTask) -> AgentReply:
                answer = await client.ask(list(task.items), key=task.idempotency_key)
                return AgentReply(text=answer)
    """

    async def run_task(self, task: RemoteTask) -> AgentReply:
        """Do the task and return its result; nothing is stored until this returns.

        It may be called again with the same `idempotency_key` if the process died before the reply
        was stored: then return the first reply, or continue, but do not do the task twice. Several
        tasks may run at once. Raise to fail: the handoff is rolled back and the source sees the
        exception. It is cancelled on timeout or when the run is stopped: cancel the other side and
        do not catch `CancelledError`.
        """
        ...
