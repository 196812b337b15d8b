"""Rebuilds the requests that models were sent, from the records of a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.core.conversation.model import Item, ModelRequest
from ekiden.core.documents import Value, from_json
from ekiden.core.errors import RequestNotRecorded
from ekiden.core.events import Event, VersionReader
from ekiden.core.values import loads
from ekiden.runtime.history.point_in_time import cursor_before
from ekiden.runtime.model_call import with_received
from ekiden.runtime.state.step_record import read_step
from ekiden.runtime.state.versions import PROMPT_FORMAT, SENT, VIEW
from ekiden.sessions import visible_items
from ekiden.sessions.request_parts import key_of, read_shared
from ekiden.storage.base import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest(Value):
    """The request of a model call, as it was sent to the model.

    For example::

        request = await recorded_request(store, "customer-42", 7)
        print(request.instructions, [tool["name"] for tool in request.tools])
    """

    session_id: str
    seq: int
    """The number of the event that records the model call."""
    agent: str
    version: str
    """The version of the agent: a digest of its instructions, model, settings, tools, handoffs,
    guardrails and code."""
    model: str | None
    """The name of the model."""
    instructions: str | None
    """The system text."""
    input: Sequence[Mapping[str, Any]]
    """The items of the conversation."""
    tools: Sequence[Mapping[str, Any]]
    """The definitions of the tools, handoffs included."""
    settings: Mapping[str, Any]
    """The settings of the model call. `null` means the default of the provider."""
    output: Mapping[str, Any] | None
    """The name and the JSON Schema of a structured answer."""

    def model_request(self, *, stream: bool = False) -> ModelRequest:
        """The request as a value that a `Model` accepts. The same model sends the same bytes to its
        provider again. Whether the answer was streamed is not recorded."""
        fields = {**self.to_json(), "stream": stream}
        found: ModelRequest = from_json(ModelRequest, fields)
        return found


async def recorded_request(store: Store, session_id: str, seq: int) -> RecordedRequest:
    """Rebuild the request of the model call that event `seq` records.

    Raises `SessionNotFound`, and `RequestNotRecorded` if this event does not exist, is no model
    call, or has no recorded request. For example::

        request = await recorded_request(store, "customer-42", 7)
    """
    await store.open()
    row = await store.get(session_id)
    if not isinstance(seq, int) or not 1 <= seq <= row.seq:
        raise RequestNotRecorded(
            f"session {session_id!r} has no event {seq}: choose one from 1 to {row.seq}"
        )
    events = await store.events(session_id, limit=seq)
    event = events[-1]
    if event.type != "llm_call":
        calls = [str(each.seq) for each in events if each.type == "llm_call"]
        raise RequestNotRecorded(
            f"event {seq} of session {session_id!r} is no model call but of type {event.type}; "
            f"model calls before it: {', '.join(calls[-10:]) or 'none'}"
        )
    try:
        return await _rebuilt(store, events, event)
    except (KeyError, IndexError, ValueError, TypeError, AttributeError) as exc:
        raise _unknown(event) from exc


async def _rebuilt(store: Store, events: Sequence[Event], event: Event) -> RecordedRequest:
    details = event.details or {}
    reader = VersionReader()
    made_by = [reader.made_by(each) for each in events][-1] or ""
    shared = loads((await read_shared(store, events))[made_by.partition("/")[2]])
    if shared["format"] != PROMPT_FORMAT:
        raise _unknown(event)
    computed: Mapping[str, Any] = {}
    if SENT in details:
        computed = await read_step(store, event.session_id, details[SENT])
    own, instructions = shared["instructions"], computed.get("instructions")
    if "ending" in computed:
        instructions = (own or "") + computed["ending"]
    elif "instructions" not in computed:
        instructions = with_received(own, await cursor_before(store, event, events))
    return RecordedRequest(
        session_id=event.session_id,
        seq=event.seq,
        agent=shared["agent"],
        version=shared["version"],
        model=shared["model"],
        instructions=instructions,
        input=await _input(store, events[:-1], details, computed),
        tools=shared["tools"],
        settings={**shared["settings"], **computed.get("settings", {})},
        output=shared["output"],
    )


async def _input(
    store: Store, before: Sequence[Event], details: Mapping[str, Any], computed: Mapping[str, Any]
) -> list[Item]:
    key, after = details.get(VIEW, (None, 0))
    base = () if key is None else await read_step(store, before[0].session_id, key)
    visible = visible_items(before, base=base, after=after)
    found: list[Item] = []
    for part in computed.get("input", [[0, len(visible)]]):
        found.extend(visible[part[0] : part[1]] if isinstance(part, list) else [part])
    return found


def _unknown(event: Event) -> RequestNotRecorded:
    return RequestNotRecorded(
        f"the request of event {event.seq} of session {event.session_id!r} is not known: the run "
        "hid its content, an older Ekiden stored the event, or a framework made the call"
    )


def is_shared_part(key: str, text: Any) -> bool:
    """Whether the key is the digest of the text, so that a document cannot pass for another."""
    return isinstance(text, str) and key_of(text) == key
