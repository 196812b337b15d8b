"""Events as Vertex AI Sessions writes them: author, content, actions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import groupby
from typing import Any

from ekiden.core.conversation.model import Item, is_message, text_of
from ekiden.core.values import loads
from ekiden.sessions.replica.base import ReplicatedEvent, ReplicatedSession

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_USER, _MODEL = "user", "model"


def vertex_session_id(session: ReplicatedSession) -> str:
    """The id that the session has there: up to 63 of ``a-z0-9-``, a letter first."""
    text = f"{session.created_at_us}/{session.id}"
    return f"ekiden-{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"


def user_of(session: ReplicatedSession) -> str:
    """A session without an owner gets a user id of its own."""
    return tidy(session.user_id) if session.user_id else vertex_session_id(session)


def timestamp(at_us: int) -> str:
    """RFC 3339, with microseconds."""
    moment = _EPOCH + timedelta(microseconds=at_us)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def wire_events(event: ReplicatedEvent) -> list[dict[str, Any]]:
    """The event as ``SessionEvent`` objects: one for each turn of who speaks, in order.

    The id is the ``invocationId`` of all of them: so what is there already can be found, and
    whoever looks there finds the event here. Reasoning is not sent, and of pictures and files only
    that there were some.
    """
    said = [
        (speaker, {"role": speaker[1], "parts": [part for _, parts in turn for part in parts]})
        for speaker, turn in groupby(_spoken(event), key=lambda each: each[0])
    ]
    wires: list[dict[str, Any]] = [
        {**_head(event, author, number), "content": content}
        for number, ((author, _), content) in enumerate(said)
    ]
    if event.state:
        if not wires:
            wires.append(_head(event, event.agent, 0))
        wires[-1]["actions"] = {"stateDelta": dict(event.state)}
    return [tidy(wire) for wire in wires]


def tidy(value: Any) -> Any:
    """`value` without halves of characters, which the other side does not read."""
    if isinstance(value, str):
        return (
            value
            if value.isascii()
            else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        )
    if isinstance(value, Mapping):
        return {tidy(name): tidy(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [tidy(each) for each in value]
    return value


def _head(event: ReplicatedEvent, author: str, number: int) -> dict[str, Any]:
    return {
        "author": author,
        "invocationId": event.id,
        "timestamp": timestamp(event.at_us + number),
    }


def _spoken(event: ReplicatedEvent) -> Iterator[tuple[tuple[str, str], list[dict[str, Any]]]]:
    """Who says what, as author and role, with the parts."""
    for item in event.items:
        parts = list(_parts(item, event.tools))
        if not parts:
            continue
        if is_message(item) and item.get("role") == _USER:
            yield (_USER, _USER), parts
        elif item.get("role") == "assistant" or item.get("type") == "function_call":
            yield (event.agent, _MODEL), parts
        else:
            yield (event.agent, _USER), parts


def _parts(item: Item, tools: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    kind = item.get("type")
    if kind == "function_call":
        call = {"id": item.get("call_id"), "name": item.get("name")}
        yield {"functionCall": {**call, "args": _arguments(item.get("arguments"))}}
    elif kind == "function_call_output":
        call_id = str(item.get("call_id"))
        answer = {"id": call_id, "name": tools.get(call_id, "unknown")}
        yield {"functionResponse": {**answer, "response": {"output": item.get("output")}}}
    elif is_message(item):
        yield from _said(item)


def _said(item: Item) -> Iterator[dict[str, Any]]:
    content = item.get("content")
    if not isinstance(content, list):
        if whole := text_of(item):
            yield {"text": whole}
        return
    for part in content:
        kind = part.get("type", "") if isinstance(part, Mapping) else ""
        text = part.get("text") or part.get("refusal") if isinstance(part, Mapping) else part
        if isinstance(text, str) and text:
            yield {"text": text}
        elif kind.startswith("input_") and kind != "input_text":
            yield {"text": f"[{kind.removeprefix('input_')}]"}


def _arguments(text: Any) -> dict[str, Any]:
    """An object, whatever the model wrote."""
    try:
        value = loads(text) if isinstance(text, str) else text
    except ValueError:
        value = text
    if isinstance(value, dict):
        return value
    return {} if value is None or value == "" else {"arguments": value}
