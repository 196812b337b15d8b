"""Messages of the protocol on the bus: their canonical form, and strict reading."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final, TypeAlias

from ekiden.collaboration.protocol.record import MOVES, SYSTEM, Move, ProtocolMessage
from ekiden.core.conversation.messages import AgentMessage, MessageType
from ekiden.core.errors import UserError
from ekiden.core.errors.collaboration import MessageMalformed
from ekiden.core.values import NOT_IN_NAMES

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
    """The digest that identifies these terms, in all collaborations."""
    return sha256(canonical([collaboration_id, version, by, body])).hexdigest()


Check: TypeAlias = Callable[[Any], bool]


def agent_name(value: object, *, what: str = "an agent's name") -> str:
    """`value`, if a participant may have this name. Raises `UserError` otherwise."""
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
    """Whether the message claims to be a message of the protocol."""
    payload = message.payload
    return isinstance(payload, Mapping) and payload.get("protocol") == PROTOCOL


def to_agent_message(
    message: ProtocolMessage, *, receiver: str | None = None, number: int | None = None
) -> AgentMessage:
    """The message for the bus. A message to all has a numbered copy for each receiver."""
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
    """The id of a numbered copy on the bus; with `None`, the id of the message."""
    return message.id if number is None else f"{message.id}.{number}"


def signed_fields(message: ProtocolMessage) -> list[Any]:
    """The signed content: everything except the address of a copy, which the receiver checks."""
    return [
        message.type,
        message.by,
        message.correlation_id,
        message.created_at,
        message.ttl,
        _payload(message),
    ]


def from_agent_message(message: AgentMessage, *, max_bytes: int) -> ProtocolMessage:
    """Read a message strictly. Raises `MessageMalformed` for everything the protocol does not
    allow.

    `Signer.verify` checks the signature.
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
