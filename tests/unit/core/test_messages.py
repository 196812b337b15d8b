"""Messages as they are stored, also by another version of Ekiden."""

from __future__ import annotations

from ekiden.core.conversation.messages import AgentMessage, Letter


def test_a_stored_message_is_read_back_unchanged() -> None:
    message = AgentMessage(type="query", from_agent="pm", to_agent="sales", payload={"id": 42})
    letter = Letter(message=message, awaits="sales#t1", group=("g", "any"))
    assert Letter.from_json(letter.to_json()) == letter
    assert AgentMessage.from_json(message.to_json()) == message


def test_unknown_fields_of_a_newer_version_are_ignored() -> None:
    letter = Letter(message=AgentMessage(from_agent="pm", to_agent="sales"))
    newer = {**letter.to_json(), "colour": "blue"}
    assert Letter.from_json(newer) == letter
    assert AgentMessage.from_json(newer) == letter.message
