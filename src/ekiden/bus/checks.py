"""What a message must be before it is stored."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, get_args

from ekiden.core.conversation.messages import AgentMessage, BusLimits, MessageType
from ekiden.core.current_agent import acting_here
from ekiden.core.errors import UserError
from ekiden.core.errors.messages import SenderForged
from ekiden.core.values import NOT_IN_NAMES, check_line, loads
from ekiden.storage.values import json_text

LEAVES = frozenset({str, int, float, bool, type(None)})
"""Types of immutable payloads."""
MAX_SECONDS = 10 * 365 * 86_400.0
_LAST_TIME = 1e12
_NUMBERS = frozenset({int, float})
_MAX_NAME = 200
_MAX_ID = 400
_SHORTEST, _LONGEST = -(2**63), 2**63
_TYPES = frozenset(get_args(MessageType))


def check_message(message: AgentMessage, settings: BusLimits) -> Any:
    """A payload of the message's own; `UserError` if it cannot be sent."""
    if type(message) is not AgentMessage:
        raise UserError(f"the bus carries AgentMessage objects, not {message!r:.80}")
    if message.type not in _TYPES:
        raise UserError(f"{message.type!r:.40} is not a message type: {', '.join(sorted(_TYPES))}")
    check_agent(message.from_agent)
    _check_id("id", message.id)
    if message.correlation_id is not None:
        _check_id("correlation_id", message.correlation_id)
    if message.task is not None:
        _check_id("task", message.task)
    priority, created_at = message.priority, message.created_at
    if type(priority) is not int or not 1 <= priority <= 4:
        raise UserError(
            f"{priority!r:.40} is not a message priority: 1 (low), 2 (normal), 3 (high) or 4 "
            "(urgent)"
        )
    if type(created_at) not in _NUMBERS or not 0 <= created_at < _LAST_TIME:
        raise UserError(f"`created_at` is a time in seconds, not {created_at!r:.40}")
    return check_contents(message, settings)


def check_contents(message: AgentMessage, settings: BusLimits) -> Any:
    """`check_message` for a message that the bus made from a caller's arguments."""
    to_agent, subject = message.to_agent, message.subject
    timeout_s, ttl_s = message.timeout_seconds, message.ttl
    if to_agent is not None:
        check_agent(to_agent)
    if type(timeout_s) not in _NUMBERS or not 0 < timeout_s <= MAX_SECONDS:
        raise UserError(f"`timeout_seconds` is some seconds, above 0, not {timeout_s!r:.40}")
    if ttl_s is not None and (type(ttl_s) not in _NUMBERS or not 0 < ttl_s <= MAX_SECONDS):
        raise UserError(f"`ttl` is some seconds, above 0, or None, not {ttl_s!r:.40}")
    if type(subject) is not str or len(subject) > settings.max_subject or not subject.isascii():
        _check_subject(subject, settings)
    payload = message.payload
    if type(payload) is int and _SHORTEST < payload < _LONGEST:
        return payload
    return own_payload(payload, settings, "the payload of message {!r}", message.id)


def own_payload(value: Any, settings: BusLimits, what: str, name: str) -> Any:
    """What JSON makes of the value, sharing nothing with it; `UserError` if it is not JSON or too
    long. `what.format(name)` names it."""
    kind = type(value)
    if value is None or kind is bool or (kind is int and _SHORTEST < value < _LONGEST):
        return value
    text = json_text(value, what, name)
    size = len(text) if text.isascii() else len(text.encode())
    if size > settings.max_payload:
        raise UserError(
            f"{what.format(name)} has {size} bytes as JSON, and the maximum is "
            f"{settings.max_payload} (`max_payload`): store it somewhere and send its address"
        )
    return loads(text)


def check_agent(name: object) -> str:
    """The name of an agent; `UserError` for what cannot be one."""
    if type(name) is not str:
        raise UserError(f"an agent on the bus has a name, not {name!r:.40}")
    return _check_agent(name)


def check_sender(name: str, inherited: str | None) -> None:
    """`SenderForged` if another agent's code is running; `inherited` is the agent whose this whole
    process is."""
    acting = acting_here() or inherited
    if acting is not None and acting != name:
        raise SenderForged(name, actual=acting)


@lru_cache(maxsize=4096)
def _check_agent(name: str) -> str:
    if not name.strip():
        raise UserError("an agent on the bus needs a name that is not empty")
    if len(name) > _MAX_NAME:
        raise UserError(
            f"an agent's name has at most {_MAX_NAME} characters, {name[:40]!r}… has {len(name)}"
        )
    odd = NOT_IN_NAMES.search(name)
    if odd is not None or "#" in name:
        character = "#" if odd is None else odd.group()
        raise UserError(
            f"the agent name {name!r} has the character {character!r}: on the bus leave out "
            "control characters, line breaks, lone surrogates and #"
        )
    return name


def _check_id(field: str, value: object) -> None:
    if type(value) is not str or not value.isprintable() or not 0 < len(value) <= _MAX_ID:
        check_line(value, what=f"`{field}` of a message", longest=_MAX_ID)


def _check_subject(subject: object, settings: BusLimits) -> None:
    if type(subject) is not str or len(subject) > settings.max_subject:
        shown = f"{subject!r:.60}"
        raise UserError(
            f"a subject is a text of at most {settings.max_subject} characters, not {shown}"
        )
    if not subject.isascii():
        try:
            subject.encode()
        except UnicodeEncodeError:
            raise UserError(f"the subject {subject[:60]!r} has lone surrogates") from None
