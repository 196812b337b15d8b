"""`/state`, `/cost` and `/memory`: the session's state and cost, and the user's memories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ekiden.cli.chat.screens.screen import CommandReply, Lines, Pairs, Shape, Table, text_reply
from ekiden.cli.errors import UsageError

if TYPE_CHECKING:
    from ekiden.cli.chat.local import LocalChat
    from ekiden.memory import Memory
    from ekiden.runtime.history.session_state import SharedVariable
    from ekiden.sessions.state import SharedScope


_NOTHING = "there are no messages yet: no state"


async def state(chat: LocalChat, argument: str) -> CommandReply:
    """`/state [at SEQ]`."""
    from ekiden.cli.views.state import state_pairs, variable_rows

    at = _number(argument)
    if chat.row is None:
        raise UsageError(_NOTHING)
    await chat.check_owner(chat.row.id)
    found = await chat.session.state(at)
    shapes: list[Shape] = [
        Pairs(pairs=state_pairs(found)),
        Table(
            headers=("variable", "value"),
            rows=variable_rows(found.variables),
            empty="the session has no variables",
        ),
    ]
    record: dict[str, Any] = {"state": found.to_json()}
    if at is None:
        shapes += await _shared(chat, record)
    return CommandReply(type="state", record=record, shapes=shapes)


async def cost(chat: LocalChat, argument: str) -> CommandReply:
    """`/cost`."""
    from ekiden.api.local.traces import summary_of
    from ekiden.cli.views.sessions import cost_headers, cost_rows, unpriced_note
    from ekiden.core.documents import to_json
    from ekiden.models.prices import has_price_list
    from ekiden.sessions.costs import cost_report, events_with_asked

    events = []
    if chat.row is not None:
        events = await events_with_asked(chat.store, chat.session.session_id)
    report = summary_of(cost_report(events, chat.config.prices))
    table = Table(
        headers=cost_headers(report), rows=cost_rows(report), empty="there were no model calls"
    )
    missing = unpriced_note(report, has_list=has_price_list())
    shapes: list[Shape] = [table]
    if missing:
        shapes.append(Lines(text=missing))
    return CommandReply(type="cost", record=to_json(report), shapes=shapes)


async def _shared(chat: LocalChat, record: dict[str, Any]) -> list[Shape]:
    """The variables of the session's user and of the app, if there are any."""
    from ekiden.cli.views.state import HEADERS, shared_rows
    from ekiden.core.documents import to_json
    from ekiden.runtime.history.session_state import shared_state

    assert chat.row is not None
    owners: tuple[tuple[SharedScope, str | None], ...] = (
        ("user", chat.row.user_id),
        ("app", chat.config.app),
    )
    shapes: list[Shape] = []
    for scope, owner in owners:
        if owner:
            found: dict[str, SharedVariable] = await shared_state(chat.store, scope, owner)
            record[scope] = to_json(dict(sorted(found.items())))
            if found:
                heading = f"of the {scope} {owner}"
                shapes.append(Table(headers=HEADERS, rows=shared_rows(found), heading=heading))
    return shapes


def _number(argument: str) -> int | None:
    if not argument:
        return None
    number = argument.removeprefix("at ").strip()
    if not number.isascii() or not number.isdecimal() or len(number) > 15:
        raise UsageError("give the event: /state at 7; `/agents trace` lists them")
    return int(number)


_LISTED = 50


async def memories(chat: LocalChat, argument: str) -> CommandReply:
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


async def search_memory(chat: LocalChat, argument: str) -> CommandReply:
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


async def forget(chat: LocalChat, argument: str) -> CommandReply:
    """`/memory forget KEY`."""
    from ekiden.core.errors.memory import MemoryNotFound

    if not argument:
        raise UsageError("name the key: /memory forget KEY; /memory lists the keys")
    if not await _memory(chat).forget(argument):
        raise MemoryNotFound(argument)
    return text_reply("forgotten", f"{argument} is forgotten", key=argument)


def _memory(chat: LocalChat) -> Memory:
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
