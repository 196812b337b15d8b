"""The parts of a live session: frames, history, the queue of events, the gate."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from typing import Any

import pytest

from ekiden.integrations.realtime.items import History, RealtimeItem, read_item
from ekiden.integrations.realtime.live import EventBuffer
from ekiden.integrations.realtime.model import (
    RealtimeModelSendInterrupt,
    RealtimeModelSendMessage,
    RealtimeModelSendRawMessage,
    RealtimeModelSendSessionUpdate,
    RealtimeServerError,
    RealtimeSetup,
    ResponseGate,
)
from ekiden.integrations.realtime.wire import decode, frames


def message(item_id: str, text: str = "", **fields: Any) -> RealtimeItem:
    """Something said."""
    return RealtimeItem(item_id=item_id, type="message", role="user", text=text, **fields)


def test_items_are_placed_after_their_previous_item() -> None:
    history = History()
    history.put(message("a", "1"))
    history.put(message("c", "3", previous_item_id="a"))
    history.put(message("b", "2", previous_item_id="a"))
    history.put(message("z", "4", previous_item_id="unknown"))
    assert [item.item_id for item in history.all()] == ["a", "b", "c", "z"]
    assert history.remove("b")
    assert not history.remove("b")
    assert history.last_said() == ""


def test_an_item_keeps_its_text_and_status() -> None:
    history = History()
    history.put(message("a", "hello", status="completed"))
    kept, is_new, is_changed = history.put(message("a", status="in_progress"))
    assert (kept.text, kept.status, is_new, is_changed) == ("hello", "completed", False, False)


def test_a_transcript_may_arrive_before_its_item() -> None:
    history = History()
    item, is_new = history.set_text("a", "hello")
    assert (item.text, item.role, is_new) == ("hello", "user", True)
    kept, is_new, _ = history.put(message("a", is_audio=True))
    assert (kept.text, is_new) == ("hello", False)


async def test_a_buffer_ends_after_its_events_and_with_the_error() -> None:
    buffer: EventBuffer[int] = EventBuffer(1)
    buffer.put(1)
    waiting = asyncio.create_task(buffer.room())
    buffer.end(RuntimeError("over"))
    buffer.end()
    buffer.put(2)
    await waiting
    assert await buffer.take() == 1
    for _ in range(2):
        with pytest.raises(RuntimeError, match="over"):
            await buffer.take()


async def test_two_readers_share_the_events_and_both_end() -> None:
    buffer: EventBuffer[int] = EventBuffer(10)

    async def read() -> list[int]:
        taken = []
        while True:
            try:
                taken.append(await buffer.take())
            except StopAsyncIteration:
                return taken

    readers = [asyncio.create_task(read()) for _ in range(2)]
    await asyncio.sleep(0)
    for number in range(4):
        buffer.put(number)
    buffer.end()
    first, second = await asyncio.gather(*readers)
    assert sorted([*first, *second]) == [0, 1, 2, 3]


class Wire:
    """A connection that only notes."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def send(self, event: Any) -> None:
        self.asked.append(event.event_id)


async def test_an_error_about_a_request_releases_the_next_one() -> None:
    wire = Wire()
    gate = ResponseGate(wire)  # type: ignore[arg-type]
    await gate.request()
    assert not gate.failed(ValueError("not about it"))
    assert not gate.failed(RealtimeServerError("other", event_id="something else"))
    assert gate.is_busy
    assert not gate.failed(RealtimeServerError("refused", event_id=wire.asked[0]))
    assert not gate.is_busy
    await gate.request()
    gate.started()
    assert not gate.failed(RealtimeServerError("about nothing"))
    assert gate.is_busy


async def test_a_cancellation_that_came_too_late_does_not_release_a_pending_request() -> None:
    wire = Wire()
    gate = ResponseGate(wire)  # type: ignore[arg-type]
    await gate.request()
    assert gate.failed(RealtimeServerError("late", server_code="response_cancel_not_active"))
    assert gate.is_busy


async def test_a_pending_request_is_dropped_when_another_response_starts() -> None:
    wire = Wire()
    gate = ResponseGate(wire)  # type: ignore[arg-type]
    gate.started()
    await gate.request()
    await gate.ended(continues=True)
    assert wire.asked == []
    await gate.request()
    gate.started()
    await gate.ended(continues=False)
    assert len(wire.asked) == 1


@pytest.mark.parametrize(
    ("kind", "fields", "event"),
    [
        ("response.audio.delta", {"delta": b64encode(b"hi").decode()}, "audio"),
        ("response.audio.done", {}, "audio_done"),
        ("response.text.delta", {"delta": "x"}, "output_text_delta"),
        ("response.audio_transcript.delta", {"delta": "x"}, "transcript_delta"),
    ],
)
def test_event_names_of_the_preview_version_are_decoded(
    kind: str, fields: dict[str, Any], event: str
) -> None:
    frame = {"type": kind, "response_id": "r", "item_id": "i", "content_index": 0, **fields}
    assert [told.type for told in decode(json.dumps(frame))] == [event]


def test_a_response_with_an_unknown_status_is_incomplete() -> None:
    frame = {"type": "response.done", "response": {"id": "r", "status": "odd", "usage": None}}
    [ended] = decode(json.dumps(frame))
    assert ended.type == "turn_ended"
    assert ended.status == "incomplete"


def test_a_failed_response_without_details_is_an_error() -> None:
    frame = {"type": "response.done", "response": {"id": "r", "status": "failed"}}
    error, ended = decode(json.dumps(frame))
    assert error.type == "error"
    assert "no reason given" in str(error.error)
    assert (ended.type, ended.status) == ("turn_ended", "failed")


def test_an_unreadable_end_of_a_response_ends_the_turn() -> None:
    told = decode('{"type": "response.done", "response": null}')
    assert [event.type for event in told] == ["error", "turn_ended"]


def test_earlier_messages_are_sent_with_the_content_type_of_their_role() -> None:
    said = {
        role: next(frames(RealtimeModelSendMessage(item_id="i", role=role, text="x")))
        for role in ("user", "assistant", "system")
    }
    kinds = {role: frame["item"]["content"][0]["type"] for role, frame in said.items()}
    assert kinds == {"user": "input_text", "assistant": "output_text", "system": "input_text"}


def test_a_prompt_and_a_raw_message_are_sent_unchanged() -> None:
    setup = RealtimeSetup(prompt={"id": "p"})
    [update] = frames(RealtimeModelSendSessionUpdate(setup=setup))
    assert update["session"]["prompt"] == {"id": "p"}
    assert list(frames(RealtimeModelSendRawMessage(message={"type": "x"}))) == [{"type": "x"}]
    assert list(frames(RealtimeModelSendInterrupt())) == [{"type": "response.cancel"}]


def test_call_outputs_are_read_as_items() -> None:
    item = read_item({"type": "function_call_output", "id": "i", "call_id": "c", "output": "ok"})
    assert item is not None
    assert (item.call_id, item.output, item.is_final) == ("c", "ok", False)
