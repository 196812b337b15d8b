"""`/agents …` and `/inbox …`: the team, and the questions that wait for a person."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ekiden.cli.chat.screen import (
    CommandReply,
    Lines,
    Pairs,
    Quoted,
    Shape,
    Table,
    event_line,
    said_by_agent,
    text_reply,
)
from ekiden.cli.errors import UsageError
from ekiden.cli.transcript import (
    SCORE_HEADERS,
    duration,
    reason_pairs,
    route_line,
    score_rows,
    shorten,
)
from ekiden.cli.views.inbox import (
    answer_words,
    item_facts,
    item_texts,
    question_line,
    question_record,
    quoted,
)
from ekiden.core.conversation.model import text_of
from ekiden.core.values import dumps
from ekiden.tools.output import spelled_out

if TYPE_CHECKING:
    from ekiden.cli.chat.conversation import Chat
    from ekiden.cli.chat.local import LocalChat
    from ekiden.core.events import Event
    from ekiden.project.project import Project
    from ekiden.project.settings import LoadedSettings

_ROUTING = "routing"
_LONGEST_LINE = 100


async def agents(chat: Chat, argument: str) -> CommandReply:
    """`/agents`."""
    from ekiden.core.documents import to_json

    records = [
        {**to_json(each), "active": each.name == chat.active}
        async for each in chat.api.agents.list()
    ]
    rows = [
        (
            f"@{each['name']}" + (" *" if each["active"] else ""),
            " ".join(str(each["title"] or each["description"] or "").split()),
            ", ".join(each["handoffs"]),
        )
        for each in records
    ]
    return CommandReply(
        type="agents",
        record={"agents": records},
        shapes=(Table(headers=("agent", "description", "hands to"), rows=rows),),
    )


async def show_agent(chat: Chat, argument: str) -> CommandReply:
    """`/agents show NAME`."""
    from ekiden.cli.views.agents import detail_pairs
    from ekiden.core.documents import to_json

    name = argument.removeprefix("@")
    if not name:
        raise UsageError("name the agent: /agents show NAME")
    found = await chat.api.agents.get(name)
    shape = Pairs(pairs=detail_pairs(found))
    return CommandReply(type="agent_details", record=to_json(found), shapes=(shape,))


async def route(chat: Chat, argument: str) -> CommandReply:
    """`/agents route TEXT`."""
    from ekiden.core.documents import to_json
    from ekiden.project.routing import parse_address

    if not parse_address(argument).text.strip():
        raise UsageError("give the text to route: /agents route TEXT")
    found = await chat.api.agents.route(argument)
    record = to_json(found)
    return CommandReply(
        type="analysis",
        record=record,
        shapes=(
            Lines(text=route_line(record)),
            Pairs(pairs=reason_pairs(found)),
            Table(headers=SCORE_HEADERS, rows=score_rows(found)),
        ),
    )


async def config(chat: LocalChat, argument: str) -> CommandReply:
    """`/agents config routing[.KEY [VALUE]]`."""
    key, _, value = argument.partition(" ")
    key = key or _ROUTING
    if key.split(".")[0] not in (_ROUTING, "agents"):
        raise UsageError(
            "only routing is changed here: /agents config routing[.KEY [VALUE]]; `ekiden "
            "config` has all settings"
        )
    if value.strip():
        return await _set(chat, key, value.strip())
    return _shown(chat, key)


async def _set(chat: LocalChat, key: str, value: str) -> CommandReply:
    from ekiden.project.settings import agent_names_check, set_setting
    from ekiden.project.trust import keeping_trust

    project = chat.roster.project
    team = {name: agent.scope for name, agent in project.agents.items()}
    check = agent_names_check(key, root=project.root, agents=None if project.definitions else team)
    with keeping_trust(project.root):
        change = set_setting(key, value, root=project.root, check=check)
    text = f"{change.name} is {dumps(change.value)} in {change.path}"
    problem = await chat.roster.reload()
    if problem is not None:
        chat.screen.note(f"{text}; the team stays unchanged")
        raise problem
    holds = chat.roster.project.loaded.value(change.name)
    if holds != change.value:
        origin = chat.roster.project.loaded.origin(change.name)
        text = f"{text}; it has no effect here: {origin} takes precedence"
    record = {"key": change.name, "value": change.value, "path": str(change.path)}
    return CommandReply(type="config", record=record, shapes=(Lines(text=text),))


def _shown(chat: LocalChat, key: str) -> CommandReply:
    loaded = _on_disk(chat.roster.project)
    value = loaded.value(key)
    rows = [
        (name, dumps(each), str(loaded.origin(f"{key}.{name}" if name != key else key)))
        for name, each in _flat(value, key)
    ]
    return CommandReply(
        type="config",
        record={"key": key, "value": value},
        shapes=(Table(headers=("key", "value", "from"), rows=rows),),
    )


def _on_disk(project: Project) -> LoadedSettings:
    """The settings in the files as they are now; options of the command line override them."""
    from ekiden.project.settings import load_settings

    given = {
        name: project.loaded.value(name)
        for name, origin in project.loaded.origins.items()
        if origin.kind == "call"
    }
    return load_settings(project.root, overrides=given)


def _flat(value: Any, key: str, above: str = "") -> list[tuple[str, Any]]:
    """The settings of a group, with names below `key`; `key` itself for a single setting."""
    if not isinstance(value, dict):
        return [(above or key, value)]
    return [
        pair
        for name, each in value.items()
        for pair in _flat(each, key, f"{above}.{name}".lstrip("."))
    ]


async def handoff_chain(chat: Chat, argument: str) -> CommandReply:
    """`/agents handoff-chain`."""
    from ekiden.api.sessions import SessionChain
    from ekiden.cli.views.sessions import CHAIN_HEADERS, chain_rows
    from ekiden.core.documents import to_json

    if chat.summary is None:
        found = SessionChain(session_id=chat.session_id or "", chain=(), handoffs=())
    else:
        found = await chat.api.sessions.chain(chat.summary.session_id)
    chain = " → ".join(found.chain) or "there are no messages yet"
    if found.waiting_for is not None:
        chain = f"{chain}, waiting for {found.waiting_for}"
    table = Table(headers=CHAIN_HEADERS, rows=chain_rows(found), empty="no handoffs")
    return CommandReply(type="chain", record=to_json(found), shapes=(Lines(text=chain), table))


async def trace(chat: Chat, argument: str) -> CommandReply:
    """`/agents trace`."""
    from ekiden.cli.output import clock_time

    events = await chat.events()
    rows = [
        (
            str(event.seq),
            clock_time(event.at_us / 1e6).partition(" ")[2],
            event.type,
            event.agent or "",
            "" if event.duration_us is None else duration(event.duration_us),
            _gist(event),
        )
        for event in events
    ]
    record = {"session_id": chat.session_id, "events": [_without_items(event) for event in events]}
    table = Table(
        headers=("#", "time", "event", "agent", "took", "what"),
        rows=rows,
        empty="there are no messages yet",
    )
    return CommandReply(type="trace", record=record, shapes=(table,))


def _without_items(event: Event) -> dict[str, Any]:
    return {name: value for name, value in event.to_json().items() if name != "items"}


def _gist(event: Event) -> str:
    details = event.details or {}
    line = event_line(event) or event.error or said_by_agent(event)
    if not line and event.type == "message":
        line = " ".join(text_of(item) for item in event.items)
    if not line and "reason" in details:
        line = str(details["reason"])
    return shorten(" ".join(line.split()), _LONGEST_LINE)


_LISTED = 50


# The inbox.


async def inbox(chat: Chat, argument: str) -> CommandReply:
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


async def show_item(chat: Chat, argument: str) -> CommandReply:
    """`/inbox show ID`."""
    from ekiden.cli.ids import item_of
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
