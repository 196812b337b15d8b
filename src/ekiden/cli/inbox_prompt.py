"""Prompts for an inbox item: which one, which answer, and which edits."""

from __future__ import annotations

import re
import sys
from typing import Final

from ekiden.api.inbox import InboxApi
from ekiden.api.methods.values import SESSION_ID
from ekiden.cli.errors import UsageError
from ekiden.cli.place import Place
from ekiden.cli.run.handoffs import plain_text, who_answers
from ekiden.cli.terminal.approval_prompt import ask_on_terminal
from ekiden.cli.views.inbox import edit_question
from ekiden.core.errors.messages import InboxItemNotFound
from ekiden.core.questions import InboxItem
from ekiden.inbox.answers import needs_words, same_arguments

_LISTED: Final = 10
_LONGEST: Final = 128
_YES = frozenset({"y", "yes", "j", "ja", "是", "好", "はい"})


def decides(option: str | None, place: Place) -> str | None:
    """The person, as from `who_answers`; `None` for a server, which knows the key's owner."""
    if place.is_server and option is None:
        return None
    return who_answers(option)


async def find_item(inbox: InboxApi, beginning: str) -> InboxItem:
    """The item with this id or unique prefix."""
    plain_text(beginning, "the item's id")
    if len(beginning) > _LONGEST or not re.search(SESSION_ID, beginning):
        raise InboxItemNotFound(beginning)
    try:
        return await inbox.get(beginning)
    except InboxItemNotFound:
        found = [
            item
            async for item in inbox.list(status="any", snoozed=True, text=beginning)
            if item.id.startswith(beginning)
        ]
        if not found:
            raise
    if len(found) > 1:
        ids = ", ".join(sorted(item.id for item in found)[:_LISTED])
        raise UsageError(f"{beginning[:80]!r} is a prefix of several: {ids}")
    return found[0]


def chosen(item: InboxItem, word: str | None, text: str) -> tuple[str | None, str]:
    """Choice and text, from the typed words.

    A unique prefix of an option is enough. Without options the words are the answer's text.
    """
    if word is None:
        return None, text
    plain_text(word, "the answer")
    if not item.options:
        if text:
            raise UsageError("the item takes a text: give it once")
        return None, word
    typed = word.strip().casefold()
    exact = [option for option in item.options if option.casefold() == typed]
    begin = [option for option in item.options if typed and option.casefold().startswith(typed)]
    fitting = exact or begin
    choice = fitting[0] if len(fitting) == 1 else word
    if item.status == "open" and needs_words(item, choice) and not text.strip():
        raise UsageError("the conversation waits for a text: give it with --text")
    return choice, text


async def edit_is_meant(item: InboxItem, arguments: str | None, *, yes: bool) -> bool:
    """Whether the person wants the tool to run with edited arguments.

    They see the difference; `UsageError` without a terminal, `InboxAnswerInvalid` if it is not a
    JSON object.
    """
    if arguments is None or item.arguments is None or same_arguments(item, arguments):
        return False
    if yes:
        return True
    asked = edit_question(item, arguments)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "these arguments differ from those in the question; nothing was answered. "
            f"{asked.rules}\n{asked.quoted}\nAnswer with --yes to run the tool with yours."
        )
    line = await ask_on_terminal(asked)
    if (line or "").strip().casefold() not in _YES:
        raise UsageError("nothing was answered: the item stays open")
    return True
