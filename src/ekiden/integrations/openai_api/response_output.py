"""The output of a response, and the events that tell of it while it comes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from ekiden.core.conversation.model import Item
from ekiden.core.events import Event
from ekiden.core.questions import InboxItem
from ekiden.core.values import dumps
from ekiden.hub.tails import Shown
from ekiden.server.streams.decisions import choices
from ekiden.server.streams.messages import Broken, Piece, Speech, SpeechEnded, SpeechStarted
from ekiden.sessions import is_transfer

LABEL = "ekiden"

Told: TypeAlias = dict[str, Any]
"""An event of a stream, without its number."""


class ResponseOutput:
    """The items of one response, made of what happens in a run.

    What agents say are messages. What their tools did, and handoffs, are items `mcp_call`, if they
    are to be shown: a client does not take them for calls that it has to make. What waits for a
    person's yes or no is an `mcp_approval_request`, any other question a message.
    """

    def __init__(self, response_id: str, *, show: Collection[str] = ()) -> None:
        self.items: list[Item] = []
        self._key = response_id.removeprefix("resp_")
        self._speech = Speech(f"msg_{self._key}_")
        self._places: dict[str, int] = {}
        """Of messages that have begun, by id."""
        self._calls: dict[str, Item] = {}
        self._show = show

    def know(self, events: Iterable[Event]) -> None:
        """What the run did before this response: its calls may be answered in it."""
        for item in (item for event in events for item in event.items):
            if item.get("type") == "function_call":
                self._calls[item["call_id"]] = item

    def take(self, shown: Shown) -> Iterator[Told]:
        """Learn what happened; gives what a stream tells of it."""
        for each in self._speech.take(shown):
            match each:
                case SpeechStarted(id=name):
                    yield from self._begin(name)
                case Piece(id=name, text=text):
                    yield from self._grow(name, text)
                case SpeechEnded(id=name, text=text, refusal=refusal):
                    yield from self._end(name, text, refusal)
                case Broken(id=name, text=text):
                    yield from self._end(name, text, None, status="incomplete")
        if self._show and isinstance(shown, Event):
            yield from self._called(shown)

    def say(self, text: str) -> Iterator[Told]:
        """A message of ours."""
        name = f"msg_{self._key}_note"
        yield from self._begin(name)
        yield from self._grow(name, text)
        yield from self._end(name, text, None)

    def ask(self, questions: Iterable[InboxItem]) -> Iterator[Told]:
        """What people are to decide."""
        others = []
        for question in questions:
            if choices(question) is None:
                others.append(question)
            else:
                yield from self._whole(approval_request(question))
        if others:
            yield from self.say(_told(others))

    def _begin(self, name: str) -> Iterator[Told]:
        self._places[name] = len(self.items)
        item = _message(name, [], "in_progress")
        self.items.append(item)
        yield {"type": "response.output_item.added", **self._at(name), "item": item}

    def _grow(self, name: str, text: str) -> Iterator[Told]:
        place = self._places[name]
        if not self.items[place]["content"]:
            self.items[place] = _message(name, [_text("")], "in_progress")
            yield self._part("added", name, _text(""))
        yield {
            "type": "response.output_text.delta",
            **self._within(name),
            "delta": text,
            "logprobs": [],
        }

    def _end(
        self, name: str, text: str, refusal: str | None, *, status: str = "completed"
    ) -> Iterator[Told]:
        part = _text(text) if refusal is None else {"type": "refusal", "refusal": refusal}
        if refusal is not None:
            yield self._part("added", name, {"type": "refusal", "refusal": ""})
            yield {"type": "response.refusal.delta", **self._within(name), "delta": refusal}
            yield {"type": "response.refusal.done", **self._within(name), "refusal": refusal}
        else:
            yield {
                "type": "response.output_text.done",
                **self._within(name),
                "text": text,
                "logprobs": [],
            }
        yield self._part("done", name, part)
        item = self.items[self._places[name]] = _message(name, [part], status)
        yield {"type": "response.output_item.done", **self._at(name), "item": item}

    def _called(self, event: Event) -> Iterator[Told]:
        for item in event.items:
            if item.get("type") == "function_call":
                self._calls[item["call_id"]] = item
            elif item.get("type") == "function_call_output":
                call = self._calls.pop(item["call_id"], None)
                wanted = "handoffs" if event.type == "handoff" else "tools"
                if call is not None and wanted in self._show:
                    yield from self._whole(_call(call, item, event))

    def _whole(self, item: Item) -> Iterator[Told]:
        place = len(self.items)
        self.items.append(item)
        yield {"type": "response.output_item.added", "output_index": place, "item": item}
        yield {"type": "response.output_item.done", "output_index": place, "item": item}

    def _at(self, name: str) -> dict[str, Any]:
        return {"output_index": self._places[name]}

    def _within(self, name: str) -> dict[str, Any]:
        return {"item_id": name, "output_index": self._places[name], "content_index": 0}

    def _part(self, what: str, name: str, part: dict[str, Any]) -> Told:
        return {"type": f"response.content_part.{what}", **self._within(name), "part": part}


def approval_request(question: InboxItem) -> Item:
    """A question that takes a yes or a no; its id is that of the inbox item."""
    if question.kind == "confirmation" and question.tool:
        name, arguments = question.tool, question.arguments or "{}"
    else:
        yes, no = question.options
        asked = {"question": question.subject, "body": question.body, "approve": yes, "reject": no}
        name, arguments = "ask_person", dumps(asked)
    return {
        "id": question.id,
        "type": "mcp_approval_request",
        "server_label": LABEL,
        "name": name,
        "arguments": arguments,
    }


def _told(questions: Sequence[InboxItem]) -> str:
    lines = [f"{each.subject} ({each.id}): answer it in the inbox" for each in questions]
    return "\n".join(["This waits for a person.", *lines])


def _message(name: str, content: list[dict[str, Any]], status: str) -> Item:
    return {
        "id": name,
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": content,
    }


def _text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _call(call: Item, output: Item, event: Event) -> Item:
    said = output.get("output")
    is_move = is_transfer(event)
    return {
        "id": f"mcp_{call['call_id']}",
        "type": "mcp_call",
        "server_label": LABEL,
        "name": call["name"],
        "arguments": call.get("arguments") or "{}",
        "output": said if isinstance(said, str) else dumps(said),
        "error": None if is_move else event.error,
        "status": "failed" if event.error and not is_move else "completed",
    }
