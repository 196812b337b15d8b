"""Converts and signs messages of the protocol for the bus, and reads and writes stored
collaborations."""

from __future__ import annotations

import hmac
import json
import math
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final, TypeAlias

from ekiden.collaboration.record import (
    MOVES,
    SYSTEM,
    AgreedTerms,
    Bid,
    Collaboration,
    CollaborationOutcome,
    Move,
    ProtocolMessage,
    Terms,
)
from ekiden.core.conversation.messages import AgentMessage, MessageType
from ekiden.core.errors import StaleDocument, UserError
from ekiden.core.errors.collaboration import (
    CollaborationUnreadable,
    MessageMalformed,
    SignatureInvalid,
)
from ekiden.core.values import NOT_IN_NAMES
from ekiden.storage.base import Document, DocumentStore, DocumentWrite

_ENCODER = json.JSONEncoder(
    ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False
)
PROTOCOL: Final = "ekiden.collaboration/1"
_SUBJECT: Final = "collaboration"
_MAX_NAME: Final = 200
_MAX_REASON: Final = 2_000
_MAX_US: Final = 2**53
_ID = re.compile(r"[A-Za-z0-9_\-.:@]{1,128}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NOT_JSON = (TypeError, ValueError, RecursionError)


def canonical(value: Any) -> bytes:
    """JSON as bytes, independent of the order of keys.

    Raises `TypeError`, `ValueError` or `RecursionError` for a value that is not JSON.
    """
    return _ENCODER.encode(value).encode("ascii")


def terms_digest(collaboration_id: str, version: int, by: str, body: Any) -> str:
    """The digest of these terms. It covers the collaboration, the version, the proposing agent and
    the content."""
    return sha256(canonical([collaboration_id, version, by, body])).hexdigest()


Check: TypeAlias = Callable[[Any], bool]


def agent_name(value: object, *, what: str = "an agent's name") -> str:
    """Return `value` if a participant may have this name. Raises `UserError` otherwise."""
    if not _is_name(value):
        raise UserError(
            f"{what} is a text of 1 to {_MAX_NAME} characters without #, control characters and "
            f"line breaks, and not {SYSTEM!r}; it is {value!r:.80}"
        )
    return str(value)


def is_id(value: object) -> bool:
    """Whether a collaboration or a message may have this id."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def is_protocol(message: AgentMessage) -> bool:
    """Whether the message presents itself as a message of the protocol."""
    payload = message.payload
    return isinstance(payload, Mapping) and payload.get("protocol") == PROTOCOL


def to_agent_message(
    message: ProtocolMessage, *, receiver: str | None = None, number: int | None = None
) -> AgentMessage:
    """Convert the message for the bus. A message to all participants has a numbered copy for each
    receiver."""
    return AgentMessage(
        type=message.type,
        from_agent=message.by,
        to_agent=receiver or message.to,
        subject=_SUBJECT,
        payload={**_payload(message), "signature": message.signature},
        correlation_id=message.correlation_id,
        ttl=message.ttl,
        id=copy_id(message, number),
        created_at=message.created_at,
    )


def copy_id(message: ProtocolMessage, number: int | None) -> str:
    """The id of a numbered copy on the bus. Without a number, this is the id of the message."""
    return message.id if number is None else f"{message.id}.{number}"


def signed_fields(message: ProtocolMessage) -> list[Any]:
    """The signed content of a message. The address of a copy is not included, because the receiver
    checks it."""
    return [
        message.type,
        message.by,
        message.correlation_id,
        message.created_at,
        message.ttl,
        _payload(message),
    ]


def from_agent_message(message: AgentMessage, *, max_bytes: int) -> ProtocolMessage:
    """Read a message strictly. Raises `MessageMalformed` for everything that the protocol does not
    allow.

    The signature is not checked here; `Signer.verify` checks it.
    """
    payload = message.payload
    if not is_protocol(message):
        raise MessageMalformed(f"the payload must be an object with `protocol`: {PROTOCOL!r}")
    check_size(payload, max_bytes=max_bytes)
    _check_fields(_ENVELOPE, _fields_of(message), "the message")
    _check_fields(_PAYLOAD, payload, "the payload")
    move: Move = payload["move"]
    body = payload["body"]
    _check_fields(_BODIES[move], body, f"the body of a {move!r}")
    if "opening" in body:
        _check_fields(_OPENING, body["opening"], "the opening")
    if message.type not in _types(move):
        raise MessageMalformed(f"a {move!r} cannot be a message of type {message.type!r:.40}")
    if (payload["to"] is None) != _is_for_all(move):
        raise MessageMalformed(f"a {move!r} is for {'all' if _is_for_all(move) else 'one'}")
    return ProtocolMessage(
        id=payload["id"],
        collaboration=payload["collaboration"],
        move=move,
        type=message.type,
        by=message.from_agent,
        to=payload["to"],
        correlation_id=message.correlation_id,
        created_at=message.created_at,
        ttl=message.ttl,
        body=body,
        signature=payload["signature"],
    )


def check_size(payload: Any, *, max_bytes: int) -> None:
    """Raise `MessageMalformed` for a payload that is too large, or not JSON."""
    try:
        size = len(canonical(payload))
    except _NOT_JSON as exc:
        raise MessageMalformed(f"it is not JSON: {exc!s:.200}") from exc
    if size > max_bytes:
        raise MessageMalformed(
            f"it has {size} bytes as JSON, more than the maximum of {max_bytes}: send a "
            "reference to long content"
        )


def _types(move: Move) -> tuple[MessageType, ...]:
    # A counter-proposal to a request is a rejection.
    return ("negotiate", "reject") if move == "counter" else (MOVES[move].type,)


def _is_for_all(move: Move) -> bool:
    return move in ("call", "award", "select", "cancel", "complete", "expire")


def _payload(message: ProtocolMessage) -> dict[str, Any]:
    return {
        "protocol": PROTOCOL,
        "id": message.id,
        "to": message.to,
        "collaboration": message.collaboration,
        "move": message.move,
        "body": message.body,
    }


def _fields_of(message: AgentMessage) -> dict[str, Any]:
    return {
        "id": message.id,
        "from_agent": message.from_agent,
        "to_agent": message.to_agent,
        "correlation_id": message.correlation_id,
        "created_at": message.created_at,
        "ttl": message.ttl,
    }


def _check_fields(expected: Mapping[str, Check], found: Any, what: str) -> None:
    if not isinstance(found, Mapping):
        raise MessageMalformed(f"{what} must be an object")
    for name in found:
        if name not in expected:
            raise MessageMalformed(f"{what} has {name!r:.60}, which does not belong there")
    for name, check in expected.items():
        if name not in found:
            raise MessageMalformed(f"{what} lacks `{name}`")
        if not check(found[name]):
            raise MessageMalformed(f"`{name}` of {what} cannot be {found[name]!r:.60}")


def _is_name(value: object) -> bool:
    return (
        isinstance(value, str)
        and 0 < len(value) <= _MAX_NAME
        and bool(value.strip())
        and value != SYSTEM
        and "#" not in value
        and NOT_IN_NAMES.search(value) is None
    )


def _is_sender(value: object) -> bool:
    return value == SYSTEM or _is_name(value)


def _is_int(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _is_number(value: object, low: float, high: float) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and low <= value <= high
        and math.isfinite(value)
    )


def _is_moment_us(value: object) -> bool:
    return _is_int(value, 0, _MAX_US)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _MAX_REASON


def _is_participants(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) >= 2
        and all(map(_is_name, value))
        and len(set(value)) == len(value)
    )


def _is_outcome(value: object) -> bool:
    return (
        isinstance(value, Mapping)
        and set(value) == {"status", "reason", "result"}
        and value["status"] in ("completed", "failed")
        and isinstance(value["reason"], str)
    )


def _anything(value: object) -> bool:
    return True


def _something(value: object) -> bool:
    return value is not None


_ENVELOPE: Final[Mapping[str, Check]] = {
    "id": is_id,
    "from_agent": _is_sender,
    "to_agent": lambda value: value is None or _is_name(value),
    "correlation_id": lambda value: value is None or is_id(value),
    "created_at": lambda value: _is_number(value, 0, _MAX_US),
    "ttl": lambda value: value is None or _is_number(value, 1e-9, _MAX_US),
}
_PAYLOAD: Final[Mapping[str, Check]] = {
    "protocol": _something,
    "id": is_id,
    "to": lambda value: value is None or _is_name(value),
    "collaboration": is_id,
    "move": lambda value: isinstance(value, str) and value in _BODIES,
    "body": lambda value: isinstance(value, Mapping),
    "signature": lambda value: isinstance(value, str) and _DIGEST.fullmatch(value) is not None,
}
_OPENING: Final[Mapping[str, Check]] = {
    "participants": _is_participants,
    "context": lambda value: isinstance(value, Mapping),
    "max_rounds": lambda value: _is_int(value, 1, 1_000),
    "expires_us": _is_moment_us,
}
_BEGINNING: Final[Mapping[str, Check]] = {
    "terms": _something,
    "deadline_us": _is_moment_us,
    "opening": _something,
}
_NAMED: Final[Mapping[str, Check]] = {
    "version": lambda value: _is_int(value, 1, 1_000_000),
    "digest": lambda value: isinstance(value, str) and _DIGEST.fullmatch(value) is not None,
}
_BODIES: Final[Mapping[Move, Mapping[str, Check]]] = {
    "call": {**_BEGINNING, "terms": lambda value: isinstance(value, Mapping)},
    "request": _BEGINNING,
    "propose": _BEGINNING,
    "bid": {**_NAMED, "score": lambda value: _is_number(value, 0, 1), "offer": _anything},
    "decline": {"reason": _is_text},
    "award": {"bidder": _is_name},
    "select": {"bidder": _is_name, "deadline_us": _is_moment_us},
    "acknowledge": _NAMED,
    "counter": {**_NAMED, "terms": _something, "reason": _is_text},
    "accept": _NAMED,
    "reject": {**_NAMED, "reason": _is_text},
    "cancel": {"reason": _is_text},
    "complete": {"outcome": _is_outcome},
    "expire": {},
}
"""The exact fields of each move's body."""


COLLABORATIONS: Final = "collaborations"
FORMAT: Final = 1


def record_write(record: Collaboration) -> DocumentWrite:
    """The write that stores the record. The write fails if the stored version is not
    `record.version`. For a new record, `record.version` is 0."""
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
    """Signs and verifies messages with the key of the store. The key is created at its first
    use."""

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
