"""`/inbox …`: list, show and answer inbox items, of this session first."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ekiden.cli.chat.screen import CommandReply, Lines, Pairs, Quoted, Shape, Table, text_reply
from ekiden.cli.errors import UsageError
from ekiden.cli.views.inbox import answer_words, question_line, question_record
from ekiden.tools.output import spelled_out

if TYPE_CHECKING:
    from ekiden.cli.chat.conversation import Chat

_LISTED = 50


async def listed(chat: Chat, argument: str) -> CommandReply:
    """`/inbox`: the open items, those of this session first."""
    from ekiden.cli.output import Id, span

    own = await chat.questions()
    page = await chat.api.inbox.list().page(limit=_LISTED)
    mine = {item.id for item in own}
    items = [*own, *(item for item in page.items if item.id not in mine)]
    if not items:
        text = "the inbox is empty"
        if chat.is_waiting:
            text = f"{text}; this session waits for {await chat.waits_for()}"
        return text_reply("inbox", text, items=[])
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


async def show(chat: Chat, argument: str) -> CommandReply:
    """`/inbox show ID`."""
    from ekiden.cli.ids import item_of
    from ekiden.cli.views.inbox import item_facts, item_texts, quoted
    from ekiden.core.documents import to_json

    if not argument:
        raise UsageError("name the item: /inbox show ID; /inbox lists them")
    item = await item_of(chat.api.inbox, argument)
    facts = item_facts(item, round(time.time() * 1e6))
    shapes: list[Shape] = [Pairs(pairs=[(name, text) for name, text in facts if text])]
    for heading, text in item_texts(item):
        if text:
            shapes += [Lines(text=f"{heading}:"), Quoted(text=quoted(text))]
    return CommandReply(type="inbox_item", record=to_json(item), shapes=shapes)


async def answer(chat: Chat, argument: str) -> int:
    """`/inbox answer ID CHOICE [TEXT]`."""
    from ekiden.cli.ids import item_of
    from ekiden.core.documents import to_json

    item_id, _, words = argument.partition(" ")
    if not item_id:
        raise UsageError("name the item and give your answer: /inbox answer ID CHOICE [TEXT]")
    own = {each.id for each in await chat.questions()}
    item = await item_of(chat.api.inbox, item_id)
    if not words.strip():
        raise UsageError(
            f"give your answer: /inbox answer {item.id} {answer_words(item, in_chat=True)}"
        )
    choice, text = split_answer(words.strip(), item.options)
    done = await chat.api.inbox.answer(item.id, choice, text=text)
    given = done.answer.choice or done.answer.text if done.answer is not None else ""
    line = f"{item.id} answered: {spelled_out(given)}"
    if item.session_id is not None and item.id not in own:
        line = f"{line}; the process that runs session {item.session_id} continues with it"
    record = {**to_json(done), "text": line}
    chat.screen.reply(CommandReply(type="answered", record=record, shapes=(Lines(text=line),)))
    return await chat.after_answer()


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
