"""What a plain chat client is told when there is no answer yet, and how it is recognised later.

Such a client knows nothing of sessions: it sends all that was said, each time. So a notice ends
with the run that it is about, and whoever sends it back as part of the conversation goes on there.
What a client sends may be made up, by a model that was talked into it, too. So the run is taken up
only if its session has heard the very same messages from the user.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ekiden.core.conversation.model import Item, text_of
from ekiden.core.errors import EkidenError
from ekiden.core.questions import InboxItem
from ekiden.core.runs import parse_run_id
from ekiden.integrations.openai_api.messages import ClientChat, user_texts
from ekiden.project.service import TenantService
from ekiden.sessions.conversation import conversation
from ekiden.sessions.progress import run_number
from ekiden.tools.output import shortened

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
    """That a run waits for people, for what, and what can be done."""
    lines = ["This waits for a person's decision."]
    if dropped:
        lines[0] = "This still waits for a person's decision; your last message was not taken up."
    for item in questions:
        lines.append(f"\n{shortened(item.subject, _MOST_SHOWN)} ({item.id})")
        if item.body:
            lines.append(shortened(item.body, _MOST_SHOWN))
        lines.append(f"To answer: {_ways(item)}")
    lines.append("\nAfterwards write again, or send an empty message, to get the answer.")
    return _marked("\n".join(lines), run_id)


def working_notice(run_id: str) -> str:
    """That a run goes on, and how its answer is to be had."""
    told = "The team is still working on this. Send an empty message later to get the answer."
    return _marked(told, run_id)


def read_command(text: str, questions: Sequence[InboxItem]) -> TypedAnswer | None:
    """The answer that `text` gives to one of the questions, such as ``/approve`` or ``/reject too
    much``; `None` if it is none. With several questions it names one: ``/approve inb_… words``."""
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


async def run_noticed(desk: TenantService, chat: ClientChat) -> str | None:
    """The run that the client was last told to wait for, if it is one of this conversation."""
    if not chat.history:
        return None
    last = chat.history[-1]
    found = _MARK.search(text_of(last)) if last.get("role") == "assistant" else None
    if found is None:
        return None
    run_id = found.group(1)
    try:
        session_id, number = parse_run_id(run_id)
        row = await desk.store.get(session_id)
    except EkidenError:
        return None
    if run_number(row) != number:
        return None
    items = conversation(await desk.store.events(session_id, with_items=True))
    return run_id if _is_same(chat.history, user_texts(items)) else None


def _is_same(history: Sequence[Item], heard: Sequence[str]) -> bool:
    """Whether `heard` is what the user said; a message after a notice may not have been taken up,
    but the client keeps it."""
    place, noticed = 0, False
    for item in history:
        if item.get("role") == "user":
            if place < len(heard) and text_of(item) == heard[place]:
                place += 1
            elif not noticed:
                return False
        noticed = item.get("role") == "assistant" and _MARK.search(text_of(item)) is not None
    return 0 < place == len(heard)


def _ways(item: InboxItem) -> str:
    if item.options:
        ways = [f"`/{option}`" for option in item.options if " " not in option]
        if ways:
            return (
                f"{' or '.join(ways)} here, with a key that may answer; or in the inbox "
                f"(`ekiden inbox answer {item.id} {item.options[0]}`)"
            )
        return f"in the inbox (`ekiden inbox answer {item.id}`)"
    return f"`/answer` and your words here, or in the inbox (`ekiden inbox answer {item.id}`)"


def _marked(text: str, run_id: str) -> str:
    return f"{text}\n\n[ekiden run {run_id}]"
