"""Items become the library's messages and come back with nothing lost that matters."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from copy import deepcopy
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from pydantic_ai.messages import (
    BinaryContent,
    DocumentUrl,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    PartEndEvent,
    PartStartEvent,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UploadedFile,
    UserPromptPart,
)

from ekiden.core.conversation.model import (
    Item,
    ModelDelta,
    assistant_message,
    function_call,
    function_output,
    is_message,
    text_of,
    user_message,
)
from ekiden.core.errors import ModelBehaviorError, UserError
from ekiden.models.requests import Receiver, assistant_texts, to_messages
from ekiden.models.responses import Deltas, to_response
from tests.support.cases import each_case
from tests.support.examples import examples

OPENAI = Receiver(source="openai", system="openai")
OTHER = Receiver(source="anthropic", system="anthropic")

texts = st.text(min_size=1, max_size=20)
names = st.sampled_from(["weather", "invoice_total", "transfer_to_billing"])
arguments = st.dictionaries(names, st.integers() | texts, max_size=3)


@st.composite
def said(draw: st.DrawFn) -> Item:
    """A message of any role, with text or with parts."""
    role = draw(st.sampled_from(["user", "assistant", "system", "developer"]))
    content: Any = draw(texts)
    if draw(st.booleans()):
        kind = "output_text" if role == "assistant" else "input_text"
        content = [{"type": kind, "text": text} for text in draw(st.lists(texts, min_size=1))]
    item = {"role": role, "content": content}
    return {"type": "message", **item} if draw(st.booleans()) else item


@st.composite
def exchanges(draw: st.DrawFn) -> list[Item]:
    """Some calls, perhaps with a text before, and their outputs in any order."""
    prefix = draw(st.uuids()).hex
    count = draw(st.integers(1, 3))
    ids = [f"call_{prefix}_{number}" for number in range(count)]
    calls = [function_call(id_, draw(names), json.dumps(draw(arguments))) for id_ in ids]
    outputs = [function_output(id_, draw(texts)) for id_ in draw(st.permutations(ids))]
    before = [assistant_message(draw(texts))] if draw(st.booleans()) else []
    return [*before, *calls, *outputs]


conversations = st.lists(
    st.one_of(said().map(lambda item: [item]), exchanges()), min_size=1, max_size=8
).map(lambda groups: [item for group in groups for item in group])


def meaning(items: Sequence[Item]) -> list[tuple[str, ...]]:
    """What a conversation says, however it is cut into items and parts."""
    told: list[tuple[str, ...]] = []
    for item in items:
        if item.get("type") == "function_call":
            told.append(("call", item["call_id"], item["name"], item["arguments"]))
        elif item.get("type") == "function_call_output":
            told.append(("output", item["call_id"], item["output"]))
        elif item["role"] == "assistant":
            told.extend(("assistant", text) for text in assistant_texts(item))
        else:
            role = "user" if item["role"] == "user" else "system"
            told.append((role, text_of(item)))
    return told


def back(messages: Sequence[ModelMessage]) -> list[Item]:
    """The inverse of `to_messages`: responses as the product reads them, requests as they are."""
    items: list[Item] = []
    for message in messages:
        if isinstance(message, ModelResponse):
            items.extend(to_response(message, source="openai", label="test").output)
            continue
        for part in message.parts:
            match part:
                case ToolReturnPart():
                    items.append(function_output(part.tool_call_id, part.content))
                case UserPromptPart(content=str(text)):
                    items.append(user_message(text))
                case UserPromptPart():
                    items.append(user_message("".join(map(str, part.content))))
                case SystemPromptPart():
                    items.append({"role": "system", "content": part.content})
                case _:
                    raise AssertionError(part)
    return items


@settings(deadline=None, max_examples=examples(60))
@given(conversations)
def test_texts_calls_outputs_and_order_survive_the_round_trip(items: list[Item]) -> None:
    before = deepcopy(items)
    messages = to_messages(items, OPENAI)
    assert meaning(back(messages)) == meaning(items)
    assert items == before, "converting must not change an item"
    assert all(type(one) is not type(two) for one, two in pairwise(messages)), "sides take turns"
    called = {item["call_id"]: item["name"] for item in items if "name" in item}
    answered = {
        part.tool_call_id: part.tool_name
        for message in messages
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    }
    assert answered == called


def test_an_output_that_is_not_text_is_sent_as_json() -> None:
    items = [function_call("c", "f", "{}"), function_output("c", {"a": [1, "ü"]})]
    assert _part(items, 1).content == '{"a":[1,"ü"]}'


def test_an_output_of_text_parts_is_joined() -> None:
    parts = [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]
    assert _part([function_call("c", "f", "{}"), function_output("c", parts)], 1).content == "ab"


def test_an_output_may_hold_an_image() -> None:
    parts = [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": "https://example.com/a.png"},
    ]
    content = _part([function_call("c", "f", "{}"), function_output("c", parts)], 1).content
    assert content[0] == "look"
    assert isinstance(content[1], ImageUrl)


def test_an_output_that_is_not_json_is_refused() -> None:
    with pytest.raises(UserError, match="must be JSON, not object"):
        to_messages([function_call("c", "f", "{}"), function_output("c", object())], OPENAI)


@each_case(
    ("part", "expected"),
    [
        ({"type": "input_image", "image_url": "https://e.com/a.png"}, ImageUrl),
        ({"type": "input_image", "image_url": {"url": "https://e.com/a.png"}}, ImageUrl),
        ({"type": "input_image", "image_url": "data:image/png;base64,aGk="}, BinaryContent),
        ({"type": "input_image", "file_id": "file_1"}, UploadedFile),
        ({"type": "input_file", "file_url": "https://e.com/a.pdf"}, DocumentUrl),
        ({"type": "input_file", "file_data": "data:text/plain;base64,aGk="}, BinaryContent),
        ({"type": "input_file", "file_data": "aGk="}, BinaryContent),
        ({"type": "input_file", "file_id": "file_1"}, UploadedFile),
        ({"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}}, BinaryContent),
    ],
)
def test_files_are_passed_by_url_by_value_and_by_id(part: Item, expected: type) -> None:
    content = _part([{"role": "user", "content": [part]}], 0).content
    assert isinstance(content[0], expected)
    if isinstance(content[0], BinaryContent):
        assert content[0].data == base64.b64decode("aGk=")


@each_case(
    ("item", "complaint"),
    [
        ({"role": "tool", "content": "x"}, "role 'tool'"),
        ({"type": "web_search_call", "id": "ws_1"}, "type 'web_search_call'"),
        ({"role": "user", "content": [{"type": "video"}]}, "type 'video'"),
        ({"role": "user", "content": ["text"]}, "cannot be sent to a model: str"),
        ({"role": "user", "content": 3}, "must be a text or a list, not int"),
        ({"role": "user", "content": [{"type": "input_image"}]}, "needs image_url or file_id"),
        ({"role": "user", "content": [{"type": "input_file"}]}, "needs file_data, file_url"),
        (
            {"role": "user", "content": [{"type": "input_file", "file_data": "!"}]},
            "is not base64",
        ),
        (
            {"role": "user", "content": [{"type": "input_image", "image_url": "data:x"}]},
            "must look like data:",
        ),
        ({"type": "function_call", "name": "f", "arguments": "{}"}, "has no call_id"),
        ({"type": "function_call", "call_id": "c", "arguments": "{}"}, "has no name"),
        ({"type": "function_call_output", "output": "x"}, "has no call_id"),
    ],
)
def test_an_unsupported_item_is_refused_by_name(item: Item, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        to_messages([item], OPENAI)


def test_a_file_id_is_refused_for_a_custom_server() -> None:
    gateway = Receiver(source="openai@gateway", system="openai@gateway")
    part = {"type": "input_file", "file_id": "file_1"}
    with pytest.raises(UserError, match="openai@gateway knows no file ids"):
        to_messages([{"role": "user", "content": [part]}], gateway)


THOUGHT = ThinkingPart(
    content="first",
    id="rs_1",
    signature="sealed",
    provider_name="openai",
    provider_details={"a": 1},
)


def answer(*parts: Any, **options: Any) -> list[Item]:
    options.setdefault("finish_reason", "stop")
    return to_response(ModelResponse(parts=parts, **options), source="openai", label="test").output


def test_reasoning_is_sent_back_to_its_provider_unchanged() -> None:
    second = ThinkingPart(content="second", id="rs_1", provider_name="openai")
    called = ToolCallPart("f", "{}", tool_call_id="c", id="fc_1", provider_name="openai")
    items = answer(THOUGHT, second, called)
    assert [item["type"] for item in items] == ["reasoning", "function_call"]
    (message,) = to_messages(items, OPENAI)
    assert list(message.parts) == [THOUGHT, second, called]


def test_raw_reasoning_keeps_its_position() -> None:
    raw = ThinkingPart(
        content="", id="rs_1", provider_name="openai", provider_details={"raw_content": ["hm"]}
    )
    items = answer(raw, TextPart("yes", id="msg_1", provider_name="openai"))
    assert items[0]["content"] == [{"type": "reasoning_text", "text": "hm"}]
    (message,) = to_messages(items, OPENAI)
    assert message.parts[0] == raw


def test_reasoning_ids_and_details_are_dropped_for_another_provider() -> None:
    items = answer(THOUGHT, ToolCallPart("f", "{}", tool_call_id="c", id="fc_1"))
    (message,) = to_messages(items, OTHER)
    (part,) = message.parts
    assert part == ToolCallPart("f", "{}", tool_call_id="c")
    assert message.provider_name is None


def test_ids_are_kept_only_where_reasoning_needs_them() -> None:
    (item,) = answer(TextPart("hi", id="msg_1", provider_name="openai"))
    assert item == assistant_message("hi")


def test_required_provider_details_are_kept_without_reasoning() -> None:
    signed = ToolCallPart(
        "f", {"a": 1}, tool_call_id="c", provider_name="google", provider_details={"sig": "x"}
    )
    response = ModelResponse(parts=[signed], finish_reason="tool_call")
    (item,) = to_response(response, source="google", label="test").output
    assert item["arguments"] == '{"a":1}'
    (message,) = to_messages([item], Receiver(source="google", system="google"))
    assert message.parts[0].provider_details == {"sig": "x"}
    (foreign,) = to_messages([item], OPENAI)
    assert foreign.parts[0].provider_details is None


def test_reasoning_without_its_output_is_not_sent() -> None:
    thought, called, told = answer(
        THOUGHT, ToolCallPart("f", "{}", tool_call_id="c", id="fc_1"), TextPart("hm", id="msg_1")
    )
    (message,) = to_messages([thought, told], OPENAI)
    assert list(message.parts) == [TextPart("hm")]
    assert to_messages([thought], OPENAI) == []
    (kept,) = to_messages([thought, called], OPENAI)
    assert kept.parts[0] == THOUGHT


def test_items_from_openai_are_recognized_by_their_ids() -> None:
    thought = {"type": "reasoning", "id": "rs_9", "summary": [], "encrypted_content": "sealed"}
    called = {**function_call("c", "f", "{}"), "id": "fc_9"}
    (message,) = to_messages([thought, called], OPENAI)
    assert [part.id for part in message.parts] == ["rs_9", "fc_9"]
    (foreign,) = to_messages([thought, called], OTHER)
    assert len(foreign.parts) == 1


def test_reasoning_without_an_id_is_kept_separate() -> None:
    first, second, _ = answer(
        ThinkingPart("", id="redacted_thinking", signature="one"),
        ThinkingPart("", id="redacted_thinking", signature="two"),
        TextPart("hi"),
    )
    assert "id" not in first
    assert [first["encrypted_content"], second["encrypted_content"]] == ["one", "two"]
    (message,) = to_messages([first, second, assistant_message("hi")], OPENAI)
    assert [part.id for part in message.parts] == ["redacted_thinking", "redacted_thinking", None]


def test_details_that_are_not_json_are_dropped() -> None:
    (item,) = answer(TextPart("hi", provider_details={"when": object(), "phase": "final"}))
    assert item["provider_details"] == {"provider": "openai", "details": {"phase": "final"}}


def test_texts_of_one_message_are_merged() -> None:
    (item,) = answer(TextPart("a", id="msg_1"), TextPart("b", id="msg_1"))
    assert is_message(item)
    assert text_of(item) == "ab"


def test_a_filtered_empty_answer_becomes_a_refusal() -> None:
    (item,) = answer(finish_reason="content_filter")
    assert item["content"][0]["type"] == "refusal"


def test_an_answer_that_ended_with_an_error_is_refused() -> None:
    with pytest.raises(ModelBehaviorError, match="the answer of test was cut off: failed"):
        answer(finish_reason="error", provider_details={"finish_reason": "failed"})


def test_provider_internal_parts_become_no_items() -> None:
    searched = NativeToolCallPart("web_search", {"query": "x"}, tool_call_id="ws_1")
    assert answer(searched, TextPart("found")) == [assistant_message("found")]
    deltas = Deltas()
    assert deltas.of(PartStartEvent(index=0, part=searched)) is None
    told = deltas.of(PartStartEvent(index=1, part=TextPart("found")))
    assert told == ModelDelta(kind="text", text="found", index=0)
    assert deltas.of(PartEndEvent(index=1, part=TextPart("found"))) is None


def test_a_file_as_an_answer_is_refused() -> None:
    image = FilePart(BinaryContent(b"x", media_type="image/png"))
    with pytest.raises(ModelBehaviorError, match="returned a file"):
        answer(image)


def test_the_output_of_an_unknown_call_has_a_placeholder_name() -> None:
    assert _part([function_output("gone", "x")], 0).tool_name == "unknown_tool"


def _part(items: list[Item], index: int) -> Any:
    messages = to_messages(items, OPENAI)
    message = messages[index]
    assert isinstance(message, ModelRequest)
    return message.parts[0]
