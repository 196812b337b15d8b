"""Defines `Party`, the handle with which one agent acts in collaborations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from ekiden.collaboration.ledger import CollaborationLedger, CollaborationReader
from ekiden.collaboration.messages import (
    Drafts,
    MessageChecker,
    check_actor,
    first_terms,
    named_terms,
    plain_json,
    seconds,
    short_text,
    some_text,
)
from ekiden.collaboration.record import Collaboration, Move, Phase, Terms
from ekiden.collaboration.wire import agent_name
from ekiden.core.conversation.messages import MessageType
from ekiden.core.errors import UserError
from ekiden.core.errors.collaboration import NotAParticipant


class Party:
    """The moves (actions) of one agent in collaborations, such as a proposal or a bid.
    `Collaborations.as_agent` returns this object.

    Every move returns the updated collaboration. A move raises `ProtocolError` if the phase does
    not allow the move, and `SenderForged` if another agent's code makes the move. It may also raise
    `NotAParticipant`, `CollaborationNotFound` and `MailboxFull`. A move with a `key` is idempotent:
    a second move with the same key changes nothing. For example::

        sales = collaborations.as_agent("sales")
        offer = await sales.propose("purchasing", {"price": 90, "pieces": 10})
        offer = await sales.wait_for(offer.id, lambda found: found.terms.by == "purchasing")
        await sales.accept(offer.id, offer.terms.version)
    """

    def __init__(
        self,
        name: str,
        ledger: CollaborationLedger,
        gate: MessageChecker,
        *,
        known: Callable[[], Awaitable[Iterable[str]]] | None = None,
    ) -> None:
        self.name = agent_name(name)
        check_actor(self.name)
        self._ledger = ledger
        self._gate = gate
        self._reader = CollaborationReader(ledger)
        self._drafts = Drafts(self.name, ledger)
        self._known = known

    # Requests

    async def request_handoff(
        self,
        target: str,
        task_description: str,
        requirements: Any = None,
        *,
        context: Mapping[str, Any] | None = None,
        deadline_s: float | None = None,
        key: str | None = None,
    ) -> Collaboration:
        """Ask `target` to take over work. The target then acknowledges the request, rejects it, or
        makes a counter-proposal.

        `context` is passed to the `Executor`, which does the agreed work. The key ``session_id`` of
        `context` names the session to hand over.
        """
        terms = {"task": some_text("task_description", task_description)}
        if requirements is not None:
            terms["requirements"] = requirements
        return await self._open("request", terms, [target], context, deadline_s, None, key)

    async def acknowledge(self, collaboration_id: str, *, key: str | None = None) -> Collaboration:
        """Accept a handoff request without changing its terms."""
        record = await self._ledger.load(collaboration_id)
        return await self._send(
            record, "acknowledge", first_terms(record), answers=record.messages[0].id, key=key
        )

    # Calls for bids

    async def call(
        self,
        required: Iterable[str],
        *,
        task: str = "",
        participants: Iterable[str] | None = None,
        requirements: Any = None,
        context: Mapping[str, Any] | None = None,
        deadline_s: float | None = None,
        key: str | None = None,
    ) -> Collaboration:
        """Ask agents to bid for a task that requires these capabilities, without waiting for the
        bids.

        `participants` are the agents to ask; by default all known agents.
        """
        terms: dict[str, Any] = {"required": _names(required), "task": short_text("task", task)}
        if requirements is not None:
            terms["requirements"] = requirements
        others = list(participants) if participants is not None else await self._other_agents()
        bids_s = self._ledger.settings.bids_s if deadline_s is None else deadline_s
        return await self._open("call", terms, others, context, bids_s, None, key)

    async def query_capabilities(
        self,
        required: Iterable[str],
        *,
        task: str = "",
        participants: Iterable[str] | None = None,
        requirements: Any = None,
        context: Mapping[str, Any] | None = None,
        deadline_s: float | None = None,
        key: str | None = None,
    ) -> Collaboration:
        """Call for bids and wait for them, like `call` followed by `collect`. The field
        `ranked_bids` of the result has the bids to choose from."""
        called = await self.call(
            required,
            task=task,
            participants=participants,
            requirements=requirements,
            context=context,
            deadline_s=deadline_s,
            key=key,
        )
        return await self.collect(called.id)

    async def collect(self, collaboration_id: str) -> Collaboration:
        """Wait until all agents that were asked have bid or declined, or the deadline for bids has
        passed."""
        return await self._reader.collected(await self.get(collaboration_id))

    async def bid(
        self, collaboration_id: str, score: float, *, offer: Any = None, key: str | None = None
    ) -> Collaboration:
        """Answer a call for bids.

        `score`, from 0 to 1, says how well the agent can do the work. `offer` (JSON) contains the
        agent's terms. If the initiator awards the bid, the agreement is made. A bid after the
        deadline is stored but does not count.
        """
        if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
            raise UserError(f"a bid's `score` must be a number from 0 to 1, not {score!r:.40}")
        record = await self._ledger.load(collaboration_id)
        body = {**first_terms(record), "score": float(score), "offer": plain_json("offer", offer)}
        return await self._send(record, "bid", body, answers=record.messages[0].id, key=key)

    async def decline(
        self, collaboration_id: str, *, reason: str = "", key: str | None = None
    ) -> Collaboration:
        """Decline a call for bids, or withdraw this agent's bid before it is awarded."""
        record = await self._ledger.load(collaboration_id)
        body = {"reason": short_text("reason", reason)}
        return await self._send(record, "decline", body, answers=record.messages[0].id, key=key)

    async def award(
        self, collaboration_id: str, bidder: str, *, key: str | None = None
    ) -> Collaboration:
        """Accept a bid: the bidder's offer becomes the agreement, and all bidders are notified."""
        record = await self._ledger.load(collaboration_id)
        body = {"bidder": agent_name(bidder, what="`bidder`")}
        return await self._send(record, "award", body, answers=_bid_of(record, bidder), key=key)

    async def select(
        self,
        collaboration_id: str,
        bidder: str,
        *,
        deadline_s: float | None = None,
        key: str | None = None,
    ) -> Collaboration:
        """Start to negotiate with a bidder. The terms of the call and the bidder's offer together
        become the bidder's first proposal."""
        record = await self._ledger.load(collaboration_id)
        limit_s = self._ledger.settings.negotiation_s if deadline_s is None else deadline_s
        body = {
            "bidder": agent_name(bidder, what="`bidder`"),
            "deadline_us": await self._reader.moment_us(seconds("deadline_s", limit_s)),
        }
        return await self._send(record, "select", body, answers=_bid_of(record, bidder), key=key)

    # Negotiations

    async def propose(
        self,
        target: str,
        terms: Any,
        *,
        context: Mapping[str, Any] | None = None,
        deadline_s: float | None = None,
        max_rounds: int | None = None,
        key: str | None = None,
    ) -> Collaboration:
        """Start a negotiation: propose terms (JSON) to `target`. Then both sides must accept the
        terms, the proposer too."""
        return await self._open("propose", terms, [target], context, deadline_s, max_rounds, key)

    async def counter(
        self,
        collaboration_id: str,
        terms: Any,
        *,
        answers: int | str | None = None,
        reason: str = "",
        key: str | None = None,
    ) -> Collaboration:
        """Propose different terms. `answers` may name the terms to replace, by version or digest.
        Raises `RoundsExhausted`, `NotYourTurn` and `TermsSuperseded`."""
        record = await self._ledger.load(collaboration_id)
        current = named_terms(record, answers)
        body = {
            **_reference(current),
            "terms": plain_json("terms", terms),
            "reason": short_text("reason", reason),
        }
        # A counter-proposal to a request rejects the request.
        is_rejection = record.pattern == "request" and current.version == 1
        return await self._send(
            record,
            "counter",
            body,
            answers=current.message_id,
            type="reject" if is_rejection else "negotiate",
            key=key,
        )

    async def accept(
        self, collaboration_id: str, terms: int | str, *, key: str | None = None
    ) -> Collaboration:
        """Accept the current terms. `terms` is their version or digest. The agreement is made when
        both sides have accepted.

        Raises `TermsSuperseded` if these terms are no longer current.
        """
        record = await self._ledger.load(collaboration_id)
        if terms is None:
            raise UserError("name the terms that are accepted, by their version or digest")
        current = named_terms(record, terms)
        return await self._send(
            record, "accept", _reference(current), answers=current.message_id, key=key
        )

    async def reject(
        self,
        collaboration_id: str,
        *,
        reason: str = "",
        counter: Any = None,
        key: str | None = None,
    ) -> Collaboration:
        """Reject the current terms. This ends the collaboration, unless the argument `counter`
        proposes other terms."""
        if counter is not None:
            return await self.counter(collaboration_id, counter, reason=reason, key=key)
        record = await self._ledger.load(collaboration_id)
        current = named_terms(record, None)
        body = {**_reference(current), "reason": short_text("reason", reason)}
        return await self._send(record, "reject", body, answers=current.message_id, key=key)

    async def cancel(
        self, collaboration_id: str, *, reason: str = "", key: str | None = None
    ) -> Collaboration:
        """Cancel the collaboration, in any phase before completion. Only the initiator can cancel a
        call for bids."""
        record = await self._ledger.load(collaboration_id)
        body = {"reason": short_text("reason", reason)}
        return await self._send(record, "cancel", body, answers=record.messages[-1].id, key=key)

    # Reading

    async def get(self, collaboration_id: str) -> Collaboration:
        """Return a collaboration of this agent. Raises `NotAParticipant`."""
        check_actor(self.name)
        found = await self._ledger.look(collaboration_id)
        if self.name not in found.participants:
            raise NotAParticipant(self.name, collaboration_id=found.id)
        return found

    async def list(
        self, *, phases: Sequence[Phase] | None = None, after: str = "", limit: int = 100
    ) -> Sequence[Collaboration]:
        """Return collaborations of this agent whose ids come after `after`, oldest first."""
        check_actor(self.name)
        return await self._reader.list(agent=self.name, phases=phases, after=after, limit=limit)

    async def wait_for(
        self,
        collaboration_id: str,
        until: Callable[[Collaboration], bool] | None = None,
        *,
        timeout_s: float = 30.0,
    ) -> Collaboration:
        """Wait until `until(collaboration)` is true, or the collaboration is closed. Raises
        `TimeoutError` after `timeout_s`.
        """
        await self.get(collaboration_id)
        return await self._reader.wait_for(collaboration_id, until, timeout_s=timeout_s)

    # Within

    async def _open(
        self,
        move: Move,
        terms: Any,
        others: Iterable[str],
        context: Mapping[str, Any] | None,
        deadline_s: float | None,
        max_rounds: int | None,
        key: str | None,
    ) -> Collaboration:
        limit_s = self._ledger.settings.negotiation_s if deadline_s is None else deadline_s
        message = await self._drafts.opening(
            move,
            terms=terms,
            others=others,
            context=context,
            deadline_s=limit_s,
            max_rounds=max_rounds,
            key=key,
        )
        return await self._gate.submit(message, is_own=True)

    async def _send(
        self,
        record: Collaboration,
        move: Move,
        body: Mapping[str, Any],
        *,
        answers: str,
        type: MessageType | None = None,
        key: str | None = None,
    ) -> Collaboration:
        message = await self._drafts.answer(record, move, body, answers=answers, type=type, key=key)
        return await self._gate.submit(message, is_own=True)

    async def _other_agents(self) -> Sequence[str]:
        names = () if self._known is None else await self._known()
        others = [name for name in names if name != self.name]
        if not others:
            raise UserError("no other agent is known that could bid: name the `participants`")
        return others


def _reference(terms: Terms) -> dict[str, Any]:
    return {"version": terms.version, "digest": terms.digest}


def _bid_of(record: Collaboration, bidder: str) -> str:
    """The id of the message with the bid; without a bid, the id of the call."""
    for bid in record.bids:
        if bid.agent == bidder:
            return bid.message_id
    return record.messages[0].id


def _names(required: Iterable[str]) -> list[str]:
    from ekiden.capabilities.declared import requirements

    return [each.text for each in requirements(required)]
