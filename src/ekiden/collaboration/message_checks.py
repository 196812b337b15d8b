"""The one check that every message passes before it joins a collaboration."""

from __future__ import annotations

from typing import NoReturn

from ekiden.collaboration.ledger import Ledger, Step
from ekiden.collaboration.protocol.record import MOVES, Collaboration, ProtocolMessage
from ekiden.collaboration.protocol.rules import begin, follow
from ekiden.collaboration.protocol.wire import from_agent_message
from ekiden.core.conversation.messages import AgentMessage
from ekiden.core.current_agent import acting_agent
from ekiden.core.errors import EkidenError, StaleDocument
from ekiden.core.errors.collaboration import (
    MessageExpired,
    MessageMalformed,
    MessageRefused,
    MessageReplayed,
    NotAParticipant,
    ProtocolError,
)
from ekiden.core.errors.messages import SenderForged

_RECORDED = (MessageRefused, NotAParticipant, SenderForged)
"""Not mistakes but tries: what is refused with these is put on record."""


def check_actor(name: str) -> None:
    """`SenderForged` if another agent's code runs now: an agent cannot use another's name."""
    actual = acting_agent()
    if actual is not None and actual != name:
        raise SenderForged(name, actual=actual)


class MessageChecker:
    """Lets messages in that are signed, fresh, new, and said by whom they say."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def submit(self, message: AgentMessage, *, is_own: bool = False) -> Collaboration:
        """Do what a message says, once, as one transaction, and give the collaboration after it.

        With `is_own`, a message that was let in before is no replay but the same thing said again
        by its sender: nothing is done. Raises `MessageMalformed`, `SignatureInvalid`,
        `MessageExpired`, `MessageReplayed`, `SenderForged`, `CollaborationNotFound`,
        `MailboxFull`, and what `rules.follow` raises.
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
        """Put on record that a message was refused, and raise the error."""
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
                f"{count} participants are more than the {most} that a collaboration may have"
            )
        if not now_us < message.body["deadline_us"] <= opening["expires_us"]:
            raise MessageMalformed("the deadline must be in the future, and not after the end")


def _check_age(message: ProtocolMessage, now_us: int) -> None:
    if message.ttl is not None and now_us / 1e6 > message.created_at + message.ttl:
        raise MessageExpired(message.id, message.ttl)


def _shown(value: object) -> str:
    return value[:128] if isinstance(value, str) else f"{value!r:.128}"
