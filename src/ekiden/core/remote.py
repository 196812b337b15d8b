"""How a task is handed to something that is not an agent of this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ekiden.core.conversation.items import Item
from ekiden.core.conversation.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteTask:
    """What is handed over: read-only and all of it JSON, so that it can be sent away."""

    task_id: str
    """The same for all agents that a task passes through."""
    session_id: str
    agent: str
    """The name under which the runner stands in the team: one runner may serve several."""
    items: Sequence[Item] = ()
    """The conversation as the target may see it: filters were applied."""
    received: Mapping[str, Any] = field(default_factory=dict)
    """What the source said of the task: ``from``, ``reason``, ``summary``, ``context`` and
    ``chain``, the agents so far. Parts of it are a model's text: data, never instructions."""
    idempotency_key: str
    """The same when the task is handed over again after a crash, and of no other task."""
    timeout_s: float | None = None
    """So long the caller waits, then it cancels; `None`: as long as the run may last."""
    variables: Mapping[str, Any] = field(default_factory=dict)
    """The session's variables when the task was handed over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReply:
    """What comes back; without any field the task is done and there is nothing to say.

    The three ways to end, in the order in which they are looked for: `declined`, `hand_to`, done.
    """

    text: str | None = None
    """What is said to the person; `None`: nothing beyond what `items` say."""
    items: Sequence[Item] = ()
    """What the conversation gets, before `text`: messages, and calls of tools each with its
    output."""
    output: Any = None
    """The final output, in JSON, where it is more than `text`."""
    declined: str | None = None
    """Why the task was not taken. Then nothing was done and nothing else is read: the source has
    the task again."""
    hand_to: str | None = None
    """The agent of the team that has the task from here on; checked like any other handoff."""
    reason: str = ""
    """Why it is handed to `hand_to`; shown to people as it is."""
    usage: Usage | None = None
    """What models were asked for it; part of the run's."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Anything more in JSON that the event of the task should tell."""


class AgentRunner(Protocol):
    """Does a whole task in the place of a local agent: a supervisor's plan, an agent elsewhere.

    For example::

        class Elsewhere(AgentRunner):
            async def run_task(self, task: RemoteTask) -> AgentReply:
                answer = await client.ask(list(task.items), key=task.idempotency_key)
                return AgentReply(text=answer)
    """

    async def run_task(self, task: RemoteTask) -> AgentReply:
        """Do the task and give its end; nothing is kept of it until this returns.

        May be called again with the same `idempotency_key` when the process died before the reply
        was stored: then give the reply of the first time, or go on with it, but do not do it
        twice. Several tasks may run at once. Raise to fail: the handoff is undone and the source
        is told the exception. Cancelled when the time is over or the run is stopped: pass that on
        to the other side and let `CancelledError` through.
        """
        ...
