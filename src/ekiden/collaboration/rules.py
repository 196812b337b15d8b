"""The effects of messages on a collaboration: pure functions, without store, clock or bus.

Only `follow` computes the next state of a collaboration. It raises `NotAParticipant`,
`ProtocolError`, `NotYourTurn`, `AnsweredAlready`, `TermsSuperseded`, `RoundsExhausted` or
`MessageMalformed` if the message is not allowed in the current state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from ekiden.collaboration.record import (
    MOVES,
    SYSTEM,
    WAYS,
    AgreedTerms,
    Bid,
    BidState,
    Collaboration,
    CollaborationOutcome,
    Move,
    Pattern,
    Phase,
    ProtocolMessage,
    Terms,
)
from ekiden.collaboration.wire import terms_digest
from ekiden.core.errors.collaboration import (
    AnsweredAlready,
    MessageMalformed,
    NotAParticipant,
    NotYourTurn,
    ProtocolError,
    RoundsExhausted,
    TermsSuperseded,
)

_PATTERNS: Final[Mapping[Move, Pattern]] = {
    "call": "broadcast",
    "request": "request",
    "propose": "negotiate",
}


def begin(message: ProtocolMessage, *, now_us: int) -> Collaboration:
    """The collaboration that a `call`, `request` or `propose` starts."""
    move, opening = message.move, message.body["opening"]
    names = tuple(opening["participants"])
    if names[0] != message.by:
        raise MessageMalformed(
            "the first participant must be the agent that starts the collaboration"
        )
    is_call = move == "call"
    if not is_call and names[1:] != (message.to,):
        raise MessageMalformed(f"a {move} has exactly one other participant: its receiver")
    new = Collaboration(
        id=message.collaboration,
        pattern=_PATTERNS[move],
        initiator=message.by,
        participants=names,
        partner=None if is_call else message.to,
        phase="discovery",
        phases=(("discovery", now_us),),
        messages=(message,),
        context=opening["context"],
        terms=_terms(message, version=1, by=message.by, body=message.body["terms"]),
        # A requester has accepted its own terms; a proposer has not.
        accepted_by=(message.by,) if move == "request" else (),
        rounds=0 if is_call else 1,
        max_rounds=opening["max_rounds"],
        deadline_us=message.body["deadline_us"],
        expires_us=opening["expires_us"],
    )
    return new if is_call else _go(new, "negotiation", now_us=now_us)


def follow(record: Collaboration, message: ProtocolMessage, *, now_us: int) -> Collaboration:
    """Return the collaboration after the message. The message is added to the collaboration's
    messages."""
    move = message.move
    if MOVES[move].by_system != (message.by == SYSTEM):
        raise NotAParticipant(message.by, collaboration_id=record.id)
    if message.by != SYSTEM and message.by not in record.participants:
        raise NotAParticipant(message.by, collaboration_id=record.id)
    check_fit(record, move)
    after = _EFFECTS[move](record, message, now_us)
    return replace(after, messages=(*record.messages, message))


def check_fit(record: Collaboration, move: Move) -> None:
    """Raise `ProtocolError` if the move is not allowed in this phase."""
    fits = MOVES[move].fits
    if record.phase not in fits:
        raise ProtocolError(
            move, phase=record.phase, fits=fits, collaboration_id=record.id, why=_why(record)
        )


def started(record: Collaboration, *, now_us: int) -> Collaboration:
    """The collaboration after another start of its execution."""
    if record.phase == "execution":
        return replace(record, attempts=record.attempts + 1)
    check_fit(record, "execute")
    return replace(_go(record, "execution", now_us=now_us), attempts=1)


def _bid(record: Collaboration, message: ProtocolMessage, now_us: int) -> Collaboration:
    _check_invited(record, message)
    _check_named(record, message)
    if any(bid.agent == message.by for bid in record.bids) or message.by in record.declined:
        raise AnsweredAlready("answered the call", message.by, collaboration_id=record.id)
    state: BidState = "counts" if now_us < record.deadline_us else "late"
    bid = Bid(
        agent=message.by,
        score=message.body["score"],
        offer=message.body["offer"],
        state=state,
        at_us=now_us,
        message_id=message.id,
    )
    return replace(record, bids=(*record.bids, bid))


def _decline(record: Collaboration, message: ProtocolMessage, now_us: int) -> Collaboration:
    _check_invited(record, message)
    if message.by in record.declined:
        raise AnsweredAlready("declined", message.by, collaboration_id=record.id)
    bids = tuple(
        replace(bid, state="withdrawn") if bid.agent == message.by else bid for bid in record.bids
    )
    return replace(record, bids=bids, declined=(*record.declined, message.by))


def _award(record: Collaboration, message: ProtocolMessage, now_us: int) -> Collaboration:
    """With the bid, the bidder accepted the call with its own offer; with the award, the initiator
    does."""
    after = _choose(record, message, now_us)
    return _agree(after, (after.sides[1], after.sides[0]), now_us)


def _select(record: Collaboration, message: ProtocolMessage, now_us: int) -> Collaboration:
    """The bid becomes the bidder's proposal."""
    after = _choose(record, message, now_us)
    return replace(after, deadline_us=message.body["deadline_us"])


def _choose(record: Collaboration, message: ProtocolMessage, now_us: int) -> Collaboration:
    _check_initiator(record, message.by)
    bidder = message.body["bidder"]
    bid = next((each for each in record.ranked_bids if each.agent == bidder), None)
    if bid is None:
        raise NotAParticipant(
            bidder, collaboration_id=record.id, needed="a bidder whose bid counts"
        )
    _check_answers(message, bid.message_id)
    called = record.terms
    assert called is not None
    body = {**called.body, "offer": bid.offer}
    terms = Terms(
        version=called.version + 1,
        by=bidder,
        body=body,
        digest=terms_digest(record.id, called.version + 1, bidder, body),
        message_id=bid.message_id,
    )
    chosen = replace(record, partner=bidder, terms=terms, accepted_by=(), rounds=1)
    return _go(chosen, "negotiation", now_us=now_us)


def _accept(record: Collaboration, message: ProtocolMessage, now_us: int) -> Collaboration:
    _check_side(record, message.by)
    _check_named(record, message)
    if message.by in record.accepted_by:
        raise AnsweredAlready("accepted these terms", message.by, collaboration_id=record.id)
    accepted = (*record.accepted_by, message.by)
    if len(accepted) < len(record.sides):
        return replace(record, accepted_by=accepted)
    return _agree(record, accepted, now_us)


def _acknowledge(record: Collaboration, message: ProtocolMessage, now_us: int) -> Collaboration:
    if record.pattern != "request" or message.by != record.partner:
        raise NotAParticipant(
            message.by, collaboration_id=record.id, needed="the agent that got the request"
        )
    return _accept(record, message, now_us)


def _counter(record: Collaboration, message: ProtocolMessage, now_us: int) -> Collaboration:
    terms = _check_turn(record, message)
    if record.rounds >= record.max_rounds:
        raise RoundsExhausted(record.max_rounds, collaboration_id=record.id)
    new = _terms(message, version=terms.version + 1, by=message.by, body=message.body["terms"])
    return replace(record, terms=new, accepted_by=(), rounds=record.rounds + 1)


def _reject(record: Collaboration, message: ProtocolMessage, now_us: int) -> Collaboration:
    _check_turn(record, message)
    return _close(record, "cancelled", "rejected", message, now_us)


def _cancel(record: Collaboration, message: ProtocolMessage, now_us: int) -> Collaboration:
    _check_side(record, message.by)
    if record.message(message.correlation_id) is None:
        raise MessageMalformed("a cancel answers a message of its collaboration")
    return _close(record, "cancelled", "cancelled", message, now_us)


def _expire(record: Collaboration, message: ProtocolMessage, now_us: int) -> Collaboration:
    return _close(record, "expired", "expired", message, now_us)


def _complete(record: Collaboration, message: ProtocolMessage, now_us: int) -> Collaboration:
    outcome = CollaborationOutcome(by=SYSTEM, **message.body["outcome"])
    return replace(_go(record, "completion", now_us=now_us), outcome=outcome)


_EFFECTS: Final[Mapping[Move, Callable[[Collaboration, ProtocolMessage, int], Collaboration]]] = {
    "bid": _bid,
    "decline": _decline,
    "award": _award,
    "select": _select,
    "acknowledge": _acknowledge,
    "counter": _counter,
    "accept": _accept,
    "reject": _reject,
    "cancel": _cancel,
    "complete": _complete,
    "expire": _expire,
}


def _go(record: Collaboration, phase: Phase, *, now_us: int) -> Collaboration:
    assert phase in WAYS[record.phase], f"{record.phase} to {phase}"
    return replace(record, phase=phase, phases=(*record.phases, (phase, now_us)))


def _agree(record: Collaboration, accepted: tuple[str, ...], now_us: int) -> Collaboration:
    assert record.terms is not None
    agreed = AgreedTerms(terms=record.terms, by=accepted, at_us=now_us)
    after = replace(record, accepted_by=accepted, agreed=agreed)
    return _go(after, "agreement", now_us=now_us)


def _close(
    record: Collaboration, phase: Phase, status: Any, message: ProtocolMessage, now_us: int
) -> Collaboration:
    outcome = CollaborationOutcome(
        status=status, by=message.by, reason=message.body.get("reason", "")
    )
    return replace(_go(record, phase, now_us=now_us), outcome=outcome)


def _terms(message: ProtocolMessage, *, version: int, by: str, body: Any) -> Terms:
    return Terms(
        version=version,
        by=by,
        body=body,
        digest=terms_digest(message.collaboration, version, by, body),
        message_id=message.id,
    )


def _check_named(record: Collaboration, message: ProtocolMessage) -> Terms:
    """The current terms. Raises `TermsSuperseded` if the message names other terms, and
    `MessageMalformed` if it answers another message."""
    terms, body = record.terms, message.body
    assert terms is not None
    if (body["version"], body["digest"]) != (terms.version, terms.digest):
        named = f"of version {body['version']} ({body['digest'][:12]}…)"
        raise TermsSuperseded(named, current=terms.version, collaboration_id=record.id)
    _check_answers(message, terms.message_id)
    return terms


def _check_turn(record: Collaboration, message: ProtocolMessage) -> Terms:
    _check_side(record, message.by)
    terms = _check_named(record, message)
    if terms.by == message.by:
        raise NotYourTurn(message.move, message.by, collaboration_id=record.id)
    return terms


def _check_answers(message: ProtocolMessage, answered: str) -> None:
    if message.correlation_id != answered:
        raise MessageMalformed(
            f"this {message.move} answers message {answered}, but its correlation id is "
            f"{message.correlation_id!r:.90}"
        )


def _check_side(record: Collaboration, agent: str) -> None:
    if agent not in record.sides:
        raise NotAParticipant(agent, collaboration_id=record.id, needed="one of the two parties")


def _check_initiator(record: Collaboration, agent: str) -> None:
    if agent != record.initiator:
        raise NotAParticipant(agent, collaboration_id=record.id, needed="the initiator")


def _check_invited(record: Collaboration, message: ProtocolMessage) -> None:
    if message.by == record.initiator:
        raise NotAParticipant(
            message.by, collaboration_id=record.id, needed="one of the called agents"
        )
    _check_answers(message, record.messages[0].id)


def _why(record: Collaboration) -> str:
    outcome = record.outcome
    if outcome is not None:
        reason = f": {outcome.reason!r:.200}" if outcome.reason else ""
        return f"{outcome.status} by {outcome.by}{reason}"
    return ""
