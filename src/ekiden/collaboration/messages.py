"""Writes and signs messages of the protocol for an agent, and checks messages before they take
effect."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, NoReturn

from ekiden.collaboration.ledger import CollaborationLedger, Step
from ekiden.collaboration.record import MOVES, Collaboration, Move, ProtocolMessage, Terms
from ekiden.collaboration.rules import begin, follow
from ekiden.collaboration.wire import (
    agent_name,
    canonical,
    from_agent_message,
    terms_digest,
    to_agent_message,
)
from ekiden.core.conversation.messages import AgentMessage, MessageType
from ekiden.core.current_agent import acting_agent
from ekiden.core.errors import EkidenError, StaleDocument, UserError
from ekiden.core.errors.collaboration import (
    MessageExpired,
    MessageMalformed,
    MessageRefused,
    MessageReplayed,
    NotAParticipant,
    ProtocolError,
    TermsSuperseded,
)
from ekiden.core.errors.messages import SenderForged
from ekiden.core.values import loads, new_id

_MAX_TEXT = 2_000
_CLOSED_TTL_S = 60.0
_FOR_ALL: frozenset[Move] = frozenset({"call", "award", "select", "cancel"})


def plain_json(what: str, value: Any) -> Any:
    """Return a deep copy of `value`. Raises `UserError` if `value` is not JSON."""
    try:
        return loads(canonical(value))
    except (TypeError, ValueError, RecursionError) as exc:
        raise UserError(f"`{what}` must be JSON: {exc!s:.200}") from exc


def some_text(what: str, value: Any) -> str:
    """Return `value` if it is a text that is not empty. Raises `UserError` otherwise."""
    if not isinstance(value, str) or not value.strip():
        raise UserError(f"`{what}` must be a text that is not empty, not {value!r:.60}")
    return value


def short_text(what: str, value: Any) -> str:
    """Return `value` if it is a text that is not too long. Raises `UserError` otherwise."""
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise UserError(
            f"`{what}` must be a text of at most {_MAX_TEXT} characters, not {value!r:.60}"
        )
    return value


def seconds(what: str, value: Any) -> float:
    """Return `value` if it is a number of seconds above 0. Raises `UserError` otherwise."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not (0 < value <= sys.float_info.max):
        raise UserError(f"`{what}` must be a number of seconds above 0, not {value!r:.40}")
    return float(value)


class Drafts:
    """Writes and signs messages in the name of one agent."""

    def __init__(self, name: str, ledger: CollaborationLedger) -> None:
        self._name = name
        self._ledger = ledger

    async def opening(
        self,
        move: Move,
        *,
        terms: Any,
        others: Iterable[str],
        context: Mapping[str, Any] | None,
        deadline_s: float,
        max_rounds: int | None = None,
        key: str | None = None,
    ) -> AgentMessage:
        """The message that starts a collaboration. Raises `UserError` for invalid arguments."""
        names = [agent_name(each) for each in others]
        settings = self._ledger.settings
        if not names:
            raise UserError("a collaboration needs another participant")
        if self._name in names or len(set(names)) != len(names):
            raise UserError(
                f"each agent takes part once, and {self._name!r} does already: {names!r:.200}"
            )
        rounds = settings.max_rounds if max_rounds is None else max_rounds
        if not isinstance(rounds, int) or not 1 <= rounds <= 1_000:
            raise UserError(
                f"`max_rounds` must be a whole number from 1 to 1000, not {rounds!r:.40}"
            )
        facts = plain_json("context", {} if context is None else context)
        if not isinstance(facts, dict):
            raise UserError(f"`context` must be an object, not {context!r:.60}")
        now_us = await self._ledger.store.now_us()
        deadline_us = now_us + int(seconds("deadline_s", deadline_s) * 1e6)
        body = {
            "terms": plain_json("terms", terms),
            "deadline_us": deadline_us,
            "opening": {
                "participants": [self._name, *names],
                "context": facts,
                "max_rounds": rounds,
                "expires_us": max(deadline_us, now_us + int(settings.lifetime_s * 1e6)),
            },
        }
        if body["terms"] is None:
            raise UserError("`terms` must not be None")
        return await self._signed(
            move,
            collaboration=new_id("col") if key is None else _named("col", self._name, key),
            to=None if move in _FOR_ALL else names[0],
            answers=None,
            body=body,
            ttl_s=(deadline_us - now_us) / 1e6,
            now_us=now_us,
            key=key,
        )

    async def answer(
        self,
        record: Collaboration,
        move: Move,
        body: Mapping[str, Any],
        *,
        answers: str,
        type: MessageType | None = None,
        key: str | None = None,
    ) -> AgentMessage:
        """A message that answers the message with the id `answers` in the same collaboration."""
        now_us = await self._ledger.store.now_us()
        due_us = record.due_us
        left_s = _CLOSED_TTL_S if due_us is None else max((due_us - now_us) / 1e6, 1e-3)
        # In a call there is no partner yet, so the message goes to the initiator.
        other = record.other_side(self._name) or record.initiator
        return await self._signed(
            move,
            collaboration=record.id,
            to=None if move in _FOR_ALL else other,
            answers=answers,
            body=body,
            ttl_s=left_s,
            now_us=now_us,
            key=key,
            type=type,
        )

    async def _signed(
        self,
        move: Move,
        *,
        collaboration: str,
        to: str | None,
        answers: str | None,
        body: Mapping[str, Any],
        ttl_s: float,
        now_us: int,
        key: str | None,
        type: MessageType | None = None,
    ) -> AgentMessage:
        message = ProtocolMessage(
            id=new_id("msg")
            if key is None
            else _named("msg", self._name, move, collaboration, key),
            collaboration=collaboration,
            move=move,
            type=type or MOVES[move].type,
            by=self._name,
            to=to,
            correlation_id=answers,
            created_at=now_us / 1e6,
            ttl=ttl_s,
            body=body,
        )
        return to_agent_message(await self._ledger.signer.sign(message))


def named_terms(record: Collaboration, named: int | str | None) -> Terms:
    """Return the current terms if `named` is their version or digest, or `None`. Otherwise raises
    `TermsSuperseded`."""
    terms = record.terms
    assert terms is not None
    is_version = isinstance(named, int) and not isinstance(named, bool)
    if named is None or named == terms.digest or (is_version and named == terms.version):
        return terms
    raise TermsSuperseded(f"{named!r:.80}", current=terms.version, collaboration_id=record.id)


def first_terms(record: Collaboration) -> dict[str, Any]:
    """The version and digest of the terms in the first message."""
    body = record.messages[0].body["terms"]
    return {"version": 1, "digest": terms_digest(record.id, 1, record.initiator, body)}


def _named(prefix: str, *parts: str) -> str:
    """An id made from the parts, so that a repeated message has the same id."""
    return f"{prefix}_{sha256(canonical(parts)).hexdigest()[:32]}"


_RECORDED = (MessageRefused, NotAParticipant, SenderForged)
"""Errors of forged or wrong messages, not of mistakes: these refusals are recorded."""


def check_actor(name: str) -> None:
    """Raise `SenderForged` if the code of another agent runs now."""
    actual = acting_agent()
    if actual is not None and actual != name:
        raise SenderForged(name, actual=actual)


class MessageChecker:
    """Checks that a message is signed, is new, has not expired, and comes from its true sender."""

    def __init__(self, ledger: CollaborationLedger) -> None:
        self._ledger = ledger

    async def submit(self, message: AgentMessage, *, is_own: bool = False) -> Collaboration:
        """Apply the message once, in one transaction, and return the collaboration after the
        message.

        With `is_own`, a repeated message is not refused as a replay, because its sender made the
        same move again. Then nothing changes. Raises `MessageMalformed`, `SignatureInvalid`,
        `MessageExpired`, `MessageReplayed`, `SenderForged`, `CollaborationNotFound`, `MailboxFull`,
        and the errors of `rules.follow`.
        """
        try:
            parsed = from_agent_message(message, max_bytes=self._ledger.settings.max_message_bytes)
            await self._ledger.signer.verify(parsed)
            check_actor(parsed.by)
            if not MOVES[parsed.move].fits:
                return await self._begin(parsed, is_own=is_own)
            return await self._ledger.change(
                parsed.collaboration,
                lambda record, now_us: self._step(record, parsed, now_us, is_own=is_own),
            )
        except _RECORDED as exc:
            await self.refuse(message, exc)

    async def refuse(self, message: AgentMessage, error: EkidenError) -> NoReturn:
        """Record that a message was refused, and raise the error."""
        payload = message.payload
        about = payload.get("collaboration") if isinstance(payload, dict) else None
        await self._ledger.refuse(
            error,
            collaboration_id=_shown(about),
            message_id=_shown(message.id),
            by=acting_agent() or _shown(message.from_agent),
        )
        raise error

    def _step(
        self, record: Collaboration, message: ProtocolMessage, now_us: int, *, is_own: bool
    ) -> Step | None:
        if record.message(message.id) is not None:
            if is_own:
                return None
            raise MessageReplayed(message.id, record.id)
        _check_age(message, now_us)
        after = follow(record, message, now_us=now_us)
        return Step(record=after, move=message.move, by=message.by, message=message)

    async def _begin(self, message: ProtocolMessage, *, is_own: bool) -> Collaboration:
        ledger = self._ledger
        now_us = await ledger.store.now_us()
        _check_age(message, now_us)
        self._check_opening(message, now_us)
        record = begin(message, now_us=now_us)
        try:
            await ledger.add(record, message, now_us=now_us)
        except StaleDocument:
            return await self._begun_before(message, is_own=is_own)
        return await ledger.load(record.id)

    async def _begun_before(self, message: ProtocolMessage, *, is_own: bool) -> Collaboration:
        found = await self._ledger.look(message.collaboration)
        if found.message(message.id) is None:
            raise ProtocolError(message.move, phase=found.phase, fits=(), collaboration_id=found.id)
        if not is_own:
            raise MessageReplayed(message.id, found.id)
        return found

    def _check_opening(self, message: ProtocolMessage, now_us: int) -> None:
        opening = message.body["opening"]
        count, most = len(opening["participants"]), self._ledger.settings.max_participants
        if count > most:
            raise MessageMalformed(
                f"{count} participants are too many: a collaboration has at most {most}"
            )
        if not now_us < message.body["deadline_us"] <= opening["expires_us"]:
            raise MessageMalformed("the deadline must be in the future, and not after the end")


def _check_age(message: ProtocolMessage, now_us: int) -> None:
    if message.ttl is not None and now_us / 1e6 > message.created_at + message.ttl:
        raise MessageExpired(message.id, message.ttl)


def _shown(value: object) -> str:
    return value[:128] if isinstance(value, str) else f"{value!r:.128}"
