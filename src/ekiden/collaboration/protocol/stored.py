"""Stored collaborations: documents that are read strictly, and the signatures of messages."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

from ekiden.collaboration.protocol.record import (
    AgreedTerms,
    Bid,
    Collaboration,
    CollaborationOutcome,
    ProtocolMessage,
    Terms,
)
from ekiden.collaboration.protocol.wire import canonical, signed_fields
from ekiden.core.errors import StaleDocument
from ekiden.core.errors.collaboration import CollaborationUnreadable, SignatureInvalid
from ekiden.storage.base import Document, DocumentStore, DocumentWrite

COLLABORATIONS: Final = "collaborations"
FORMAT: Final = 1


def record_write(record: Collaboration) -> DocumentWrite:
    """The write of the record; it fails if the stored version is not `record.version` (0: new)."""
    body = {"format": FORMAT, **record.to_json()}
    return DocumentWrite(
        collection=COLLABORATIONS, key=record.id, body=body, expected_version=record.version
    )


def read_record(document: Document) -> Collaboration:
    """The collaboration in a document. Raises `CollaborationUnreadable`."""
    body = document.body
    if isinstance(body, Mapping) and isinstance(body.get("format"), int):
        if body["format"] > FORMAT:
            raise CollaborationUnreadable(
                f"collaboration {document.key} was written by a newer version of Ekiden (format "
                f"{body['format']}, this one reads {FORMAT}): upgrade this program"
            )
        try:
            return _read(document.key, body, document.version)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as exc:
            raise CollaborationUnreadable(
                f"collaboration {document.key} is damaged in the store: {exc!r:.200}"
            ) from exc
    raise CollaborationUnreadable(f"collaboration {document.key} is damaged: it has no format")


def _read(key: str, body: Mapping[str, Any], version: int) -> Collaboration:
    agreed, outcome = body["agreed"], body["outcome"]
    return Collaboration(
        id=key,
        pattern=body["pattern"],
        initiator=body["initiator"],
        participants=tuple(body["participants"]),
        partner=body["partner"],
        phase=body["phase"],
        phases=tuple((phase, at_us) for phase, at_us in body["phases"]),
        messages=tuple(
            ProtocolMessage(collaboration=key, **message) for message in body["messages"]
        ),
        context=body["context"],
        terms=None if body["terms"] is None else Terms(**body["terms"]),
        accepted_by=tuple(body["accepted_by"]),
        agreed=None if agreed is None else _agreed(agreed),
        bids=tuple(Bid(**bid) for bid in body["bids"]),
        declined=tuple(body["declined"]),
        rounds=body["rounds"],
        max_rounds=body["max_rounds"],
        deadline_us=body["deadline_us"],
        expires_us=body["expires_us"],
        attempts=body["attempts"],
        outcome=None if outcome is None else CollaborationOutcome(**outcome),
        version=version,
    )


def _agreed(data: Mapping[str, Any]) -> AgreedTerms:
    return AgreedTerms(terms=Terms(**data["terms"]), by=tuple(data["by"]), at_us=data["at_us"])


# Signatures prove the sender of a message. The key never leaves the store and its processes.
# Messages are signed only in the handle of an agent, which acts in the name of this agent only. A
# forged message on the bus has no valid signature.


KEYS: Final = "bus.keys"
KEY: Final = "collaboration"
_BYTES: Final = 32


class Signer:
    """Signs and verifies messages with the store's key, which is created at its first use."""

    def __init__(self, store: DocumentStore) -> None:
        self._store = store
        self._key: bytes | None = None

    async def sign(self, message: ProtocolMessage) -> ProtocolMessage:
        """The message with its signature."""
        return replace(message, signature=self._signature(await self._load(), message))

    async def verify(self, message: ProtocolMessage) -> None:
        """Raise `SignatureInvalid` if the signature does not match the message."""
        expected = self._signature(await self._load(), message)
        if not hmac.compare_digest(expected, message.signature):
            raise SignatureInvalid(message.id, message.by)

    @staticmethod
    def _signature(key: bytes, message: ProtocolMessage) -> str:
        return hmac.new(key, canonical(signed_fields(message)), sha256).hexdigest()

    async def _load(self) -> bytes:
        if self._key is None:
            self._key = await self._stored() or await self._create()
        return self._key

    async def _stored(self) -> bytes | None:
        document = await self._store.get_document(KEYS, KEY)
        if document is None:
            return None
        try:
            key = bytes.fromhex(document.body["hmac_sha256"])
        except (TypeError, KeyError, ValueError) as exc:
            raise CollaborationUnreadable(f"the document {KEYS}/{KEY} has no key in it") from exc
        if len(key) < _BYTES:
            raise CollaborationUnreadable(f"the key in the document {KEYS}/{KEY} is too short")
        return key

    async def _create(self) -> bytes:
        key = secrets.token_bytes(_BYTES)
        write = DocumentWrite(
            collection=KEYS, key=KEY, body={"hmac_sha256": key.hex()}, expected_version=0
        )
        try:
            await self._store.write_documents([write])
        except StaleDocument:
            return await self._stored() or await self._create()
        return key
