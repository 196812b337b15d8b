"""`BusCore`: serves agents, sends messages and broadcasts, and escalates messages to people."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import count
from typing import Any

from ekiden.bus.mailboxes import MailboxWriter
from ekiden.bus.messages import check_agent, check_message, check_sender, copied_payload, requeue
from ekiden.bus.parts import BusParts, BusSettings
from ekiden.bus.presence import OWNER
from ekiden.bus.queries import BusQueries
from ekiden.bus.service import BusService, Handler
from ekiden.bus.store_reader import StoreReader
from ekiden.core.conversation.messages import AgentMessage, answer_json
from ekiden.core.current_agent import ACTING
from ekiden.core.errors import UserError
from ekiden.core.errors.messages import BusError, MailboxFull, MessageNotFound, SenderForged
from ekiden.core.questions import InboxAnswer, InboxItem, Option, option_texts
from ekiden.core.roles import Escalator
from ekiden.core.values import check_id, new_id
from ekiden.storage.base import Store
from ekiden.storage.records import MessageFilter, MessageSettle, Settled

_CLOSED = "the bus was closed while the answer was waited for"

_MAX_OPTIONS = 50
_MAX_OPTION = 200


async def escalation_item(
    message: AgentMessage,
    options: Sequence[Option],
    *,
    blocking: bool,
    settings: BusSettings,
    store: Store,
) -> InboxItem:
    """Create the inbox item of an escalated message. Raises `UserError` for an invalid message."""
    if message.type != "escalate":
        raise UserError(
            f"a message to people must have the type 'escalate', not {message.type!r:.40}"
        )
    texts = option_texts(options)
    if len(texts) > _MAX_OPTIONS or any(len(text) > _MAX_OPTION for text in texts):
        raise UserError(
            f"`options` has at most {_MAX_OPTIONS} texts of at most {_MAX_OPTION} characters"
        )
    now_us = await store.now_us()
    payload = message.payload
    return InboxItem(
        id=item_id(message.id),
        kind="escalation",
        from_agent=message.from_agent,
        subject=message.subject,
        body=payload if isinstance(payload, str) else "",
        context=None if isinstance(payload, str) else payload,
        options=texts,
        priority=message.priority,
        created_at_us=now_us,
        deadline_us=None if message.ttl is None else now_us + int(message.ttl * 1e6),
        role=message.to_agent or settings.role,
        task_id=message.task,
        correlation_id=message.correlation_id,
        notice=not blocking,
    )


def item_id(message_id: str) -> str:
    """The id of the inbox item of a message, so that a repeated escalation finds the same item."""
    name = f"{message_id}.item"
    try:
        # A message may have a longer id than an inbox item.
        return check_id(name, what="id of an inbox item")
    except UserError:
        return f"{sha256(name.encode()).hexdigest()}.item"


@dataclass(frozen=True, slots=True, kw_only=True)
class Broadcast:
    """The recipients of a broadcast."""

    id: str
    """The id of the message. Each agent got a copy, which has an id of its own and this id as
    correlation id."""
    reached: tuple[str, ...] = ()
    """The agents that got the message."""
    full: tuple[str, ...] = ()
    """The agents that did not get the message because their mailboxes are full."""


class BusCore:
    """An open bus."""

    def __init__(self, store: Store, settings: BusSettings, people: Escalator | None) -> None:
        owner = new_id(OWNER.rstrip("_"))
        self.settings = settings
        self._parts = BusParts(store, settings, owner)
        self._people = people
        self.services: dict[str, BusService] = {}
        """The services that take messages, by agent."""
        self._named: dict[str, BusService] = {}
        """All services by agent, including those that are starting or closing."""
        self._reader = StoreReader(self._parts, self.services)
        self._mailboxes = MailboxWriter(self._parts, self.services, self._reader)
        self.queries = BusQueries(self._parts, self.services, self._reader, self._mailboxes)
        self._questions: set[asyncio.Task[InboxAnswer]] = set()
        """Open questions to people."""
        self._prefix = f"{new_id('msg')}-"
        self._numbers = count(1)

    def next_id(self) -> str:
        """A new id for a message."""
        return f"{self._prefix}{next(self._numbers)}"

    async def serve(self, agent: str, handler: Handler, concurrency: int) -> BusService:
        """Handle the agent's messages with the handler. See `Bus.serve`."""
        check_agent(agent)
        if not callable(handler):
            raise UserError(f"a handler must be an async function, not {handler!r:.60}")
        if type(concurrency) is not int or concurrency < 1:
            raise UserError(
                f"`concurrency` must be a whole number above 0, not {concurrency!r:.40}"
            )
        if agent in self._named:
            raise UserError(
                f"this bus already serves {agent!r}: use a higher `concurrency`, or from "
                "another bus on the same store"
            )
        service = BusService(self._parts, agent, handler, concurrency, self._closing, self._closed)
        # The name is taken before the first await, so that two calls cannot both serve the agent.
        self._named[agent] = service
        try:
            await self._parts.presence.enter(agent, concurrency)
            others, _ = await self._parts.presence.reclaim(agent, thoroughly=True)
            if service.is_closing:
                raise BusError(f"the bus was closed while it began to serve {agent!r}")
            # While no other process serves the agent, messages sent here are stored as already
            # taken by this service.
            service.alone = not others
        except BaseException:
            await service.close()
            raise
        self.services[agent] = service
        self._reader.start()
        return service

    async def send(self, message: AgentMessage) -> str:
        """Store a message whose sender does not wait for an answer. See `Bus.send`."""
        payload = check_message(message, self._parts.settings)
        check_sender(message.from_agent, self._parts.inherited)
        if message.type == "escalate":
            await self.escalate(message, blocking=False, options=())
            return message.id
        if message.to_agent is None:
            raise UserError("a message without `to_agent` is a broadcast: use `broadcast`")
        if message.type == "query":
            raise UserError("a query waits for its answer: use `query`, or send another type")
        await self._mailboxes.send(message, payload)
        return message.id

    async def broadcast(self, message: AgentMessage) -> Broadcast:
        """Store one message for each agent that any process serves now, except the sender."""
        payload = check_message(message, self._parts.settings)
        check_sender(message.from_agent, self._parts.inherited)
        if message.to_agent is not None:
            raise UserError("a broadcast goes to all agents: leave out `to_agent`, or use `send`")
        if message.type in ("query", "response"):
            raise UserError(f"a {message.type} cannot be a broadcast: use `BusClient.ask_all`")
        reached, full = [], []
        for agent in await self._parts.presence.served_agents():
            if agent == message.from_agent:
                continue
            copy = replace(
                message,
                id=f"{message.id}/{agent}",
                to_agent=agent,
                payload=payload,
                correlation_id=message.correlation_id or message.id,
            )
            try:
                await self._mailboxes.send(
                    copy, copied_payload(payload, self._parts.settings, "", "")
                )
                reached.append(agent)
            except MailboxFull:
                full.append(agent)
        return Broadcast(id=message.id, reached=tuple(reached), full=tuple(full))

    async def respond(self, query: AgentMessage, payload: object, *, by: str | None) -> Settled:
        """Answer a query whose handler returned `LATER`. See `Bus.respond`."""
        agent = await self._asked_agent(query)
        acting = ACTING.get() or self._parts.inherited
        claimed = acting or by or (agent if agent in self.services else "a program")
        if claimed != agent or by not in (None, agent):
            raise SenderForged(agent, actual=claimed if claimed != agent else by or "")
        own = copied_payload(payload, self._parts.settings, "the answer to message {!r}", query.id)
        answer = answer_json(own)
        settle = MessageSettle(key=query.id, state="answered", answer=answer)
        settled = await self._parts.writer.settle(settle)
        if settled == "settled":
            self._parts.waits.end(query.id, "answered", answer)
            self._parts.room.freed(agent)
        service = self.services.get(agent)
        if service is not None:
            service.drop(query.id)
        return settled

    async def escalate(
        self, message: AgentMessage, *, blocking: bool, options: Sequence[Option]
    ) -> InboxAnswer | InboxItem:
        """Send a message to people. See `Bus.escalate`."""
        check_message(message, self._parts.settings)
        check_sender(message.from_agent, self._parts.inherited)
        if self._people is None:
            raise UserError("this bus has no inbox: create it as Bus(store, people=Inbox(store))")
        item = await escalation_item(
            message,
            options,
            blocking=blocking,
            settings=self._parts.settings,
            store=self._parts.store,
        )
        if blocking:
            return await self._await_answer(self._people.ask_person(item))
        return await self._people.post(item)

    async def requeue(self, keys: Sequence[str]) -> int:
        """Deliver dead or expired messages again. See `Bus.requeue`."""
        # Before the write: a message that is open again must not be dropped as a finished one.
        self._parts.writer.reopened(keys)
        return await requeue(self._parts.store, keys)

    async def agents(self) -> list[str]:
        """The agents that any process serves now, sorted by name."""
        return await self._parts.presence.served_agents()

    async def close(self) -> None:
        """Stop all services and waits."""
        # First, because a handler of a closing service may wait for a person.
        for question in self._questions:
            question.cancel()
        for service in list(self._named.values()):
            await service.close()
        await self._parts.waits.end_all(_CLOSED)
        if self._questions:
            await asyncio.wait(self._questions)
        # Last, because services and waits that are ending still need the answers that it reads.
        await self._reader.stop()
        await self._parts.finish()

    async def _await_answer(self, asking: Coroutine[Any, Any, InboxAnswer]) -> InboxAnswer:
        """The answer of people; `BusError` if the bus is closed first, which cancels the item."""
        question = self._parts.loop.create_task(asking)
        self._questions.add(question)
        question.add_done_callback(self._questions.discard)
        try:
            return await question
        except asyncio.CancelledError:
            task = asyncio.current_task()
            # The caller was cancelled; otherwise `close` cancelled the question.
            if task is not None and task.cancelling():
                raise
            raise BusError(_CLOSED) from None

    def _closing(self, service: BusService) -> None:
        self.services.pop(service.agent, None)

    def _closed(self, service: BusService) -> None:
        # Not earlier: the service removes the agent's presence document when it closes, which would
        # hide a new service from other processes.
        del self._named[service.agent]

    async def _asked_agent(self, query: AgentMessage) -> str:
        """The agent that was asked, according to the store: the caller's copy could be forged."""
        if type(query) is not AgentMessage or query.type != "query":
            raise UserError(f"only a query has an answer, not {query!r:.80}")
        service = self.services.get(query.to_agent or "")
        if service is not None and service.has(query.id) is not None:
            return service.agent
        rows = await self._parts.store.find_messages(MessageFilter(keys=(query.id,)), limit=1)
        if not rows or not isinstance(rows[0].body, dict) or rows[0].body.get("type") != "query":
            raise MessageNotFound(query.id)
        return str(rows[0].body.get("to_agent"))
