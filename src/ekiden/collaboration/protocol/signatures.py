"""Signatures of the store: its key proves who sent a message.

The key never leaves the store and the processes that use it. An agent's words go through a handle
that acts in its name only, and the handle's messages are signed; a message that somebody puts
together by hand and sends over the bus has no signature that fits.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import replace
from hashlib import sha256
from typing import Final

from ekiden.collaboration.protocol.record import ProtocolMessage
from ekiden.collaboration.protocol.wire import canonical, signed_fields
from ekiden.core.errors import StaleDocument
from ekiden.core.errors.collaboration import CollaborationUnreadable, SignatureInvalid
from ekiden.storage.base import DocumentStore, DocumentWrite

KEYS: Final = "bus.keys"
KEY: Final = "collaboration"
_BYTES: Final = 32


class Signer:
    """Signs and verifies with the store's key, which is made with the first use of the store."""

    def __init__(self, store: DocumentStore) -> None:
        self._store = store
        self._key: bytes | None = None

    async def sign(self, message: ProtocolMessage) -> ProtocolMessage:
        """The message with its signature."""
        return replace(message, signature=self._signature(await self._load(), message))

    async def verify(self, message: ProtocolMessage) -> None:
        """`SignatureInvalid` unless the message is as the store signed it."""
        expected = self._signature(await self._load(), message)
        if not hmac.compare_digest(expected, message.signature):
            raise SignatureInvalid(message.id, message.by)

    @staticmethod
    def _signature(key: bytes, message: ProtocolMessage) -> str:
        return hmac.new(key, canonical(signed_fields(message)), sha256).hexdigest()

    async def _load(self) -> bytes:
        if self._key is None:
            self._key = await self._stored() or await self._made()
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

    async def _made(self) -> bytes:
        key = secrets.token_bytes(_BYTES)
        write = DocumentWrite(
            collection=KEYS, key=KEY, body={"hmac_sha256": key.hex()}, expected_version=0
        )
        try:
            await self._store.write_documents([write])
        except StaleDocument:
            return await self._stored() or await self._made()
        return key
