"""The class `BusClient`: the bus as one agent uses it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

from ekiden.bus.exchange import Broadcast, BusCore
from ekiden.bus.messages import check_contents
from ekiden.core.conversation.messages import (
    DEFAULT_TIMEOUT_S,
    AgentMessage,
    MessageType,
    new_message,
)
from ekiden.core.errors import UserError
from ekiden.core.questions import Ask, InboxAnswer, InboxItem, Option
from ekiden.core.values import Priority, priority_number
from ekiden.storage.records import Settled


class BusClient:
    """Acts on the bus as one agent. `Bus.agent` returns this object.

    For example::

        pm = bus.agent("pm")
        customer = await pm.ask("sales", "customer data", {"customer": 42})
        await pm.send("audit", "looked up", {"customer": 42}, priority="low")
    """

    __slots__ = ("_exchange", "name")

    def __init__(self, name: str, exchange: Callable[[], BusCore]) -> None:
        self.name = name
        self._exchange = exchange

    def __repr__(self) -> str:
        return f"<BusClient {self.name!r}>"

    async def send(
        self,
        to: str,
        subject: str,
        payload: Any = None,
        *,
        priority: Priority | int = "normal",
        ttl: float | None = None,
        type: MessageType = "notify",
        correlation_id: str | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> str:
        """Store a message for an agent and return its id.

        The message waits until a process serves the agent, at most `ttl` seconds (`None` means no
        limit). `timeout_s` is the time to wait for space in a full mailbox. See `Bus.send`.
        """
        exchange = self._exchange()
        message = AgentMessage(
            type=type,
            from_agent=self.name,
            to_agent=to,
            subject=subject,
            payload=payload,
            priority=priority_number(priority),
            correlation_id=correlation_id,
            timeout_seconds=timeout_s,
            ttl=ttl,
            id=exchange.next_id(),
        )
        return await exchange.send(message)

    async def ask(
        self,
        to: str,
        subject: str,
        payload: Any = None,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        priority: Priority | int = "normal",
    ) -> Any:
        """Query another agent, and return its answer as JSON. Raises the same errors as
        `Bus.query`."""
        exchange = self._exchange()
        message = new_message(
            type="query",
            from_agent=self.name,
            to_agent=to,
            subject=subject,
            payload=payload,
            priority=2 if priority == "normal" else priority_number(priority),
            timeout_seconds=timeout_s,
            id=exchange.next_id(),
        )
        payload = check_contents(message, exchange.settings)
        return await exchange.queries.ask(message, payload)

    async def ask_all(self, questions: Sequence[Ask]) -> list[Any]:
        """Ask several questions at the same time, and return the answers in the order of the
        questions.

        If no process serves one of the agents, this method raises `AgentUnavailableError` at once,
        and sends no query. If a query fails for another reason, the first failure is raised after
        all queries have ended.
        """
        if not questions:
            return []
        exchange = self._exchange()
        return await exchange.queries.ask_all([self._query(exchange, each) for each in questions])

    async def ask_any(self, questions: Sequence[Ask]) -> tuple[str, Any]:
        """Ask several agents. Return the first successful answer and the agent that gave it, and
        cancel the other queries.

        Agents that no process serves are skipped. If all queries fail, the last failure is raised.
        """
        if not questions:
            raise UserError("`ask_any` needs at least one question")
        exchange = self._exchange()
        asked, answer = await exchange.queries.ask_any(
            [self._query(exchange, each) for each in questions]
        )
        return asked.to_agent or "", answer

    async def respond(self, query: AgentMessage, payload: Any = None) -> Settled:
        """Answer a query as this agent after the handler returned `LATER`. See `Bus.respond`."""
        return await self._exchange().respond(query, payload, by=self.name)

    async def broadcast(
        self,
        subject: str,
        payload: Any = None,
        *,
        priority: Priority | int = "normal",
        ttl: float | None = None,
        type: MessageType = "broadcast",
    ) -> Broadcast:
        """Send a message to every other agent that a process serves now. See `Bus.broadcast`."""
        exchange = self._exchange()
        message = AgentMessage(
            type=type,
            from_agent=self.name,
            subject=subject,
            payload=payload,
            priority=priority_number(priority),
            ttl=ttl,
            id=exchange.next_id(),
        )
        return await exchange.broadcast(message)

    @overload
    async def escalate(
        self,
        subject: str,
        payload: Any = None,
        *,
        blocking: Literal[True] = True,
        options: Sequence[Option] = (),
        priority: Priority | int = "normal",
        role: str | None = None,
    ) -> InboxAnswer: ...

    @overload
    async def escalate(
        self,
        subject: str,
        payload: Any = None,
        *,
        blocking: Literal[False],
        options: Sequence[Option] = (),
        priority: Priority | int = "normal",
        role: str | None = None,
    ) -> InboxItem: ...

    async def escalate(
        self,
        subject: str,
        payload: Any = None,
        *,
        blocking: bool = True,
        options: Sequence[Option] = (),
        priority: Priority | int = "normal",
        role: str | None = None,
    ) -> InboxAnswer | InboxItem:
        """Ask or notify the people with a role. See `Bus.escalate`."""
        exchange = self._exchange()
        message = AgentMessage(
            type="escalate",
            from_agent=self.name,
            to_agent=role,
            subject=subject,
            payload=payload,
            priority=priority_number(priority),
            id=exchange.next_id(),
        )
        return await exchange.escalate(message, blocking=blocking, options=options)

    def _query(self, exchange: BusCore, question: Ask) -> AgentMessage:
        if not isinstance(question, Ask):
            raise UserError(f"a question is an `Ask`, not {question!r:.60}")
        return AgentMessage(
            type="query",
            from_agent=self.name,
            to_agent=question.agent,
            subject=question.subject,
            payload=question.payload,
            priority=priority_number(question.priority),
            timeout_seconds=question.timeout_s,
            id=exchange.next_id(),
        )
