"""Defines `Collaborations`, the entry point of the collaboration protocol. Receives the messages of
agents."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ekiden.collaboration.execution import Executions, Executor
from ekiden.collaboration.ledger import (
    TIMER,
    CollaborationLedger,
    CollaborationReader,
    CollaborationSettings,
)
from ekiden.collaboration.messages import MessageChecker
from ekiden.collaboration.party import Party
from ekiden.collaboration.record import Collaboration, Move, Phase, ProtocolMessage
from ekiden.collaboration.wire import (
    COLLABORATIONS,
    copy_id,
    from_agent_message,
    is_protocol,
    read_record,
)
from ekiden.core.conversation.messages import AgentMessage
from ekiden.core.errors import StaleDocument, UserError
from ekiden.core.errors.collaboration import (
    AnsweredAlready,
    CollaborationError,
    CollaborationNotFound,
    MessageExpired,
    MessageRefused,
    MessageReplayed,
    NotAParticipant,
    ProtocolError,
    SignatureInvalid,
    TermsSuperseded,
)
from ekiden.core.values import new_id
from ekiden.storage.base import DocumentWrite, Store
from ekiden.storage.timers import due_timers, next_due_us, remove_timer

if TYPE_CHECKING:
    from ekiden.bus import Bus
    from ekiden.capabilities import CapabilityMatcher
    from ekiden.core.agent import Agent


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The content of a bid: how well an agent can do the work, and the agent's terms."""

    score: float
    """How well the agent can do the work, from 0 to 1 (best)."""
    offer: Any = None
    """The offered terms, as JSON."""


BidFunction: TypeAlias = Callable[[Collaboration], Awaitable[Offer | None]]
"""A function that gets a call for bids and returns the agent's offer, or `None` to decline.
``call.terms.body`` has ``required``, ``task`` and ``requirements``."""


def capability_bid(agent: Agent[Any], *, min_score: float = 0.5) -> BidFunction:
    """Return a function that answers calls for bids, for the argument `bid` of
    `Collaborations.handler`. The function compares the agent's capabilities with the required ones,
    and bids with the resulting score. If the score is below `min_score`, the agent declines."""
    from ekiden.capabilities import CapabilityMatcher

    matcher = CapabilityMatcher()
    matcher.register(agent.name, agent.capabilities)
    return matcher_bid(matcher, agent.name, min_score=min_score)


def matcher_bid(matcher: CapabilityMatcher, agent: str, *, min_score: float = 0.5) -> BidFunction:
    """Return a function that answers calls for bids, for the argument `bid` of
    `Collaborations.handler`. The function bids with the current score that `matcher` gives the
    agent. An unavailable agent, or an agent with a score below `min_score`, declines."""

    async def bid(call: Collaboration) -> Offer | None:
        terms = call.terms
        assert terms is not None
        required = terms.body.get("required", [])
        await matcher.prepare(required)
        for match in matcher.find(required, min_score=min_score, available_only=True):
            if match.agent == agent:
                return Offer(score=match.score, offer={"missing": list(match.missing)})
        return None

    return bid


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A message of the collaboration protocol to an agent. The agent answers with methods of
    `party`."""

    message: ProtocolMessage
    collaboration: Collaboration
    """The current state of the collaboration. It may have changed since the message was sent."""
    party: Party
    """The `Party` of the agent that received the message."""
    is_answered: bool = False
    """Whether this message was delivered again and the agent has already answered it."""

    @property
    def move(self) -> Move:
        """The sender's action in the protocol, such as ``propose`` or ``accept``."""
        return self.message.move


Respond: TypeAlias = Callable[[Incoming], Awaitable[Any]]
"""A function that handles a message of the protocol. Its result is ignored."""
Otherwise: TypeAlias = Callable[[AgentMessage], Awaitable[Any]]
"""A function that handles messages outside of the protocol. Its result is the answer to a query."""

_TOO_LATE = (ProtocolError, TermsSuperseded, AnsweredAlready)


class Reception:
    """Verifies the messages for one agent, and passes them to the agent's functions."""

    def __init__(self, party: Party, ledger: CollaborationLedger, gate: MessageChecker) -> None:
        self._party = party
        self._ledger = ledger
        self._gate = gate

    async def receive(self, message: AgentMessage) -> Incoming:
        """Verify and read a message.

        Raises `CollaborationNotFound`. If the message is invalid, this method records the refusal
        and raises `MessageMalformed`, `SignatureInvalid`, `MessageExpired`, `MessageReplayed` or
        `NotAParticipant`.
        """
        try:
            parsed = from_agent_message(message, max_bytes=self._ledger.settings.max_message_bytes)
            await self._ledger.signer.verify(parsed)
            return await self._checked(parsed, message)
        except (MessageRefused, NotAParticipant) as exc:
            await self._gate.refuse(message, exc)

    async def handle(
        self,
        message: AgentMessage,
        *,
        respond: Respond | None,
        bid: BidFunction | None,
        otherwise: Otherwise | None,
    ) -> Any:
        """Receive a message, and let the agent answer it. Invalid messages are dropped."""
        if not is_protocol(message):
            if otherwise is None:
                raise UserError(f"{self._party.name!r} takes messages of collaborations only")
            return await otherwise(message)
        try:
            incoming = await self.receive(message)
        except (MessageRefused, NotAParticipant, CollaborationNotFound):
            return None
        if incoming.is_answered:
            return None
        try:
            if incoming.move == "call" and bid is not None:
                await self._bid(incoming, bid)
            elif respond is not None:
                await respond(incoming)
        except _TOO_LATE:
            # The collaboration has changed in the meantime, so the answer is dropped.
            return None
        return None

    async def _checked(self, parsed: ProtocolMessage, message: AgentMessage) -> Incoming:
        name = self._party.name
        record = await self._ledger.look(parsed.collaboration)
        known = record.message(parsed.id)
        if known is None or known.signature != parsed.signature:
            raise SignatureInvalid(parsed.id, parsed.by)
        if message.to_agent != name or parsed.to not in (None, name):
            raise NotAParticipant(
                name, collaboration_id=record.id, needed=f"a receiver of message {parsed.id}"
            )
        if name not in record.participants:
            raise NotAParticipant(name, collaboration_id=record.id)
        number = None if parsed.to is not None else record.participants.index(name)
        is_answered = any(
            each.by == name and each.correlation_id == parsed.id for each in record.messages
        )
        # A copy has the id that the ledger gave it, and after the answer only the bus may deliver
        # it again.
        if message.id != copy_id(parsed, number) or (is_answered and not message.redelivered):
            raise MessageReplayed(parsed.id, record.id)
        now_us = await self._ledger.store.now_us()
        if parsed.ttl is not None and now_us / 1e6 > parsed.created_at + parsed.ttl:
            raise MessageExpired(parsed.id, parsed.ttl)
        return Incoming(
            message=parsed, collaboration=record, party=self._party, is_answered=is_answered
        )

    async def _bid(self, incoming: Incoming, bid: BidFunction) -> None:
        offered = await bid(incoming.collaboration)
        if offered is None:
            await self._party.decline(incoming.collaboration.id)
        else:
            await self._party.bid(incoming.collaboration.id, offered.score, offer=offered.offer)


_PAGE = 100


async def run_due(store: Store, *, now_us: int | None = None) -> int:
    """Expire overdue collaborations of a store, and return how many collaborations were checked."""
    return len(await expire_due(CollaborationLedger(store, CollaborationSettings()), now_us=now_us))


async def expire_due(
    ledger: CollaborationLedger, *, now_us: int | None = None
) -> list[Collaboration]:
    """Expire overdue collaborations, and return their new states."""
    store = ledger.store
    now_us = await store.now_us() if now_us is None else now_us
    checked: list[Collaboration] = []
    for timer in await due_timers(store, now_us=now_us, kind=TIMER, limit=_PAGE):
        with suppress(CollaborationError):
            found = await ledger.look(timer.id)
            checked.append(found)
            if found.due_us == timer.due_us:
                continue
        # Expiring removes the timer. A timer that is left belongs to a deleted collaboration.
        await remove_timer(store, timer)
    return checked


async def cleanup(store: Store, *, older_than_s: float) -> int:
    """Remove collaborations that were closed at least this long ago, and return their number.

    A collaboration is kept until its first message has expired. Otherwise a repetition of this
    message would start the collaboration again.
    """
    now = (await store.now_us()) / 1e6
    count, after = 0, ""
    while True:
        page = await store.list_documents(COLLABORATIONS, after=after, limit=_PAGE)
        for document in page:
            after = document.key
            with suppress(CollaborationError, StaleDocument):
                if not _is_old(read_record(document), now, older_than_s):
                    continue
                removal = DocumentWrite(
                    collection=COLLABORATIONS,
                    key=document.key,
                    body=None,
                    expected_version=document.version,
                )
                await store.write_documents([removal])
                count += 1
        if len(page) < _PAGE:
            return count


def _is_old(record: Collaboration, now: float, older_than_s: float) -> bool:
    closed_at, first = record.completed_at, record.messages[0]
    if closed_at is None or closed_at > now - older_than_s:
        return False
    return first.ttl is not None and first.created_at + first.ttl < now


_log = logging.getLogger("ekiden.collaboration")

_LOOK_S = 5.0
"""The store is checked after this many seconds even without a hint of a change."""
_DEFAULTS = CollaborationSettings()
DAY_S = 86_400.0


class Collaborations:
    """Lets agents agree on work through messages of a bus.

    A collaboration is the stored record of one negotiation and its agreement. Any process that uses
    the same store can continue it. With an `executor`, `resume` and `run` also execute the
    agreements. For example::

        collaborations = Collaborations(bus, executor=handoffs)
        sales = collaborations.as_agent("sales")
        asked = await sales.request_handoff("billing", "Refund order 7.")
        await collaborations.as_agent("billing").acknowledge(asked.id)
        [done] = await collaborations.resume()
        print(done.outcome)
    """

    def __init__(
        self,
        bus: Bus,
        *,
        executor: Executor | None = None,
        settings: CollaborationSettings = _DEFAULTS,
    ) -> None:
        self._bus = bus
        self._ledger = CollaborationLedger(
            bus.store, settings, mailbox_bound=bus.settings.mailbox_bound
        )
        self._gate = MessageChecker(self._ledger)
        self._reader = CollaborationReader(self._ledger)
        self._executions = (
            None if executor is None else Executions(self._ledger, executor, new_id("executor"))
        )

    @property
    def settings(self) -> CollaborationSettings:
        """The settings passed to the constructor."""
        return self._ledger.settings

    def as_agent(self, name: str) -> Party:
        """Return a `Party`, with which the agent `name` takes part in collaborations. Raises
        `SenderForged` if the caller is the code of another agent."""
        return Party(name, self._ledger, self._gate, known=self._bus.agents)

    # Messages

    async def submit(self, message: AgentMessage) -> Collaboration:
        """Process a signed message of the collaboration protocol that another program or process
        sent.

        Forged, changed, expired and repeated messages are refused and recorded. Raises
        `SignatureInvalid`, `MessageReplayed`, `MessageExpired`, `MessageMalformed`, `SenderForged`,
        and the errors that the `Party` methods raise.
        """
        return await self._gate.submit(message)

    async def receive(self, agent: str, message: AgentMessage) -> Incoming:
        """Verify and read a message of the collaboration protocol from the agent's mailbox.

        An invalid message is refused and recorded, and raises the same errors as in `submit`.
        """
        return await self._reception(agent).receive(message)

    def handler(
        self,
        agent: str | Agent[Any],
        respond: Respond | None = None,
        *,
        bid: BidFunction | None = None,
        otherwise: Otherwise | None = None,
    ) -> Callable[[AgentMessage], Awaitable[Any]]:
        """The `Bus.serve` handler of an agent that takes part in collaborations.

        The handler verifies messages of the collaboration protocol. It passes calls for bids to
        `bid`, and the other protocol messages to `respond`. If `agent` is an `Agent` and `bid` is
        `None`, the agent bids according to its capabilities. Messages outside of the protocol are
        passed to `otherwise`. If the collaboration changes before `respond` or `bid` answers, the
        answer is dropped. For example::

            async def respond(incoming: Incoming) -> None:
                if incoming.move == "request":
                    await incoming.party.acknowledge(incoming.collaboration.id)

            async with bus.serve("billing", collaborations.handler("billing", respond)):
                ...
        """
        name = agent if isinstance(agent, str) else agent.name
        if bid is None and not isinstance(agent, str):
            bid = capability_bid(agent)
        reception = self._reception(name)

        async def handle(message: AgentMessage) -> Any:
            return await reception.handle(message, respond=respond, bid=bid, otherwise=otherwise)

        return handle

    # Reading

    async def get(self, collaboration_id: str) -> Collaboration:
        """Return the current state of the collaboration. Raises `CollaborationNotFound`."""
        return await self._ledger.look(collaboration_id)

    async def list(
        self,
        *,
        agent: str | None = None,
        phases: Sequence[Phase] | None = None,
        after: str = "",
        limit: int = 100,
    ) -> Sequence[Collaboration]:
        """List collaborations, oldest first, optionally filtered by agent and phase. To read the
        next page, pass the id of the last collaboration as `after`."""
        return await self._reader.list(agent=agent, phases=phases, after=after, limit=limit)

    # Work

    async def resume(self) -> Sequence[Collaboration]:
        """Do all work that is due: expire overdue collaborations, and execute agreements.

        If a process dies, its unfinished work is due as soon as its lease expires. If the handoff
        of an agreement is in progress, this call checks whether the handoff has ended. Returns the
        collaborations that ended.
        """
        ended = [each for each in await expire_due(self._ledger) if each.is_closed]
        if self._executions is None:
            return ended
        due, _ = await self._executions.due(look_again=True)
        slots = asyncio.Semaphore(self.settings.concurrency)

        async def execute(collaboration_id: str) -> Collaboration | None:
            async with slots:
                return await self._execute(collaboration_id)

        done = await asyncio.gather(*map(execute, due))
        return [*ended, *(each for each in done if each is not None)]

    async def run(self) -> None:
        """Call `resume` whenever work becomes due, until this call is cancelled."""
        running: set[str] = set()
        async with asyncio.TaskGroup() as group:

            async def execute(collaboration_id: str) -> None:
                try:
                    await self._execute(collaboration_id)
                finally:
                    running.discard(collaboration_id)

            while True:
                await expire_due(self._ledger)
                next_us: int | None = None
                if self._executions is not None:
                    due, next_us = await self._executions.due(look_again=False)
                    free = self.settings.concurrency - len(running)
                    for collaboration_id in [each for each in due if each not in running][:free]:
                        running.add(collaboration_id)
                        group.create_task(execute(collaboration_id))
                await self._ledger.store.wait_for_change(await self._pause_s(next_us))

    async def cleanup(self, older_than_s: float = DAY_S) -> int:
        """Delete collaborations that were closed at least `older_than_s` seconds ago, and return
        their number. Open collaborations are kept."""
        if not older_than_s >= 0:
            raise UserError(f"`older_than_s` must be 0 or more, not {older_than_s!r:.40}")
        return await cleanup(self._ledger.store, older_than_s=older_than_s)

    # Within

    def _reception(self, agent: str) -> Reception:
        return Reception(self.as_agent(agent), self._ledger, self._gate)

    async def _execute(self, collaboration_id: str) -> Collaboration | None:
        assert self._executions is not None
        try:
            return await self._executions.execute(collaboration_id)
        except CollaborationError as exc:
            # A damaged or busy collaboration must not block the others.
            _log.warning("collaboration %s was not executed: %s", collaboration_id, exc)
            return None

    async def _pause_s(self, next_us: int | None) -> float:
        store = self._ledger.store
        now_us = await store.now_us()
        due_us = await next_due_us(store)
        # An overdue timer of another kind must not keep this loop busy.
        moments = [next_us, due_us if due_us is not None and due_us > now_us else None]
        left = [(moment - now_us) / 1e6 for moment in moments if moment is not None]
        return max(min([*left, _LOOK_S]), 0.001)
