"""Run items and the helpers that read them."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import pytest
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import (
    Item,
    ModelResponse,
    assistant_message,
    function_call,
    function_output,
    user_message,
)
from ekiden.core.conversation.run_items import (
    HandoffOutputItem,
    ItemHelpers,
    MessageOutputItem,
    RunItem,
    RunItemBase,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
)


def test_a_plain_item_is_sent_back_as_the_same_object() -> None:
    said = assistant_message("hi")
    assert MessageOutputItem(Agent("a"), said).to_input_item() is said
    assert ModelResponse(output=[said]).to_input_items()[0] is said


def test_output_only_fields_are_not_sent_back() -> None:
    call: Item = {**function_call("1", "look", "{}"), "created_by": "server"}
    assert ToolCallItem(Agent("a"), call).to_input_item() == function_call("1", "look", "{}")
    assert call["created_by"] == "server"


def test_an_item_keeps_its_agents_until_released() -> None:
    agents: list[Any] = [Agent("a"), Agent("b")]
    item = HandoffOutputItem(
        agents[0], function_output("1", "{}"), source_agent=agents[0], target_agent=agents[1]
    )
    gone = [weakref.ref(agent) for agent in agents]
    agents.clear()
    gc.collect()
    assert item.target_agent is not None
    item.release_agent()
    item.release_agent()
    gc.collect()
    assert [ref() for ref in gone] == [None, None]
    assert item.agent is item.source_agent is item.target_agent is None
    assert "agent=None" in repr(item)


def test_a_copied_item_shares_agent_and_content() -> None:
    item = ToolCallOutputItem(Agent("a"), function_output("1", "x"), output="x")
    twin = copy.copy(item)
    assert twin.agent is item.agent
    assert twin.raw_item is item.raw_item
    assert twin.output == "x"


@pytest.mark.parametrize("plain", [True, False])
def test_call_items_have_tool_name_and_call_id(plain: bool) -> None:
    raw = function_call("1", "look", "{}")
    item = ToolCallItem(Agent("a"), raw if plain else ResponseFunctionToolCall(**raw))
    assert (item.tool_name, item.call_id) == ("look", "1")
    assert ToolApprovalItem(Agent("a"), raw).tool_name == "look"
    assert ToolApprovalItem(Agent("a"), raw, tool_name="other").tool_name == "other"


def test_every_run_item_type_has_a_unique_name() -> None:
    def leaves(kind: type[RunItemBase]) -> list[type[RunItemBase]]:
        children = [c for c in kind.__subclasses__() if c.__module__.startswith("ekiden.core.")]
        return [leaf for child in children for leaf in leaves(child)] if children else [kind]

    names = [kind.type for kind in leaves(RunItemBase)]
    assert len(set(names)) == len(names) == 13


def parts(*texts: str, refusal: str | None = None) -> Item:
    content: list[Any] = [{"type": "output_text", "text": text} for text in texts]
    if refusal is not None:
        content.append({"type": "refusal", "refusal": refusal})
    return {"type": "message", "role": "assistant", "content": content}


def test_text_is_read_from_dicts_and_from_typed_messages() -> None:
    raw = parts("a", "b", refusal="no")
    typed = ResponseOutputMessage.model_construct(**raw)
    for message in (raw, typed):
        assert ItemHelpers.extract_text(message) == "ab"
        assert ItemHelpers.extract_refusal(message) == "no"
        assert ItemHelpers.extract_last_content(message) == "no"
        assert ItemHelpers.extract_last_text(message) is None
    assert ItemHelpers.extract_last_text(parts("a", "b")) == "b"
    assert ItemHelpers.extract_text({"type": "message", "content": "plain"}) == "plain"


@pytest.mark.parametrize("item", [parts(), {"type": "message"}, function_call("1", "a", "{}")])
def test_an_item_without_text_returns_no_text(item: Item) -> None:
    assert ItemHelpers.extract_last_content(item) == ""
    assert ItemHelpers.extract_last_text(item) is None
    assert ItemHelpers.extract_text(item) is None
    assert ItemHelpers.extract_refusal(item) is None


def test_input_is_copied_to_a_new_list() -> None:
    assert ItemHelpers.input_to_new_input_list("hi") == [user_message("hi")]
    given_in = [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]
    copied = ItemHelpers.input_to_new_input_list(given_in)
    copied[0]["content"].clear()
    assert given_in[0]["content"]


def test_a_tool_result_becomes_the_output_of_its_call() -> None:
    call = function_call("1", "look", "{}")
    assert ItemHelpers.tool_call_output_item(call, "x") == function_output("1", "x")
    assert ItemHelpers.tool_call_output_item(call, 7) == function_output("1", "7")
    rich = [{"type": "input_text", "text": "x"}]
    assert ItemHelpers.tool_call_output_item(call, rich)["output"] is rich


def test_a_shell_output_is_sent_back_without_created_by() -> None:
    chunk = {"stdout": "ok", "created_by": "server"}
    raw = {"type": "shell_call_output", "call_id": "1", "status": "completed", "output": [chunk, 1]}
    item = ToolCallOutputItem(Agent("a"), raw)
    sent = {"type": "shell_call_output", "call_id": "1", "output": [{"stdout": "ok"}, 1]}
    assert item.to_input_item() == sent
    assert ModelResponse(output=[raw]).to_input_items() == [{**sent, "status": "completed"}]
    assert chunk["created_by"] == "server"


def test_the_texts_of_all_messages_are_joined() -> None:
    agent: Agent[Any] = Agent("a")
    items: list[RunItem] = [
        MessageOutputItem(agent, parts("a", "b")),
        ToolCallItem(agent, function_call("1", "look", "{}")),
        MessageOutputItem(agent, parts("c")),
    ]
    assert ItemHelpers.text_message_outputs(items) == "abc"
    assert ItemHelpers.text_message_output(MessageOutputItem(agent, parts("d"))) == "d"
