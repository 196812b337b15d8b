"""`/memory …`: what is remembered about this user beyond the session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ekiden.cli.chat.screens.screen import CommandReply, Lines, Shape, Table, told
from ekiden.cli.errors import UsageError

if TYPE_CHECKING:
    from ekiden.cli.chat.conversation import Chat
    from ekiden.memory import Memory

_LISTED = 50


async def listed(chat: Chat, argument: str) -> CommandReply:
    """`/memory`."""
    from ekiden.api.local.memory import entry_of
    from ekiden.cli.views.state import memory_table
    from ekiden.core.documents import to_json

    found = await _memory(chat).list(limit=_LISTED + 1)
    page = [entry_of(each) for each in found[:_LISTED]]
    headers, rows = memory_table(page)
    table = Table(headers=headers, rows=rows, empty="there are no memories")
    shapes: list[Shape] = [table]
    if len(found) > _LISTED:
        shapes.append(Lines(text="there are more: /memory search TEXT finds them"))
    record = {"memories": to_json(page)}
    return CommandReply(type="memories", record=record, shapes=shapes)


async def search(chat: Chat, argument: str) -> CommandReply:
    """`/memory search TEXT`."""
    from ekiden.api.local.memory import found_of
    from ekiden.cli.views.state import found_table
    from ekiden.core.documents import to_json

    if not argument:
        raise UsageError("give the text to search for: /memory search TEXT")
    answer = await _memory(chat).recall(argument)
    found = [found_of(each) for each in answer.found]
    headers, rows = found_table(found)
    table = Table(headers=headers, rows=rows, empty="no memory matches")
    record = {"memories": to_json(found)}
    shapes: list[Shape] = [table, *(Lines(text=text) for text in answer.notes)]
    return CommandReply(type="memories", record=record, shapes=shapes)


async def forget(chat: Chat, argument: str) -> CommandReply:
    """`/memory forget KEY`."""
    from ekiden.core.errors.memory import MemoryNotFound

    if not argument:
        raise UsageError("name the key: /memory forget KEY; /memory lists the keys")
    if not await _memory(chat).forget(argument):
        raise MemoryNotFound(argument)
    return told("forgotten", f"{argument} is forgotten", key=argument)


def _memory(chat: Chat) -> Memory:
    """The memory of the agent that has the conversation; keyword search if it has none."""
    from ekiden.core.profile import MemorySettings
    from ekiden.memory import Memory

    project, config = chat.roster.project, chat.config
    agent = project.agents.get(chat.active)
    settings = None if agent is None else agent.memory
    row = chat.row
    return Memory(
        chat.store,
        user=chat.session.user_id if row is None else row.user_id,
        app=config.app,
        settings=settings or MemorySettings(top_k=project.settings.memory.top_k),
        embedder=config.embedder,
    )
