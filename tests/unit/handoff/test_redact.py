"""Redaction: nothing sensitive reaches the target, and nothing else changes."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ekiden.core.agent import Agent
from ekiden.core.conversation.model import (
    Item,
    assistant_message,
    function_call,
    function_output,
    user_message,
)
from ekiden.core.errors import UserError
from ekiden.core.handoffs import HandoffInputData
from ekiden.handoff import (
    compose,
    declared_handoff,
    handoff,
    keep_last,
    nest_handoff_history,
    redact,
    remove_all_tools,
)
from ekiden.handoff.transcript import parse_transcript
from ekiden.runtime import Runner
from ekiden.testing import ScriptedModel, say, transfer

Make = Callable[..., HandoffInputData]


def seen(data: object) -> list[Item]:
    assert isinstance(data, HandoffInputData)
    assert not isinstance(data.input_history, str)
    last = data.new_items if data.input_items is None else data.input_items
    produced = (*data.pre_handoff_items, *last)
    return [*data.input_history, *(item.to_input_item() for item in produced)]


def test_every_text_visible_to_the_target_is_masked(make_data: Make) -> None:
    data = make_data(
        [
            user_message("我的电话13812345678"),
            {"role": "user", "name": "ana@example.com", "content": [
                {"type": "input_text", "text": "4111 1111 1111 1111"},
                {"type": "input_image", "image_url": "data:image/png;base64,4111111111111111"},
            ]},
        ],
        [
            {"type": "reasoning", "id": "rs_13812345678", "encrypted_content": "ana@example.com",
             "summary": [{"type": "summary_text", "text": "Call 13812345678."}]},
            function_call("call_13812345678", "look", '{"phone": 13812345678, "n": 5}'),
            function_output("call_13812345678", '{"mail": "ana@example.com"}'),
            function_output("2", [{"type": "input_text", "text": "ana@example.com"}]),
            {"type": "shell_call_output", "call_id": "3", "output": [{"stdout": "ana@b.co"}]},
        ],
        [
            assistant_message("I pass on 13812345678."),
            function_call("9", "transfer_to_b", '{"reason": "ana@example.com asks"}'),
        ],
    )  # fmt: skip
    first, second, thought, call, output, parts, shell, said, own = seen(redact()(data))
    assert first == user_message("我的电话[phone]")
    assert second["name"] == "[email]"
    assert second["content"][0]["text"] == "[card]"
    assert second["content"][1]["image_url"].endswith("4111111111111111")
    assert thought["summary"][0]["text"] == "Call [phone]."
    assert (thought["id"], thought["encrypted_content"]) == ("rs_13812345678", "ana@example.com")
    assert json.loads(call["arguments"]) == {"phone": "[phone]", "n": 5}
    assert call["call_id"] == output["call_id"] == "call_13812345678"
    assert json.loads(output["output"]) == {"mail": "[email]"}
    assert parts["output"][0]["text"] == "[email]"
    assert shell["output"][0]["stdout"] == "[email]"
    assert said["content"][0]["text"] == "I pass on [phone]."
    assert json.loads(own["arguments"]) == {"reason": "[email] asks"}


def test_logprobs_and_annotations_are_removed_with_a_masked_text(make_data: Make) -> None:
    part = {
        "type": "output_text",
        "text": "ana@example.com",
        "logprobs": [{"token": "ana"}, {"token": "@example.com"}],
        "annotations": [{"type": "url_citation", "end_index": 15}],
    }
    clean = {**part, "text": "hello"}
    (covered,) = seen(redact()(make_data([{"role": "assistant", "content": [part, clean]}])))
    assert covered["content"][0] == {
        "type": "output_text", "text": "[email]", "logprobs": [], "annotations": [],
    }  # fmt: skip
    assert covered["content"][1] is clean


def test_only_the_chosen_kinds_are_masked_with_the_chosen_mask(make_data: Make) -> None:
    data = make_data([user_message("ana@example.com, 13812345678")])
    (item,) = seen(redact("phone", mask="<{kind}>")(data))
    assert item["content"] == "ana@example.com, <phone>"
    assert repr(redact("phone", mask="***")) == "redact(phone, mask='***')"


def test_data_without_anything_sensitive_stays_the_same_object(make_data: Make) -> None:
    data = make_data([user_message("hi")], [function_call("1", "look", '{"a": [1, 2]}')])
    assert redact()(data) is data


def test_a_history_that_is_text_stays_text(make_data: Make) -> None:
    assert redact()(make_data("13812345678")).input_history == "[phone]"


def test_redaction_changes_only_what_the_target_would_see(make_data: Make) -> None:
    data = make_data([], [], [assistant_message("13812345678")])
    shown = data.clone(input_items=make_data([], [], [assistant_message("ana@b.co")]).new_items)
    covered = redact()(shown)
    assert covered.new_items is data.new_items
    assert seen(covered) == [assistant_message("[email]")]
    assert covered.input_items is not None
    assert covered.input_items[0].agent is data.new_items[0].agent


def test_calls_in_a_nested_history_keep_valid_arguments(make_data: Make) -> None:
    call = function_call("1", "look", '{"phone": 13812345678}')
    covered = (nest_handoff_history | redact())(make_data([user_message("hi"), call]))
    (nested,) = seen(covered)
    inner = parse_transcript(nested)
    assert inner is not None
    assert json.loads(inner[1]["arguments"]) == {"phone": "[phone]"}
    assert seen(redact()(covered)) == [nested]  # type: ignore[arg-type]


def test_generated_pictures_are_not_read(make_data: Make) -> None:
    item = {"type": "image_generation_call", "id": "1", "result": "4111111111111111"}
    data = make_data([item])
    assert redact()(data) is data


@pytest.mark.parametrize("make", [lambda: redact("e-mail"), lambda: redact(mask="1")])
def test_invalid_kinds_and_masks_are_refused_when_the_filter_is_created(
    make: Callable[[], object],
) -> None:
    with pytest.raises(UserError):
        make()


def test_reason_context_and_summary_of_the_handoff_are_masked() -> None:
    words = {"reason": "13812345678", "context": None, "summary": ["ana@example.com"]}
    covered = {"reason": "[phone]", "context": None, "summary": ["[email]"]}
    assert redact().filter_texts(words) == covered
    chain = compose(lambda data: data, keep_last(3), redact("email"), redact("phone"))
    assert chain.filter_texts(words) == covered
    assert remove_all_tools.filter_texts(words) is words


async def test_the_target_of_a_real_handoff_does_not_see_the_number() -> None:
    with ScriptedModel([transfer("b"), say("ok")]) as model:
        b = Agent("b", model=model)
        a = Agent("a", model=model, handoffs=[handoff(b, input_filter=redact())])
        await Runner.run(a, "我的电话13812345678")
    assert model.calls[1].input[0] == user_message("我的电话[phone]")


async def test_agent_files_can_name_the_redact_filter() -> None:
    with ScriptedModel([transfer("b", reason="x"), say("ok")]) as model:
        b = Agent("b", model=model)
        made = declared_handoff(b, filters=["redact(phone)", "remove_all_tools"])
        await Runner.run(Agent("a", model=model, handoffs=[made]), "13812345678, ana@b.co")
    assert model.calls[1].input == [user_message("[phone], ana@b.co")]
