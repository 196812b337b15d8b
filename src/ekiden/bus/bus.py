"""`Bus`, and `BusClient`: the bus as one agent uses it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from typing import Any, Literal, Self, overload

from ekiden.bus.deadlocks import Deadlock, deadlocks
from ekiden.bus.exchange import Broadcast, BusCore
from ekiden.bus.messages import (
    MessagePage,
    MessageQuery,
    MessageRecord,
    check_agent,
    check_contents,
    dead_letters,
    depths,
    list_messages,
    read_message,
)
from ekiden.bus.parts import BusSettings
from ekiden.bus.service import BusService, Handler
from ekiden.bus.waits import blocked
from ekiden.core.checks.fields import checked_arguments
from ekiden.core.conversation.messages import (
    DEFAULT_TIMEOUT_S,
    AgentMessage,
    BlockingContext,
    MessageType,
    new_message,
)
from ekiden.core.errors import UserError
from ekiden.core.questions import Ask, InboxAnswer, InboxItem, Option
from ekiden.core.roles import Escalator
from ekiden.core.values import Priority, priority_number
from ekiden.storage.base import Store
from ekiden.storage.memory import MemoryStore
from ekiden.storage.records import MessageState, Settled

_DEFAULTS = BusSettings()


class Bus:
    """A message bus between agents: every message is stored before it is delivered.

    Processes that use the same store share one bus. A `Bus` object belongs to one event loop::

        async def sales(message: AgentMessage) -> Any:
            return {"customer": message.payload["customer"], "name": "Sato"}

        async with Bus(store) as bus, bus.serve("sales", sales):
            print(await bus.agent("pm").ask("sales", "customer data", {"customer": 42}))
    """

    @checked_arguments
    def __init__(
        self,
        store: Store | None = None,
        *,
        settings: BusSettings = _DEFAULTS,
        people: Escalator | None = None,
    ) -> None:
        """Without a store, messages are kept in the memory of this process. `people` gets escalated
        messages and returns the answers. Usually `people` is an `Inbox` on the same store."""
        self._own = store is None
        self.store: Store = MemoryStore() if store is None else store
        self.settings = settings
        self._people = people
        self._exchange: BusCore | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        await self.store.open()
        self._closed = False
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop serving agents. Handlers are cancelled, and their messages return to the mailboxes
        of the agents.

        Callers that wait for the answer to a query get `BusError`, and these queries are cancelled.
        A store passed to the constructor stays open. A second call does nothing.
        """
        self._closed = True
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            await exchange.close()
        if self._own:
            await self.store.close()

    def agent(self, name: str) -> BusClient:
        """Return a client that sends messages as the agent `name`. Raises `SenderForged` if the
        code of an agent with a different name calls this method."""
        return BusClient(check_agent(name), self._core)

    # Sending

    async def send(self, message: AgentMessage) -> str:
        """Store a message and return its id. The message is delivered as soon as a process serves
        the receiving agent. If the message expires first, it is not delivered (see
        `AgentMessage.ttl`).

        If the store already has a message with this id, nothing changes. Raises `MailboxFull` if
        the mailbox of the receiving agent is full, either at once or after the `timeout_seconds` of
        the message (see `BusSettings.on_full`). Raises `SenderForged` if the caller is the code of
        another agent, and `UserError` for an invalid message.
        """
        return await self._core().send(message)

    async def query(self, message: AgentMessage) -> AgentMessage:
        """Send a query and return its answer: a message of the type ``response``.

        If the store already has a query with this id, the call does not deliver the query again.
        The call then returns the stored answer, or waits for it. After a crash you can therefore
        repeat a query with the same id.

        Raises `AgentUnavailableError` at once if no process serves the asked agent. Raises
        `QueryTimeout` after the `timeout_seconds` of the message, and `QueryFailed` with the error
        of the asked agent. Raises `DeadlockError` if agents wait for each other and this query was
        cancelled to end the deadlock. Raises `ValueError` if the message is not a query. Also
        raises the errors of `send`.
        """
        exchange = self._core()
        if getattr(message, "type", None) != "query":
            raise ValueError(f"only a message of the type 'query' has an answer: {message!r:.80}")
        payload = await exchange.queries.query(message)
        return AgentMessage(
            type="response",
            from_agent=message.to_agent or "",
            to_agent=message.from_agent,
            subject=message.subject,
            payload=payload,
            priority=message.priority,
            correlation_id=message.id,
            id=f"{message.id}.answer",
            task=message.task,
        )

    async def respond(self, query: AgentMessage, payload: Any = None) -> Settled:
        """Answer a query whose handler returned `LATER` instead of an answer.

        Returns ``settled`` if the asking agent gets the answer. Returns ``late`` if that agent no
        longer waits; the answer is still stored. Returns ``no``, and changes nothing, if the query
        was already answered. Only the asked agent can answer. Raises `SenderForged` if the caller
        is the code of another agent, or a program that does not serve the asked agent. Also raises
        `MessageNotFound` if the store does not have this query, and `UserError` for an invalid
        answer.
        """
        return await self._core().respond(query, payload, by=None)

    async def broadcast(self, message: AgentMessage) -> Broadcast:
        """Store one message for each agent that any process serves now, except the sender.

        Agents with a full mailbox do not get the message. The result names these agents. Raises
        `SenderForged` if the caller is the code of another agent, and `UserError` for an invalid
        message.
        """
        return await self._core().broadcast(message)

    @overload
    async def escalate(
        self,
        message: AgentMessage,
        *,
        blocking: Literal[True] = True,
        options: Sequence[Option] = (),
    ) -> InboxAnswer: ...

    @overload
    async def escalate(
        self, message: AgentMessage, *, blocking: Literal[False], options: Sequence[Option] = ()
    ) -> InboxItem: ...

    async def escalate(
        self, message: AgentMessage, *, blocking: bool = True, options: Sequence[Option] = ()
    ) -> InboxAnswer | InboxItem:
        """Send a message of the type ``escalate`` to people. The field `to_agent` of the message is
        the role of these people; the default is `BusSettings.role`.

        With `blocking` the call waits for the answer until the `ttl` of the message ends. Without a
        `ttl` the wait has no limit. If you cancel the call, the question is withdrawn. Without
        `blocking` the call returns the stored inbox item at once. Each message creates only one
        inbox item, even if you escalate the message several times. After a crash, escalate the
        message again with the same id to get the answer. Each of the `options` is a text, or a
        mapping with a ``label``. Raises `InboxItemClosed` if the question expired or was withdrawn,
        and `UserError` if the bus has no inbox.
        """
        return await self._core().escalate(message, blocking=blocking, options=options)

    # Serving

    def serve(self, agent: str, handler: Handler, *, concurrency: int = 1) -> PendingService:
        """Handle the agent's messages with `handler`, up to `concurrency` at a time.

        The handler returns the answer to a query, as JSON. It can also return `LATER`, and answer
        with `respond` later. If the handler raises an exception for a query, the asking agent gets
        the error at once. If the handler raises an exception for any other message, the message is
        retried later. After `BusSettings.max_attempts` attempts the message becomes a dead letter.
        Each message is delivered at least once. If the process dies, the message is delivered
        again, with the same id and with `redelivered` set.

        A handler is cancelled after `BusSettings.handler_timeout_s`, and when the returned service
        is closed. If the asking agent stops waiting, the handler keeps running, because it may have
        side effects. Its answer is then stored, but the asking agent does not get it. Use the
        returned service with ``await`` or ``async with``::

            async with bus.serve("sales", sales, concurrency=8):
                ...
        """
        return PendingService(self, agent, handler, concurrency)

    def served(self) -> list[str]:
        """The agents that this bus serves."""
        return [] if self._exchange is None else sorted(self._exchange.services)

    async def agents(self) -> list[str]:
        """The agents that any process serves now, sorted by name."""
        return await self._core().agents()

    # Reading

    async def blocked(self) -> list[BlockingContext]:
        """Return the agents that wait for an answer, in all processes. Each entry names a waiting
        agent, the agents or people that it waits for, and the reason."""
        return await blocked(self.store)

    async def deadlocks(self, *, limit: int = 50) -> list[Deadlock]:
        """Return the current deadlocks, followed by past deadlocks, newest first."""
        return await deadlocks(self.store, limit=limit)

    async def message(self, message_id: str) -> MessageRecord:
        """Return a message and its delivery state. Raises `MessageNotFound` if the store has no
        message with this id. Finished messages are removed after `BusSettings.keep_s` seconds."""
        return await read_message(self.store, message_id)

    async def messages(
        self,
        *,
        sender: str | None = None,
        recipient: str | None = None,
        task: str | None = None,
        correlation_id: str | None = None,
        state: MessageState | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> MessagePage:
        """One page of messages with their answers, oldest first.

        `correlation_id` selects the messages with this correlation id, and the message whose own id
        has this value. A finished message is kept for `BusSettings.keep_s` seconds. To read the
        next page, pass `next_cursor` of this page as `cursor`. Raises `UserError` for a malformed
        cursor.
        """
        query = MessageQuery(
            sender=sender,
            recipient=recipient,
            task=task,
            correlation_id=correlation_id,
            state=state,
        )
        return await list_messages(self.store, query, limit=limit, cursor=cursor)

    async def dead_letters(
        self, *, agent: str | None = None, limit: int = 100
    ) -> list[MessageRecord]:
        """Dead letters: messages that reached the maximum number of delivery attempts, oldest
        first."""
        return await dead_letters(self.store, agent=agent, limit=limit)

    async def requeue(self, ids: Collection[str]) -> int:
        """Deliver dead or expired messages again, as if they were new, and return the number of
        these messages. If the store does not have one of the messages, this method raises
        `MessageNotFound` and delivers none.

        The sender of a requeued query no longer waits for the answer.
        """
        if isinstance(ids, str):
            raise UserError("`requeue` takes a list of ids, not one")
        return await self._core().requeue(list(ids))

    async def depths(self) -> dict[str, int]:
        """The number of messages in the mailbox of each agent, including messages that a handler is
        processing."""
        return await depths(self.store)

    def _core(self) -> BusCore:
        if self._exchange is None:
            if self._closed:
                raise UserError("the bus is closed: open it again with `async with bus`")
            self._exchange = BusCore(self.store, self.settings, self._people)
        return self._exchange

    async def _serve(self, agent: str, handler: Handler, concurrency: int) -> BusService:
        return await self._core().serve(agent, handler, concurrency)


class PendingService:
    """The result of `Bus.serve`, for ``await`` or ``async with``."""

    __slots__ = ("_agent", "_bus", "_concurrency", "_handler", "_service")

    def __init__(self, bus: Bus, agent: str, handler: Handler, concurrency: int) -> None:
        self._bus = bus
        self._agent = agent
        self._handler = handler
        self._concurrency = concurrency
        self._service: BusService | None = None

    def __await__(self) -> Generator[Any, None, BusService]:
        return self._bus._serve(self._agent, self._handler, self._concurrency).__await__()

    async def __aenter__(self) -> BusService:
        self._service = await self
        return self._service

    async def __aexit__(self, *exc_info: object) -> None:
        if self._service is not None:
            await self._service.close()


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
            raise UserError(f"a question must be an `Ask`, not {question!r:.60}")
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
