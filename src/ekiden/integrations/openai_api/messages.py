"""Chat messages as conversation items, and the notices of runs that have no answer yet.

A plain chat client knows no sessions and sends the whole conversation each time. So a notice ends
with the id of its run, and a conversation that ends with the notice resumes this run. A client can
forge such an id, so the run is resumed only if its session has the same messages from the user.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ekiden.core.conversation.model import Item, assistant_message, text_of
from ekiden.core.conversation.quotes import is_request
from ekiden.core.errors import EkidenError
from ekiden.core.questions import InboxItem
from ekiden.core.runs import parse_run_id
from ekiden.integrations.openai_api.errors import BadRequest
from ekiden.project.service import TenantService
from ekiden.sessions.conversation import conversation
from ekiden.sessions.session import run_number
from ekiden.tools.output import shortened

_ROLES = ("system", "developer", "user")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientChat:
    """The conversation that a chat client sends."""

    history: tuple[Item, ...]
    """All messages before the last one."""
    message: Item
    """The last message, from the user."""

    @property
    def text(self) -> str:
        """The text of the last message."""
        return text_of(self.message)

    @property
    def is_empty(self) -> bool:
        """Whether the last message has no content: the client only asks for the answer."""
        content = self.message["content"]
        return not self.text.strip() and (isinstance(content, str) or not content)


def read_chat(messages: Sequence[Mapping[str, Any]]) -> ClientChat:
    """The messages of a request. Raises `BadRequest` with the place of the error."""
    items = [item for index, each in enumerate(messages) if (item := _item(each, index))]
    if not items or items[-1].get("role") != "user":
        raise BadRequest(
            "the last message must be from the user: it is the one to be answered", param="messages"
        )
    return ClientChat(history=tuple(items[:-1]), message=items[-1])


def _item(message: Mapping[str, Any], index: int) -> Item | None:
    role, content, param = message.get("role"), message.get("content"), f"messages.{index}"
    if role in _ROLES:
        return {"role": role, "content": _content(content, f"{param}.content")}
    if role == "assistant":
        if message.get("tool_calls") or message.get("function_call"):
            raise _no_tools(param)
        text = message.get("refusal") if content is None else _text(content, f"{param}.content")
        return assistant_message(str(text)) if text else None
    if role in ("tool", "function"):
        raise _no_tools(param)
    raise BadRequest(
        f"a message is of the system, developer, user or assistant, not of {role!r:.60}",
        param=f"{param}.role",
    )


def _no_tools(param: str) -> BadRequest:
    return BadRequest(
        "tools of the client are not supported: the team's agents use their own, on the server",
        param=param,
        code="unsupported_value",
    )


def _text(content: Any, param: str) -> str:
    if isinstance(content, str):
        return content
    parts = _parts(content, param)
    return "".join(str(part.get("text") or part.get("refusal") or "") for part in parts)


def _content(content: Any, param: str) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content
    parts = _parts(content, param)
    return [_part(part, f"{param}.{index}") for index, part in enumerate(parts)]


def _parts(content: Any, param: str) -> list[dict[str, Any]]:
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise BadRequest("content is a text or a list of parts", param=param)
    return content


def _part(part: dict[str, Any], param: str) -> dict[str, Any]:
    match part:
        case {"type": "text", "text": str(text)}:
            return {"type": "input_text", "text": text}
        case {"type": "image_url", "image_url": {"url": str(url), **more}}:
            detail = more.get("detail") if isinstance(more.get("detail"), str) else "auto"
            return {"type": "input_image", "image_url": url, "detail": detail}
        case {"type": "file", "file": dict(file)}:
            return {"type": "input_file", **file}
        case {"type": "input_audio", "input_audio": dict(audio)}:
            return {"type": "input_audio", "input_audio": audio}
    raise BadRequest(
        "a part is a text, an image_url, a file or input_audio, and whole", param=param
    )


_MARK = re.compile(r"\[ekiden run ([A-Za-z0-9_\-.:@]{1,128}:[0-9]{1,9})\]\s*\Z")
_COMMAND = re.compile(r"\s*/([^\s/]{1,60})(?:\s+(inb_[0-9a-z]+))?(?:\s+(.*))?\Z", re.DOTALL)
_MOST_SHOWN = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedAnswer:
    """An answer to a question, typed into a chat."""

    item: InboxItem
    choice: str | None
    text: str


def waiting_notice(run_id: str, questions: Sequence[InboxItem], *, dropped: bool = False) -> str:
    """The text for a run that waits for people: the questions, and how to answer them."""
    lines = ["This waits for a person's decision."]
    if dropped:
        lines[0] = "This still waits for a person's decision; your last message was not taken up."
    for item in questions:
        lines.append(f"\n{shortened(item.subject, _MOST_SHOWN)} ({item.id})")
        if item.body:
            lines.append(shortened(item.body, _MOST_SHOWN))
        lines.append(f"To answer: {_how_to_answer(item)}")
    lines.append("\nAfterwards write again, or send an empty message, to get the answer.")
    return _marked("\n".join(lines), run_id)


def working_notice(run_id: str) -> str:
    """The text for a run that continues: how to get its answer."""
    text = "The team is still working on this. Send an empty message later to get the answer."
    return _marked(text, run_id)


def read_command(text: str, questions: Sequence[InboxItem]) -> TypedAnswer | None:
    """The answer in a command such as ``/approve`` or ``/reject too much``; `None` if `text` is not
    a command. With several questions the command names one of them: ``/approve inb_… words``."""
    found = _COMMAND.match(text)
    if found is None:
        return None
    word, named, words = found.group(1).casefold(), found.group(2), found.group(3) or ""
    for item in questions:
        if named not in (None, item.id):
            continue
        for option in item.options:
            if option.casefold() == word:
                return TypedAnswer(item=item, choice=option, text=words)
        if not item.options and word == "answer" and words:
            return TypedAnswer(item=item, choice=None, text=words)
    return None


async def run_noticed(tenant: TenantService, chat: ClientChat) -> str | None:
    """The run of the notice that is the last answer in the chat, if it is a run of this
    conversation."""
    if not chat.history:
        return None
    last = chat.history[-1]
    found = _MARK.search(text_of(last)) if last.get("role") == "assistant" else None
    if found is None:
        return None
    run_id = found.group(1)
    try:
        session_id, number = parse_run_id(run_id)
        row = await tenant.store.get(session_id)
    except EkidenError:
        return None
    if run_number(row) != number:
        return None
    items = conversation(await tenant.store.events(session_id, with_items=True))
    stored = [text_of(item) for item in items if is_request(item)]
    return run_id if _is_same(chat.history, stored) else None


def _is_same(history: Sequence[Item], stored: Sequence[str]) -> bool:
    """Whether the user's messages in `history` are the stored ones. A message after a notice may be
    missing in the store: it was ignored, because the run was waiting."""
    index, after_notice = 0, False
    for item in history:
        if item.get("role") == "user":
            if index < len(stored) and text_of(item) == stored[index]:
                index += 1
            elif not after_notice:
                return False
        after_notice = item.get("role") == "assistant" and _MARK.search(text_of(item)) is not None
    return 0 < index == len(stored)


def _how_to_answer(item: InboxItem) -> str:
    if item.options:
        commands = [f"`/{option}`" for option in item.options if " " not in option]
        if commands:
            return (
                f"{' or '.join(commands)} here, with a key that may answer; or in the inbox "
                f"(`ekiden inbox answer {item.id} {item.options[0]}`)"
            )
        return f"in the inbox (`ekiden inbox answer {item.id}`)"
    return f"`/answer` and your words here, or in the inbox (`ekiden inbox answer {item.id}`)"


def _marked(text: str, run_id: str) -> str:
    return f"{text}\n\n[ekiden run {run_id}]"
