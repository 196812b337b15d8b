"""What A2A clients say: requests for the team, and answers to what people are asked."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from a2a.types import Message, Role
from a2a.utils.errors import ContentTypeNotSupportedError, InvalidParamsError

from ekiden.core.questions import InboxItem
from ekiden.core.values import dumps
from ekiden.integrations.a2a.server.tasks import data_of

_MAX_TEXT = 1_000_000
_MAX_ID = 1_000
_YES = frozenset({"yes", "approve", "approved", "ok", "y"})
_NO = frozenset({"no", "reject", "rejected", "deny", "n"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAnswer:
    """An answer to a question that the task waits for."""

    item_id: str
    choice: str | None
    text: str


def request_text(message: Message) -> str:
    """What the message says to the team: its texts, and its data as JSON.

    Files are not taken: `ContentTypeNotSupportedError`.
    """
    check_message(message)
    said: list[str] = []
    for part in message.parts:
        match part.WhichOneof("content"):
            case "text":
                said.append(part.text)
            case "data":
                said.append(dumps(data_of(part)))
            case _:
                raise ContentTypeNotSupportedError(
                    "only parts with text or data are taken, no files; send their text"
                )
    text = "\n".join(said)
    if not text.strip():
        raise InvalidParamsError("the message says nothing: give it a part with text")
    if len(text) > _MAX_TEXT:
        raise InvalidParamsError(f"a message has at most {_MAX_TEXT:,} characters")
    return text


def check_message(message: Message) -> None:
    """`InvalidParamsError` for a message that cannot be one of a client."""
    if message.role == Role.ROLE_AGENT:
        raise InvalidParamsError("a message to the team has the role ROLE_USER")
    if not message.message_id or len(message.message_id) > _MAX_ID:
        raise InvalidParamsError(f"a message needs a messageId of 1 to {_MAX_ID} characters")
    if not message.parts:
        raise InvalidParamsError("the message has no parts")


def fingerprint(message: Message) -> str:
    """The same for the same content only."""
    said = b"\0".join(part.SerializeToString(deterministic=True) for part in message.parts)
    return sha256(said).hexdigest()


def decision(message: Message, questions: list[InboxItem]) -> TaskAnswer:
    """The answer that the message gives to one of the open questions.

    A data part `{"choice": …, "text": …, "item": …}` says it exactly; a text that is one of the
    options, or yes or no where the options mean that, says it as well; for a question without
    options any text does. `InvalidParamsError` tells what would fit.
    """
    check_message(message)
    given: dict[str, Any] = {}
    texts: list[str] = []
    for part in message.parts:
        kind = part.WhichOneof("content")
        if kind == "data" and isinstance(found := data_of(part), dict):
            given |= found
        elif kind == "text":
            texts.append(part.text)
    item = _item(given, questions)
    text = given.get("text", "\n".join(texts))
    choice = given.get("choice")
    if not isinstance(text, str) or not (choice is None or isinstance(choice, str)):
        raise InvalidParamsError("`choice` and `text` of an answer are texts")
    if choice is None and item.options:
        choice, text = _option(item, text), "" if "text" not in given else text
    return TaskAnswer(item_id=item.id, choice=choice, text=text)


def _item(given: dict[str, Any], questions: list[InboxItem]) -> InboxItem:
    wanted = given.get("item")
    if wanted is None and len(questions) == 1:
        return questions[0]
    for item in questions:
        if item.id == wanted:
            return item
    listed = ", ".join(item.id for item in questions)
    raise InvalidParamsError(
        f'the task waits for {len(questions)} answers; say in a data part which "item" this one '
        f"is for: {listed}"
    )


def _option(item: InboxItem, text: str) -> str:
    said = text.strip().casefold()
    for option in item.options:
        if option.casefold() == said:
            return option
    for words in (_YES, _NO):
        meant = [option for option in item.options if option.casefold() in words]
        if said in words and len(meant) == 1:
            return meant[0]
    raise InvalidParamsError(
        f"{text.strip()[:80]!r} is not one of the options: {', '.join(item.options)}"
    )
