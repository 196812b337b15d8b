"""`/inbox …`: list, show and answer inbox items, of this session first."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ekiden.cli.chat.screens.screen import CommandReply, Lines, Pairs, Quoted, Shape, Table, told
from ekiden.cli.errors import UsageError
from ekiden.cli.views.inbox import answer_words, question_line, question_record
from ekiden.tools.output import spelled_out

if TYPE_CHECKING:
    from ekiden.api.inbox import InboxApi
    from ekiden.cli.chat.conversation import Chat
    from ekiden.core.questions import InboxItem

_LISTED = 50
_NAMELESS = "unknown"


def inbox_of(chat: Chat) -> InboxApi:
    """The inbox of the chat's store; answers are given in the name of this machine's user."""
    from ekiden.api.local.context import LocalContext
    from ekiden.api.local.inbox import LocalInbox
    from ekiden.cli.place import VIA
    from ekiden.cli.run.handoffs import person_name

    here = LocalContext(
        store=chat.store,
        settings=chat.roster.project.settings,
        caller=person_name(None) or _NAMELESS,
        via=VIA,
    )
    return LocalInbox(here)


async def listed(chat: Chat, argument: str) -> CommandReply:
    """`/inbox`: items of this session first."""
    shown = await list_reply(inbox_of(chat), await chat.questions())
    return shown or told("inbox", await _nothing(chat), items=[])


async def show(chat: Chat, argument: str) -> CommandReply:
    """`/inbox show ID`."""
    return await item_reply(inbox_of(chat), argument)


async def answer(chat: Chat, argument: str) -> CommandReply:
    """`/inbox answer ID CHOICE [TEXT]`."""
    return await answer_reply(inbox_of(chat), argument, await chat.questions())


async def list_reply(inbox: InboxApi, own: Sequence[InboxItem]) -> CommandReply | None:
    """The open inbox items, the session's `own` first; `None` if there are none."""
    from ekiden.cli.terminal.tables import Id, span

    page = await inbox.list().page(limit=_LISTED)
    mine = {item.id for item in own}
    items = [*own, *(item for item in page.items if item.id not in mine)]
    if not items:
        return None
    rows = [
        (
            "*" if item.id in mine else "",
            Id(item.id),
            span(time.time() - item.created_at_us / 1e6),
            item.role if item.assignee is None else f"{item.role}: {item.assignee}",
            question_line(item, with_role=False),
            answer_words(item, in_chat=True),
        )
        for item in items
    ]
    record = {"items": [{**question_record(item), "own": item.id in mine} for item in items]}
    table = Table(headers=("", "item", "age", "for", "question", "answers"), rows=rows)
    shapes: list[Shape] = [table]
    if own:
        shapes.append(Lines(text="* marks what this session waits for"))
    return CommandReply(type="inbox", record=record, shapes=shapes)


async def item_reply(inbox: InboxApi, argument: str) -> CommandReply:
    """Everything about the item that the argument names."""
    from ekiden.cli.inbox_prompt import find_item
    from ekiden.cli.views.inbox import item_facts, item_texts, quoted
    from ekiden.core.documents import to_json

    if not argument:
        raise UsageError("name the item: /inbox show ID; /inbox lists them")
    item = await find_item(inbox, argument)
    facts = item_facts(item, round(time.time() * 1e6))
    shapes: list[Shape] = [Pairs(pairs=[(name, text) for name, text in facts if text])]
    for heading, text in item_texts(item):
        if text:
            shapes += [Lines(text=f"{heading}:"), Quoted(text=quoted(text))]
    return CommandReply(type="inbox_item", record=to_json(item), shapes=shapes)


async def answer_reply(inbox: InboxApi, argument: str, own: Sequence[InboxItem]) -> CommandReply:
    """Answer the item named at the start of the argument; `own` are the session's items."""
    from ekiden.cli.inbox_prompt import find_item
    from ekiden.core.documents import to_json

    item_id, _, said = argument.partition(" ")
    if not item_id:
        raise UsageError("name the item and give your answer: /inbox answer ID CHOICE [TEXT]")
    item = await find_item(inbox, item_id)
    if not said.strip():
        raise UsageError(
            f"give your answer: /inbox answer {item.id} {answer_words(item, in_chat=True)}"
        )
    choice, text = split_answer(said.strip(), item.options)
    done = await inbox.answer(item.id, choice, text=text)
    given = done.answer.choice or done.answer.text if done.answer is not None else ""
    line = f"{item.id} answered: {spelled_out(given)}"
    if item.session_id is not None and item.id not in {each.id for each in own}:
        line = f"{line}; the process that runs session {item.session_id} continues with it"
    record = {**to_json(done), "text": line}
    return CommandReply(type="answered", record=record, shapes=(Lines(text=line),))


def split_answer(said: str, options: Sequence[str]) -> tuple[str | None, str]:
    """The option that the text begins with, and the words after it.

    Case and quotation marks do not matter; a unique prefix of an option is enough. Without options
    the whole text is a free answer. A text that fits no option is returned as the choice, which is
    then refused.
    """
    if not options:
        return None, said
    for option in sorted(options, key=len, reverse=True):
        for written in (f'"{option}"', f"'{option}'", option):
            begin, rest = said[: len(written)], said[len(written) :]
            if begin.casefold() == written.casefold() and (not rest or rest[0].isspace()):
                return option, rest.strip()
    word, _, rest = said.partition(" ")
    fitting = [option for option in options if option.casefold().startswith(word.casefold())]
    return (fitting[0] if len(fitting) == 1 else word), rest.strip()


async def _nothing(chat: Chat) -> str:
    if not chat.is_waiting:
        return "the inbox is empty"
    return f"the inbox is empty; this session waits for {await chat.waits_for()}"
