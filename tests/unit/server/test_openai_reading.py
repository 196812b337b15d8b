"""What clients of OpenAI's interfaces send, read."""

from __future__ import annotations

from typing import Any

import pytest

from ekiden.core.conversation.model import assistant_message
from ekiden.core.errors.server import RunNotFound
from ekiden.core.questions import InboxItem
from ekiden.integrations.openai_api.bodies import (
    CHAT_REFUSED,
    BadRequest,
    ChatRequest,
    refuse,
    shows,
)
from ekiden.integrations.openai_api.response_items import (
    ResponseId,
    ResponseOutput,
    approval_request,
    read_response_input,
)
from ekiden.integrations.openai_api.turns import read_chat, read_command, waiting_notice


def item(**more: Any) -> InboxItem:
    fields: dict[str, Any] = {"kind": "approval", "from_agent": "sales", "subject": "A coupon?"}
    return InboxItem(**{**fields, **more})


def test_message_parts_become_item_parts() -> None:
    chat = read_chat(
        [
            {"role": "developer", "content": "be brief"},
            {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"refusal": "b"}]},
            {"role": "assistant", "content": None},
            {"role": "assistant", "content": None, "refusal": "no"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image_url", "image_url": {"url": "https://x/y", "detail": "low"}},
                    {"type": "image_url", "image_url": {"url": "https://x/z"}},
                    {"type": "file", "file": {"file_id": "f"}},
                    {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
                ],
            },
        ]
    )
    assert chat.text == "look"
    assert not chat.is_empty
    assert [part["type"] for part in chat.message["content"]] == [
        "input_text",
        "input_image",
        "input_image",
        "input_file",
        "input_audio",
    ]
    assert chat.history[1:] == (assistant_message("ab"), assistant_message("no"))


@pytest.mark.parametrize("content", ["", "  \n", []])
def test_a_message_can_be_empty(content: Any) -> None:
    assert read_chat([{"role": "user", "content": content}]).is_empty


def test_default_values_of_unsupported_options_are_accepted() -> None:
    refuse({"tools": [], "n": 1, "logprobs": None, "tool_choice": "auto"}, CHAT_REFUSED)
    with pytest.raises(BadRequest, match="'n'"):
        refuse({"n": True}, CHAT_REFUSED)


def test_options_without_effect_are_named() -> None:
    body = ChatRequest.model_validate(
        {"model": "m", "messages": [{}], "seed": 1, "top_p": None, "zzz": 2, "user": "mira"}
    )
    assert body.ignored() == ["seed"]
    assert body.user_id == "mira"


def test_the_show_header_is_a_comma_separated_list() -> None:
    assert shows(None) == frozenset()
    assert shows("Tools, nothing,handoffs") == {"tools", "handoffs"}


def test_chat_commands_match_the_options_of_open_items() -> None:
    yes_no = item(options=("yes", "no"))
    words = item(options=())
    assert read_command("/yes", [yes_no]) is not None
    told = read_command(f"/NO {yes_no.id} not today\nor ever", [words, yes_no])
    assert told is not None
    assert (told.item, told.choice, told.text) == (yes_no, "no", "not today\nor ever")
    told = read_command("/answer 八折", [words])
    assert told is not None
    assert (told.choice, told.text) == (None, "八折")
    for nothing in ("yes", "/perhaps", "/answer", "/yes inb_other", "", "/", "// yes"):
        assert read_command(nothing, [yes_no, words]) is None, nothing


def test_a_notice_explains_how_to_answer_each_kind_of_item() -> None:
    notice = waiting_notice(
        "s:1",
        [
            item(options=("yes", "no"), body="15 %"),
            item(options=("give back",)),
            item(options=()),
        ],
    )
    assert "`/yes` or `/no` here" in notice
    assert "15 %" in notice
    assert "`/answer` and your words" in notice
    assert notice.endswith("[ekiden run s:1]")
    assert "not taken up" in waiting_notice("s:1", [item()], dropped=True)


def test_a_response_id_names_a_run_and_optionally_an_event() -> None:
    for text, run_id, after in (("resp_a.b:c:7", "a.b:c:7", 0), ("resp_a:1.17", "a:1", 17)):
        found = ResponseId.parse(text)
        assert (found.run_id, found.after, str(found)) == (run_id, after, text)
    for text in ("resp_", "resp_a", "resp_a:", "resp_a:1.", "x_a:1", "resp_a:1\n", "resp_:1"):
        with pytest.raises(RunNotFound):
            ResponseId.parse(text)


def test_returned_history_is_read_without_echoed_items() -> None:
    found = read_response_input(
        [
            {"role": "user", "content": "hi"},
            {"type": "reasoning", "summary": []},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "a"}],
            },
            {"role": "assistant", "content": ""},
            {"role": "user", "content": [{"type": "input_image", "image_url": "https://x"}]},
        ],
        "be brief",
    )
    assert [each["role"] for each in found.items] == ["user", "assistant", "developer", "user"]


def test_yes_no_questions_become_mcp_approval_requests() -> None:
    asked = approval_request(item(options=("grant", "deny"), body="15 %"))
    assert asked["name"] == "ask_person"
    assert '"approve":"grant","reject":"deny"' in asked["arguments"]
    output = ResponseOutput("resp_s:1")
    told = list(output.ask([item(options=()), item(options=("a", "b", "c"))]))
    assert told[0]["type"] == "response.output_item.added"
    [message] = output.items
    assert "A coupon?" in message["content"][0]["text"]
