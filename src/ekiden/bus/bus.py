"""`Bus`: the door."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from typing import Any, Literal, Self, overload

from ekiden.bus.checks import check_agent
from ekiden.bus.client import BusClient
from ekiden.bus.exchange import Broadcast, Exchange
from ekiden.bus.message_views import (
    MessagePage,
    MessageQuery,
    MessageRecord,
    dead_letters,
    depths,
    list_messages,
    read_message,
)
from ekiden.bus.serving.service import Handler, Service
from ekiden.bus.settings import BusSettings
from ekiden.bus.waits.deadlocks import Deadlock, deadlocks
from ekiden.bus.waits.stored import blocked
from ekiden.core.checks.fields import checked_arguments
from ekiden.core.conversation.messages import AgentMessage, BlockingContext
from ekiden.core.errors import UserError
from ekiden.core.questions.inbox_item import InboxAnswer, InboxItem, Option
from ekiden.core.roles import Escalator
from ekiden.storage.base import Store
from ekiden.storage.memory import MemoryStore
from ekiden.storage.messages import MessageState, Settled

_DEFAULTS = BusSettings()


class Bus:
    """Carries what agents say to each other: every message is stored before it is delivered.

    All buses on one store, in whatever processes, are one bus. It belongs to one event loop::

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
        """Without a store, messages live in this process's memory. `people` answers what is
        escalated: usually an `Inbox` on the same store."""
        self._own = store is None
        self.store: Store = MemoryStore() if store is None else store
        self.settings = settings
        self._people = people
        self._exchange: Exchange | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        await self.store.open()
        self._closed = False
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Serve nobody any more: handlers are cancelled, and what they had is given back.

        Whoever waits for an answer here gets `BusError`, and its query is cancelled. The store
        stays open, unless it is the bus's own. A second call does nothing.
        """
        self._closed = True
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            await exchange.close()
        if self._own:
            await self.store.close()

    def agent(self, name: str) -> BusClient:
        """Speaks in the name of this agent; `SenderForged` when another one's code uses it."""
        return BusClient(check_agent(name), self._at_work)

    # Sending

    async def send(self, message: AgentMessage) -> str:
        """Store a message and go on; its id. It is delivered when somebody serves the agent, unless
        its `ttl` is over.

        A message whose id was used before changes nothing. `MailboxFull`, at once or after
        `timeout_seconds` as `on_full` says; `SenderForged`; `UserError` for what is no message.
        """
        return await self._at_work().send(message)

    async def query(self, message: AgentMessage) -> AgentMessage:
        """The one answer to a query: a message of the type ``response``.

        A query whose id was used before is not delivered again: its answer is waited for, or, if
        it is there, given. So whoever was killed while it waited asks again with the same id.

        Raises `AgentUnavailableError` at once if nobody serves the agent, `QueryTimeout` after
        `timeout_seconds`, `QueryFailed` with the error of whoever was asked, `DeadlockError` if
        this wait was given up because agents wait for each other, `MailboxFull`, `SenderForged`,
        `UserError`, and `ValueError` for a message of another type.
        """
        exchange = self._at_work()
        if getattr(message, "type", None) != "query":
            raise ValueError(f"only a message of the type 'query' has an answer: {message!r:.80}")
        payload = await exchange.asking.query(message)
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
        """Answer a query for which the handler returned `LATER`.

        What came of it: ``settled``; ``late`` if nobody waits any more, and then the answer is
        stored all the same; or ``no`` if it was answered before, which changes nothing. Only the
        agent that was asked can answer: `SenderForged` for the code of another one, and for a
        program that does not serve it. `MessageNotFound`, `UserError`.
        """
        return await self._at_work().respond(query, payload, by=None)

    async def broadcast(self, message: AgentMessage) -> Broadcast:
        """Store one message for each agent that somebody serves now, but the sender.

        `SenderForged`, `UserError`. An agent whose mailbox is full is left out, and named.
        """
        return await self._at_work().broadcast(message)

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
        """Bring a message of the type ``escalate`` before people: those whose role is its
        `to_agent`, or the one of the settings.

        With `blocking` the answer is waited for, without limit unless the message has a `ttl`;
        whoever is cancelled meanwhile withdraws the question. Otherwise the item is given as it is
        stored. One message is one item: whoever was killed while it waited escalates the message
        again, under the same id, and gets the answer. An option is a text, or a mapping with a
        ``label``. `InboxItemClosed`; `UserError` if the bus knows no people.
        """
        return await self._at_work().escalate(message, blocking=blocking, options=options)

    # Serving

    def serve(self, agent: str, handler: Handler, *, concurrency: int = 1) -> Serving:
        """Let the handler work on the agent's messages, so many at a time.

        What the handler returns is the answer to a query, as JSON; with `LATER` it is given later,
        with `respond`. If it raises, a query is answered with the error at once, and any other
        message is tried again later, and is dead after `max_attempts`. A message is delivered at
        least once: after its process died it comes again, with `redelivered` set and the same id.

        A handler is not cancelled when whoever asked gives up: it may be in the middle of
        something, and its answer is stored as late. It is cancelled after `handler_timeout_s`, and
        when the service is closed. To be used with ``await`` or ``async with``::

            async with bus.serve("sales", sales, concurrency=8):
                ...
        """
        return Serving(self, agent, handler, concurrency)

    def served(self) -> list[str]:
        """The agents that this bus serves."""
        return [] if self._exchange is None else sorted(self._exchange.services)

    async def agents(self) -> list[str]:
        """The agents that anybody serves now, by name."""
        return await self._at_work().agents()

    # Looking

    async def blocked(self) -> list[BlockingContext]:
        """Who waits, for whom and why: those of all processes, and those who wait for people."""
        return await blocked(self.store)

    async def deadlocks(self, *, limit: int = 50) -> list[Deadlock]:
        """Deadlocks that are there now, and those that were broken, the newest first."""
        return await deadlocks(self.store, limit=limit)

    async def message(self, message_id: str) -> MessageRecord:
        """A message and what became of it; `MessageNotFound`, also when it was removed because it
        ended long ago (`keep_s`)."""
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
        """One page of messages with their answers, the oldest first.

        `correlation_id` finds what correlates with it, and the message with that id. A message
        stays for `keep_s` after its end. `UserError` for a malformed cursor.
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
        """Messages that were given up after too many deliveries, the oldest first."""
        return await dead_letters(self.store, agent=agent, limit=limit)

    async def requeue(self, ids: Collection[str]) -> int:
        """Deliver messages again that are dead or expired, as if for the first time; how many.
        `MessageNotFound`, before any is delivered, for an id that no message has.

        Nobody waits for the answer to such a query any more.
        """
        if isinstance(ids, str):
            raise UserError("`requeue` takes a list of ids, not one")
        return await self._at_work().requeue(list(ids))

    async def depths(self) -> dict[str, int]:
        """How many messages each mailbox holds, those that are worked on included."""
        return await depths(self.store)

    def _at_work(self) -> Exchange:
        if self._exchange is None:
            if self._closed:
                raise UserError("the bus is closed: open it again with `async with bus`")
            self._exchange = Exchange(self.store, self.settings, self._people)
        return self._exchange

    async def _serve(self, agent: str, handler: Handler, concurrency: int) -> Service:
        return await self._at_work().serve(agent, handler, concurrency)


class Serving:
    """What `Bus.serve` gives: to be awaited, or entered."""

    __slots__ = ("_agent", "_bus", "_concurrency", "_handler", "_service")

    def __init__(self, bus: Bus, agent: str, handler: Handler, concurrency: int) -> None:
        self._bus = bus
        self._agent = agent
        self._handler = handler
        self._concurrency = concurrency
        self._service: Service | None = None

    def __await__(self) -> Generator[Any, None, Service]:
        return self._bus._serve(self._agent, self._handler, self._concurrency).__await__()

    async def __aenter__(self) -> Service:
        self._service = await self
        return self._service

    async def __aexit__(self, *exc_info: object) -> None:
        if self._service is not None:
            await self._service.close()
