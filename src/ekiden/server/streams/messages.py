"""The messages of agents in a run, and answers to its questions, for other standards.

Deltas of an answer come before the answer, and are not stored: a failure can cut them off, and they
can be lost. The event that follows has the whole answer. Protocols that send an answer in pieces
need deltas and events joined, which is done here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ekiden.core.conversation.model import Item, ModelDelta, is_message, refusal_of, text_of
from ekiden.core.errors.messages import InboxAnswerInvalid, InboxItemClosed
from ekiden.core.events import Event
from ekiden.core.questions import InboxItem
from ekiden.hub.tails import Shown
from ekiden.project.service import TenantService
from ekiden.project.stored_runs import questions_to_people
from ekiden.server.access.access import Caller
from ekiden.sessions import said

_SILENT = frozenset({"agent_start", "agent_complete", "agent_error", "handoff", "guardrail"})
"""Event types that end an answer that was begun: no more deltas of it follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechStarted:
    """A message begins."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A further part of a message."""

    id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechEnded:
    """A message is complete."""

    id: str
    text: str
    refusal: str | None = None
    """The model's refusal; then there is no text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A message that was begun is never completed, and does not count."""

    id: str
    text: str


Spoken: TypeAlias = SpeechStarted | Piece | SpeechEnded | Broken


def said_in(event: Event) -> list[Item]:
    """The messages of agents that the event adds to the conversation."""
    if event.type == "llm_call" or (event.type == "message" and event.step is not None):
        return [
            item
            for item in event.items
            if is_message(item) and item.get("role", "assistant") == "assistant"
        ]
    return []


def without_undone_items(events: Sequence[Event]) -> Iterator[Event]:
    """The events, without conversation items that were undone."""
    said_still = {event.seq: event for event in said(events)}
    for event in events:
        if not event.items:
            yield event
        elif event.seq in said_still:
            yield said_still[event.seq]


class Speech:
    """Makes messages of deltas and events; their ids are `prefix` and a number, in order.

    Only completed messages are numbered: the same events give the same ids, with and without
    deltas.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._count = 0
        self._used: set[str] = set()
        self._open: dict[int, tuple[str, str]] = {}
        """Begun messages by their index in the model's output: id and text so far."""

    def take(self, shown: Shown) -> Iterator[Spoken]:
        """The messages that an event or a delta begins, continues or ends."""
        if isinstance(shown, ModelDelta):
            if shown.kind == "text" and shown.text:
                yield from self._grow(shown)
            return
        messages = said_in(shown)
        if messages or shown.type == "llm_call":
            yield from self._settle(messages)
        elif shown.type in _SILENT:
            yield from self.close()

    def close(self) -> Iterator[Spoken]:
        """Break off all begun messages."""
        for place in sorted(self._open):
            yield from self._broken(place)

    def _grow(self, delta: ModelDelta) -> Iterator[Spoken]:
        if delta.index not in self._open:
            name = self._name(self._count + len(self._open) + 1)
            self._open[delta.index] = (name, "")
            yield SpeechStarted(id=name)
        name, text = self._open[delta.index]
        self._open[delta.index] = (name, text + delta.text)
        yield Piece(id=name, text=delta.text)

    def _settle(self, messages: Iterable[Item]) -> Iterator[Spoken]:
        places = sorted(self._open)
        for item in messages:
            text, refusal = text_of(item), refusal_of(item)
            if not text and refusal is None:
                continue
            if places:
                place = places.pop(0)
                name, so_far = self._open[place]
                if text.startswith(so_far):
                    del self._open[place]
                    self._count += 1
                    if text != so_far:
                        yield Piece(id=name, text=text[len(so_far) :])
                    yield SpeechEnded(id=name, text=text, refusal=None if text else refusal)
                    continue
                yield from self._broken(place)
            yield from self._whole(text, refusal)
        yield from self.close()

    def _whole(self, text: str, refusal: str | None) -> Iterator[Spoken]:
        self._count += 1
        name = self._name(self._count)
        yield SpeechStarted(id=name)
        if text:
            yield Piece(id=name, text=text)
        yield SpeechEnded(id=name, text=text, refusal=None if text else refusal)

    def _broken(self, place: int) -> Iterator[Spoken]:
        name, text = self._open.pop(place)
        yield Broken(id=name, text=text)

    def _name(self, number: int) -> str:
        """A new id for this number; different from that of a message that broke off."""
        name = f"{self._prefix}{number}"
        while name in self._used:
            name += "b"
        self._used.add(name)
        return name


VIA = "http"


def choices(item: InboxItem) -> tuple[str, str] | None:
    """The options for approve and reject; `None` for a question that is not an approval."""
    if item.kind in ("confirmation", "approval") and len(item.options) == 2:
        return item.options[0], item.options[1]
    return None


async def check_asked(desk: TenantService, session_id: str, item_ids: Iterable[str]) -> None:
    """`InboxAnswerInvalid` for a question that neither this session nor an agent that it asked has
    put; `InboxItemNotFound`."""
    waits = {item.id for item in await questions_to_people(desk.store, session_id)}
    for item_id in item_ids:
        if item_id not in waits and (await desk.inbox.get(item_id)).session_id != session_id:
            raise InboxAnswerInvalid(
                f"inbox item {item_id[:80]} was not asked in session {session_id!r}"
            )


async def decide(
    desk: TenantService,
    caller: Caller,
    item_id: str,
    *,
    approve: bool | None = None,
    choice: str | None = None,
    text: str = "",
    arguments: str | None = None,
) -> InboxItem:
    """Answer an inbox item in the name of the caller: approve or reject, or `choice` and `text`.

    Repeating the same answer is allowed: clients retry a request whose response is lost.
    `Forbidden` without the scope `answer`, `InboxForbidden` for agents; otherwise as
    `Inbox.answer`.
    """
    caller.check("answer")
    item = await desk.inbox.get(item_id)
    if approve is not None:
        pair = choices(item)
        if pair is None:
            raise InboxAnswerInvalid(
                f"inbox item {item.id} does not take a yes or a no: answer it in the inbox"
            )
        choice = pair[0] if approve else pair[1]
    try:
        return await desk.inbox.answer(
            item.id,
            by=caller.name,
            choice=choice,
            text=text,
            arguments=arguments,
            confirm_edit=arguments is not None,
            via=VIA,
        )
    except InboxItemClosed:
        there = await desk.inbox.get(item_id)
        if there.answer is None or there.answer.by != caller.name:
            raise
        same = there.answer.choice == choice if there.options else there.answer.text == text
        if not same:
            raise
        return there
