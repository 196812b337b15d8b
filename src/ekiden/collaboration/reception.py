"""Receives messages of the protocol for an agent: verifies them, answers them, and bids."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ekiden.collaboration.ledger import CollaborationLedger
from ekiden.collaboration.messages import MessageChecker
from ekiden.collaboration.party import Party
from ekiden.collaboration.protocol.record import Collaboration, Move, ProtocolMessage
from ekiden.collaboration.protocol.wire import copy_id, from_agent_message, is_protocol
from ekiden.core.conversation.messages import AgentMessage
from ekiden.core.errors import UserError
from ekiden.core.errors.collaboration import (
    AnsweredAlready,
    CollaborationNotFound,
    MessageExpired,
    MessageRefused,
    MessageReplayed,
    NotAParticipant,
    ProtocolError,
    SignatureInvalid,
    TermsSuperseded,
)

if TYPE_CHECKING:
    from ekiden.capabilities import CapabilityMatcher
    from ekiden.core.agent import Agent


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The offer of a bid: how well an agent can do the work, and its terms."""

    score: float
    """0 to 1."""
    offer: Any = None
    """The offered terms, as JSON."""


BidFunction: TypeAlias = Callable[[Collaboration], Awaitable[Offer | None]]
"""A function that returns the agent's offer for a call, or `None` to decline. ``call.terms.body``
has ``required``, ``task`` and ``requirements``."""


def capability_bid(agent: Agent[Any], *, min_score: float = 0.5) -> BidFunction:
    """Return a bid function for `Collaborations.handler`. The bid is the score of the agent's own
    capabilities; below `min_score` the agent does not bid."""
    from ekiden.capabilities import CapabilityMatcher

    matcher = CapabilityMatcher()
    matcher.register(agent.name, agent.capabilities)
    return matcher_bid(matcher, agent.name, min_score=min_score)


def matcher_bid(matcher: CapabilityMatcher, agent: str, *, min_score: float = 0.5) -> BidFunction:
    """Return a bid function for `Collaborations.handler`. The bid is the current score of the agent
    in `matcher`; an unavailable agent does not bid."""

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
    """A message to an agent, with a handle to answer it."""

    message: ProtocolMessage
    collaboration: Collaboration
    """The current state of the collaboration. It may have changed since the message was sent."""
    party: Party
    """A handle that acts as the receiving agent."""
    is_answered: bool = False
    """Whether this message was delivered again and the agent has already answered it."""

    @property
    def move(self) -> Move:
        """The sender's move."""
        return self.message.move


Respond: TypeAlias = Callable[[Incoming], Awaitable[Any]]
"""A function that handles a message of the protocol; its result is ignored."""
Otherwise: TypeAlias = Callable[[AgentMessage], Awaitable[Any]]
"""A function that handles other messages; its result is the answer to a query."""

_TOO_LATE = (ProtocolError, TermsSuperseded, AnsweredAlready)


class Reception:
    """Verifies the messages for one agent, and passes them to its functions."""

    def __init__(self, party: Party, ledger: CollaborationLedger, gate: MessageChecker) -> None:
        self._party = party
        self._ledger = ledger
        self._gate = gate

    async def receive(self, message: AgentMessage) -> Incoming:
        """Verify and read a message.

        Raises `CollaborationNotFound`. Refusals are recorded, and raise `MessageMalformed`,
        `SignatureInvalid`, `MessageExpired`, `MessageReplayed` or `NotAParticipant`.
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
        """Receive a message, and let the agent answer it. Refused messages are dropped."""
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
